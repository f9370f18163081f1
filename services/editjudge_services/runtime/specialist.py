"""What a specialist is: a small class with typed arrays in and out.

Everything else (decoding, batching, errors, metrics, configuration) is the runtime's.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from editjudge.errors import Abstained
from editjudge.panel.contracts import Contract

Outputs: TypeAlias = "Mapping[str, NDArray[np.float32] | str | bytes]"
"""One reply by tensor name, without the batch axis."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, decoded.

    Attributes:
        tensors: By name: uint8 RGB (H, W, 3) for images, bool (H, W) for masks, text; None
            for what was left out.
        parameters: The contract's parameters, defaults filled in.
    """

    tensors: Mapping[str, Any]
    parameters: Mapping[str, str] = field(default_factory=dict)


def digest_of(weights: Mapping[str, str]) -> str:
    """One digest for several weight files.

    Args:
        weights: File name to sha256.

    Returns:
        `sha256:` and 16 hex digits, the same whatever the order of the files.
    """
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(weights.items()))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]


class Specialist(ABC):
    """One model behind Triton.

    Attributes:
        name: The model's name, `role_variant`.
        contract: What its role takes and gives.
        identity: What a signature says of it: implementation, weights, precision.
        max_batch: Requests handed over at once, at most.
        max_queue: Requests waiting, at most; beyond that they are rejected.
        queue_seconds: How long a request may wait before it is rejected.
        entry: The manifest entry whose exported weights it serves; "" for none. Then it is
            loaded only where they are installed, and `identity` is completed with theirs.
    """

    name: ClassVar[str]
    contract: ClassVar[Contract]
    identity: ClassVar[Mapping[str, str]]
    max_batch: ClassVar[int] = 8
    max_queue: ClassVar[int] = 128
    queue_seconds: ClassVar[float] = 60.0
    entry: ClassVar[str] = ""

    def load(self, declared: Mapping[str, str]) -> None:
        """Load weights and warm up; the model is ready once this returns.

        Args:
            declared: The parameters of its `config.pbtxt`: `identity`, and with `entry`
                those of the artefact to serve.

        Raises:
            RuntimeError: weights are absent, or not those that `identity` declares.
        """
        return

    @abstractmethod
    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstained]:
        """Judge a batch.

        Returns:
            For each request in order its outputs, or why there is no value for it.
        """
