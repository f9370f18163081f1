"""One Triton server over gRPC: the KServe v2 protocol, with typed errors.

The stubs and messages are tritonclient's; its client classes are not used (errors as
strings, no checks, half the request rate once arrays are wrapped).
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ..base.contracts import ABSTAINED, Contract, Tensor, Tensors
from ..base.errors import Abstained, BadReply, DeadlineExceeded, NotServed, Refused, ServiceError
from ..base.identity import ModelIdentity
from .channel import Channel
from .grpc_errors import CHANNEL_OPTIONS, service_error, words
from .retry import RetryPolicy, with_retries

if TYPE_CHECKING:
    from ..base.config import Endpoint

MAX_REQUEST_BYTES = 32 * 1024 * 1024
_LENGTH = struct.Struct("<I")
_FINITE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


class TritonEndpoint:
    """A channel to one Triton server; use as an async context manager.

    Args:
        endpoint: Its address, with what it takes to be let in.
        policy: How often and how long to ask.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.
    """

    def __init__(self, endpoint: Endpoint, policy: RetryPolicy | None = None) -> None:
        import grpc.aio
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        self.url = endpoint.url
        self._policy = policy or RetryPolicy()
        self._messages = service_pb2
        self._metadata = tuple(endpoint.header_values().items())
        parts = urlsplit(endpoint.url)
        secure = parts.scheme == "grpcs"
        credentials = grpc.ssl_channel_credentials(**endpoint.certificates()) if secure else None

        def opened() -> Any:
            if secure:
                return grpc.aio.secure_channel(parts.netloc, credentials, options=CHANNEL_OPTIONS)
            return grpc.aio.insecure_channel(parts.netloc, options=CHANNEL_OPTIONS)

        def use(channel: Any) -> None:
            self._stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        self._channel = Channel(opened, use, self._policy.deadline)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        await self._channel.close()

    async def server(self, timeout: float) -> tuple[str, str]:
        """Name and version of the server.

        Raises:
            ServiceError: it cannot be reached or asked.
        """
        reply = await self._ask("ServerMetadata", "server", "", timeout)
        return reply.name, reply.version

    async def ready(self, model: str, timeout: float) -> bool:
        """Whether a model is ready; False when the server has no such model.

        Raises:
            ServiceError: the server cannot be reached or asked.
        """
        try:
            reply = await self._ask("ModelReady", model, model, timeout, name=model)
        except NotServed:
            return False
        return bool(reply.ready)

    async def identity(self, model: str, timeout: float) -> ModelIdentity:
        """Which model this is.

        Raises:
            NotServed: the server has no such model.
            ServiceError: it cannot be reached or asked.
        """
        reply = await self._ask("ModelConfig", model, model, timeout, name=model)
        parameters = {k: v.string_value for k, v in reply.config.parameters.items()}
        version = parameters.pop("version", "1")
        hidden = {"EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS"}
        shown = {k: v for k, v in parameters.items() if k not in hidden}
        return ModelIdentity(f"{model}/{version}", shown)

    async def infer(
        self,
        contract: Contract,
        model: str,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
        *,
        service: str,
    ) -> Tensors:
        """Call a model on one request, with retries inside the policy's deadline.

        Args:
            inputs: Encoded bytes by tensor name.
            parameters: The contract's parameters; the server fills in defaults.
            service: `role.variant`, for errors.

        Returns:
            Outputs by name without the batch axis: bytes for `BYTES` tensors, float32
            arrays otherwise, checked for type, shape, finiteness and bounds.

        Raises:
            Abstained: the model has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        request = self._request(contract, model, inputs, service)
        for name, value in (parameters or {}).items():
            request.parameters[name].string_param = value

        async def once(left: float) -> Any:
            began = asyncio.get_running_loop().time()
            try:
                reply = await self._stub.ModelInfer(request, timeout=left, metadata=self._metadata)
            except self._rpc_error as error:
                failure = self._translated(error, service, model)
                if isinstance(failure, DeadlineExceeded):
                    self._channel.late(began)
                raise failure from error
            self._channel.heard()
            return reply

        reply = await with_retries(once, self._policy)
        try:
            return _checked(contract, reply)
        except ValueError as error:
            raise BadReply(str(error), service=service, endpoint=self.url, model=model) from error

    @property
    def _rpc_error(self) -> type[Exception]:
        import grpc

        return grpc.RpcError  # type: ignore[no-any-return]

    def _request(
        self, contract: Contract, model: str, inputs: Mapping[str, bytes], service: str
    ) -> Any:
        request = self._messages.ModelInferRequest(model_name=model)
        for tensor in contract.inputs:
            payload = inputs.get(tensor.name)
            if payload is None and tensor.optional:
                continue
            if payload is None:
                raise ValueError(f"{service}: the call lacks {tensor.name}")
            if len(payload) > MAX_REQUEST_BYTES:
                raise Refused(
                    f"{tensor.name} of {len(payload):,} bytes, the limit is {MAX_REQUEST_BYTES:,}",
                    service=service,
                    endpoint=self.url,
                    model=model,
                )
            request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=(1, *tensor.shape))
            request.raw_input_contents.append(_LENGTH.pack(len(payload)) + payload)
        return request

    async def _ask(
        self, method: str, service: str, model: str, timeout: float, **fields: str
    ) -> Any:
        request = getattr(self._messages, f"{method}Request")(**fields)
        try:
            call = getattr(self._stub, method)
            return await call(request, timeout=timeout, metadata=self._metadata)
        except self._rpc_error as error:
            raise self._translated(error, service, model) from error

    def _translated(self, error: Any, service: str, model: str) -> ServiceError | Abstained:
        """The typed error of a status; the server's own words are kept."""
        import grpc

        marker, _, reason = words(error).partition(": ")
        if error.code() == grpc.StatusCode.INVALID_ARGUMENT and marker.startswith(f"{ABSTAINED}/"):
            return Abstained(marker.removeprefix(f"{ABSTAINED}/"), reason)
        return service_error(error, service=service, endpoint=self.url, model=model)


