"""What a specialist is: a small class with typed arrays in and out.

Everything else (decoding, batching, errors, metrics, configuration) is the runtime's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from editjudge.base.contracts import Contract
from editjudge.base.errors import Abstained
from editjudge.base.signature import package_version

from ..zoo.artefact import Precision, load_artefact
from .onnx import find_distribution

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


class BadRequest(ValueError):
    """A request that can be decoded but not judged: its caller's mistake, told in one line."""


class Unavailable(RuntimeError):
    """Something this model calls does not answer; asking again later can help."""


class Specialist(ABC):
    """One model behind Triton.

    Attributes:
        name: The model's name, `role_variant`.
        contract: What its role takes and gives.
        identity: What a signature says of it: implementation, weights, precision.
        packages: Distributions whose version can change its answers; named in its identity.
        engines: Likewise, the distribution that computes in each precision.
        on_gpu: Precisions in which it can run on a GPU.
        max_batch: Requests handed over at once, at most.
        max_queue: Requests waiting, at most; beyond that they are rejected.
        queue_seconds: How long a request may wait before it is rejected.
        entry: The manifest entry whose exported weights it serves; "" for none.
    """

    name: ClassVar[str]
    contract: ClassVar[Contract]
    identity: ClassVar[Mapping[str, str]]
    packages: ClassVar[tuple[str, ...]] = ()
    engines: ClassVar[Mapping[Precision, str]] = {}
    on_gpu: ClassVar[frozenset[Precision]] = frozenset()
    max_batch: ClassVar[int] = 8
    max_queue: ClassVar[int] = 128
    queue_seconds: ClassVar[float] = 60.0
    entry: ClassVar[str] = ""

    @classmethod
    def installed_identity(cls, precision: Precision) -> Mapping[str, str] | None:
        """What completes `identity` on this machine; None where it cannot be served here.

        Raises:
            ConfigError: what is installed cannot be read.
        """
        if not cls.entry:
            return {}
        artefact = load_artefact(cls.entry, precision)
        return artefact.identity if artefact else None

    @classmethod
    def libraries(cls, precision: Precision) -> dict[str, str]:
        """Versions of what its answers depend on, by distribution."""
        engine = cls.engines.get(precision)
        names = (*cls.packages, engine) if engine else cls.packages
        return {name: package_version(name) for name in map(find_distribution, names)}

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load weights and warm up; the model is ready once this returns.

        Args:
            parameters: The parameters of its `config.pbtxt`: `identity`, and with `entry`
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

        Raises:
            BadRequest: a request of the batch cannot be judged; it is asked again alone.
            Unavailable: something that this model calls does not answer.
        """
