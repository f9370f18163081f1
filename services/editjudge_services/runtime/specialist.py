"""The base class of specialists, which take decoded arrays and return arrays.

Decoding, batching, errors, metrics and configuration are the runtime's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from editjudge.base.contracts import Contract
from editjudge.base.errors import Abstention
from editjudge.base.signature import package_version

from ..zoo.artefact import Precision, load_artefact
from .onnx import find_distribution

Outputs: TypeAlias = "Mapping[str, NDArray[np.float32] | str | bytes]"
"""One reply by tensor name, without the batch axis."""


@dataclass(frozen=True, slots=True)
class Request:
    """One decoded request.

    Attributes:
        tensors: Inputs by name: uint8 RGB (H, W, 3) for images, bool (H, W) for masks, str for
            texts; None for an optional input that was left out.
        parameters: The contract's parameters, with defaults filled in.
    """

    tensors: Mapping[str, Any]
    parameters: Mapping[str, str] = field(default_factory=dict)


class BadRequest(ValueError):
    """A request that was decoded but cannot be answered, by its caller's mistake; in one line."""


class Unavailable(RuntimeError):
    """A server that this model calls does not answer; the same request may succeed later."""


class Specialist(ABC):
    """One model behind Triton.

    Attributes:
        name: The model's name, `role_variant`.
        contract: The inputs, outputs and parameters of its role.
        identity: The facts that enter signatures: implementation, weights, precision.
        packages: Distributions whose version can change its answers; their versions enter its
            identity.
        engines: The distribution that computes in each precision; its version does too.
        on_gpu: The precisions in which it can run on a GPU.
        on_tensorrt: Those in which it can run on TensorRT's engines.
        max_batch: The largest batch that `infer` gets.
        max_queue: How many requests may wait; further ones are rejected at once.
        queue_seconds: How long a request may wait before it is rejected.
        entry: The manifest entry whose exported weights it serves; "" for none.
    """

    name: ClassVar[str]
    contract: ClassVar[Contract]
    identity: ClassVar[Mapping[str, str]]
    packages: ClassVar[tuple[str, ...]] = ()
    engines: ClassVar[Mapping[Precision, str]] = {}
    on_gpu: ClassVar[frozenset[Precision]] = frozenset()
    on_tensorrt: ClassVar[frozenset[Precision]] = frozenset()
    max_batch: ClassVar[int] = 8
    max_queue: ClassVar[int] = 128
    queue_seconds: ClassVar[float] = 60.0
    entry: ClassVar[str] = ""

    @classmethod
    def installed_identity(cls, precision: Precision) -> Mapping[str, str] | None:
        """The facts that complete `identity` on this machine; None where it cannot be served here.

        Raises:
            ConfigError: the installed export cannot be read.
        """
        if not cls.entry:
            return {}
        artefact = load_artefact(cls.entry, precision)
        return artefact.identity if artefact else None

    @classmethod
    def libraries(cls, precision: Precision, *, in_tensorrt: bool = False) -> dict[str, str]:
        """The versions of the distributions that can change its answers."""
        engines = ("onnxruntime", "tensorrt") if in_tensorrt else filter(None, [cls.engines.get(precision)])
        names = (*cls.packages, *engines)
        return {name: package_version(name) for name in map(find_distribution, names)}

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load weights and warm up; the model is ready once this returns.

        Args:
            parameters: The parameters of its `config.pbtxt`: `identity`, and with `entry`
                those of the artefact to serve.

        Raises:
            ConfigError: weights are absent, or not those that `identity` declares.
        """
        return

    @abstractmethod
    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Answer a batch.

        Returns:
            For each request, in order, its outputs, or the reason why it has no value.

        Raises:
            BadRequest: a request of the batch cannot be answered. The runtime then sends each
                request alone, so that the others get their answers.
            Unavailable: a server that this model calls does not answer.
        """