def _checked(contract: Contract, reply: Any) -> Tensors:
    """Read a reply's tensors, refusing whatever breaks the contract.

    Raises:
        ValueError: naming the tensor and what is wrong with it.
    """
    if len(reply.outputs) != len(reply.raw_output_contents):
        raise ValueError("the reply's tensors are not in raw form")
    tensors = {
        t.name: (t, raw) for t, raw in zip(reply.outputs, reply.raw_output_contents, strict=True)
    }
    outputs: Tensors = {}
    for tensor in contract.outputs:
        if tensor.name not in tensors:
            raise ValueError(f"the reply lacks {tensor.name}")
        got, raw = tensors[tensor.name]
        shape = tuple(got.shape)
        if got.datatype != tensor.dtype or not _fits(shape, tensor):
            raise ValueError(
                f"{tensor.name} is {got.datatype}{list(shape)}, "
                f"not {tensor.dtype}{[1, *tensor.shape]}"
            )
        outputs[tensor.name] = (
            _text(tensor, raw) if tensor.dtype == "BYTES" else _array(tensor, raw, shape[1:])
        )
    return outputs


def _fits(shape: Sequence[int], tensor: Tensor) -> bool:
    expected = (1, *tensor.shape)
    return len(shape) == len(expected) and all(
        e in {-1, s} for s, e in zip(shape, expected, strict=True)
    )


def _text(tensor: Tensor, raw: bytes) -> bytes:
    if len(raw) < _LENGTH.size or _LENGTH.unpack_from(raw)[0] != len(raw) - _LENGTH.size:
        raise ValueError(f"{tensor.name} does not hold exactly one string")
    return raw[_LENGTH.size :]


def _array(tensor: Tensor, raw: bytes, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if len(raw) != 4 * math.prod(shape):
        raise ValueError(f"{tensor.name} has {len(raw)} bytes for shape {list(shape)}")
    values = np.frombuffer(raw, dtype="<f4").reshape(shape)
    low, high = tensor.bounds or _FINITE
    # Written so that NaN, which compares to nothing, fails too.
    if values.size and not (values.min() >= low and values.max() <= high):
        if not np.isfinite(values).all():
            raise ValueError(f"{tensor.name} holds NaN or infinity")
        raise ValueError(
            f"{tensor.name} is outside {low:g}..{high:g}: {values.min()}..{values.max()}"
        )
    return values
