"""A client of one Triton server over gRPC: the KServe v2 protocol, with typed errors.

Stubs and messages are tritonclient's. Its client classes are not used: they give errors as strings,
check nothing, and reach half the request rate once arrays are wrapped.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ..base.config import Endpoint
from ..base.contracts import ABSTENTION, CONTRACTS, MODEL_HEADER, Contract, Tensor, Tensors
from ..base.errors import Abstention, BadReply, NoModel, Rejection, ServiceError
from ..base.identity import ModelIdentity, ServiceName
from ..base.verdict import NoScoreKind
from .context import AnyTerms
from .grpc_channel import GrpcConnection, read_status, read_team
from .redaction import shorten
from .retry import RetryPolicy, call_with_retries
from .specialists import model_name

MAX_REQUEST_BYTES = 32 * 1024 * 1024
MAX_TEXT_BYTES = 1024 * 1024
"""Limit of a text that a model returns: hundreds of pages."""
MAX_ROWS = 65_536
"""Limit of an axis of free length: boxes of text, numbers of an embedding."""
FIRST = 1
"""Triton's highest priority. A call without one has the model's default, which is lower; a model
without priorities takes a call with one as any other."""
_ABSTENTION = f"{ABSTENTION}/"
_LENGTH = struct.Struct("<I")
_FINITE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


class Server(NamedTuple):
    """What a server reports of itself.

    Attributes:
        name: Its name.
        version: Its version.
        team: The team as which a front door before it knows the caller; "" where none says.
    """

    name: str
    version: str
    team: str = ""


class TritonEndpoint(GrpcConnection):
    """A client of one Triton server; use as an async context manager.

    Args:
        endpoint: Its address and credentials.
        policy: How often and how long to try.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.
    """

    def __init__(self, endpoint: Endpoint, policy: RetryPolicy | None = None) -> None:
        from tritonclient.grpc import service_pb2, service_pb2_grpc

        self._messages: Any = service_pb2
        self._versions: dict[str, str] = {}
        stub = service_pb2_grpc.GRPCInferenceServiceStub
        super().__init__(endpoint, "server", policy or RetryPolicy(), stub)

    async def server(self, timeout: float) -> Server:
        """Ask the server for its name and version, and for the team as which it knows the caller.

        Args:
            timeout: Seconds.

        Raises:
            ServiceError: the server cannot be reached, or refuses.
        """
        request = self._messages.ServerMetadataRequest()
        call = self.stub.ServerMetadata(request, timeout=timeout, metadata=self.metadata)
        reply = self.secrets.redact_message(await self.await_reply(call))
        return Server(reply.name, reply.version, await read_team(call))

    async def ready(self, model: str, timeout: float) -> bool:
        """Whether a model is ready; False when the server has no such model.

        Raises:
            ServiceError: the server cannot be reached, or refuses.
        """
        try:
            reply = await self._fetch("ModelReady", model, timeout)
        except NoModel:
            return False
        return bool(reply.ready)

    async def identity(self, model: str, timeout: float) -> ModelIdentity:
        """The identity of a model. From then on `infer` asks for this version of the model alone.

        Raises:
            NoModel: the server has no such model.
            ServiceError: the server cannot be reached, or refuses.
        """
        about = await self._fetch("ModelMetadata", model, timeout)
        self._versions[model] = max(about.versions, key=_order, default="")
        config = await self._config(model, timeout)
        parameters = {k: v.string_value for k, v in config.parameters.items()}
        version = parameters.pop("version", "1")
        omitted_keys = {"EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS", "device"}
        facts = {k: v for k, v in parameters.items() if k not in omitted_keys}
        return ModelIdentity(f"{model}/{version}", facts)

    async def device(self, model: str, timeout: float) -> str:
        """The devices of a model's instances: `gpu`, `cpu` or `auto`; several are joined by `+`.

        Raises:
            ServiceError: the server cannot be reached, or refuses.
        """
        config = await self._config(model, timeout)
        group = type(config).DESCRIPTOR.fields_by_name["instance_group"].message_type
        kinds = group.enum_types_by_name["Kind"].values_by_number
        kinds_in_use = {kinds[each.kind].name for each in config.instance_group}
        return "+".join(sorted(kind.removeprefix("KIND_").lower() for kind in kinds_in_use))

    async def _config(self, model: str, timeout: float) -> Any:
        return (await self._fetch("ModelConfig", model, timeout)).config

    async def infer(
        self, service: ServiceName, inputs: Mapping[str, bytes], parameters: Mapping[str, str], terms: AnyTerms
    ) -> Tensors:
        """Call the model of a service on one request, with retries within the policy's deadline.

        Args:
            service: Its role has the contract.
            inputs: Encoded bytes by tensor name.
            parameters: The contract's parameters; the server fills in defaults.
            terms: Terms of the callers.

        Returns:
            Outputs by name without the batch axis: bytes for `BYTES` tensors, float32 arrays
            otherwise, checked for type, shape, finiteness and bounds. Texts are UTF-8 of at most
            `MAX_TEXT_BYTES`.

        Raises:
            Abstention: the model has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        contract, model = CONTRACTS[service.role], model_name(service)
        request = self._request(contract, model, inputs, service)
        for name, value in parameters.items():
            request.parameters[name].string_param = value
        if terms.urgent:
            request.parameters["priority"].int64_param = FIRST

        metadata = self._make_metadata(model)

        async def once(left: float) -> Any:
            call = self.stub.ModelInfer(request, timeout=left, metadata=metadata)
            return await self.await_reply(call, service, model)

        reply = await call_with_retries(once, self._policy, terms)
        try:
            _check_model(request, reply)
            outputs = _read_outputs(contract, reply)
        except ValueError as error:
            raise self.make_error(BadReply, str(error), service, model) from error
        return self._without_secrets(contract, outputs)

    def _without_secrets(self, contract: Contract, outputs: Tensors) -> Tensors:
        for tensor in contract.outputs:
            text = outputs[tensor.name]
            if tensor.holds == "text" and isinstance(text, bytes):
                outputs[tensor.name] = self.secrets.redact_json(text.decode()).encode()
        return outputs

    def _request(self, contract: Contract, model: str, inputs: Mapping[str, bytes], service: str) -> Any:
        version = self._versions.get(model, "")
        request = self._messages.ModelInferRequest(model_name=model, model_version=version)
        for tensor in contract.inputs:
            payload = inputs.get(tensor.name)
            if payload is None and tensor.optional:
                continue
            if payload is None:
                raise ValueError(f"{service}: the call lacks {tensor.name}")
            if len(payload) > MAX_REQUEST_BYTES:
                size = f"{len(payload):,} bytes, the limit is {MAX_REQUEST_BYTES:,}"
                raise self.make_error(Rejection, f"{tensor.name} of {size}", service, model)
            request.inputs.add(name=tensor.name, datatype=tensor.dtype, shape=(1, *tensor.shape))
            request.raw_input_contents.append(_LENGTH.pack(len(payload)) + payload)
        return request

    async def _fetch(self, method: str, model: str, timeout: float) -> Any:
        request = getattr(self._messages, f"{method}Request")(name=model)
        call = getattr(self.stub, method)
        call = call(request, timeout=timeout, metadata=self._make_metadata(model))
        return self.secrets.redact_message(await self.await_reply(call, model, model))

    def _make_metadata(self, model: str) -> tuple[tuple[str, str], ...]:
        """Metadata of a call: a proxy in between finds the server by the model's header."""
        return (*self.metadata, (MODEL_HEADER, model))

    def to_error(self, error: Any, service: str | None = None, model: str | None = None) -> ServiceError | Abstention:
        """The typed error for a status, or the abstention that it carries."""
        import grpc

        marker, _, reason = read_status(error).partition(": ")
        if error.code() != grpc.StatusCode.INVALID_ARGUMENT or not marker.startswith(_ABSTENTION):
            return super().to_error(error, service, model)
        kind = marker.removeprefix(_ABSTENTION)
        if kind in get_args(NoScoreKind):
            return Abstention(kind, shorten(self.secrets.redact_json(reason)))
        unknown = f"it abstains as {kind[:40]!r}, not as {', '.join(get_args(NoScoreKind))}"
        return self.make_error(BadReply, unknown, service, model)


def _order(version: str) -> tuple[int, str]:
    """Sort key of a version: versions are numbers, and the newest is the largest."""
    return (int(version) if version.isdecimal() else -1, version)


def _check_model(request: Any, reply: Any) -> None:
    """Refuse a reply of another model, or of another version than the one that was identified.

    Raises:
        ValueError: naming both.
    """
    name, version = request.model_name, request.model_version
    if reply.model_name != name or (version and reply.model_version != version):
        raise ValueError(
            f"{reply.model_name[:80]!r}, version {reply.model_version[:40]!r}, answers for"
            f" {name!r}, version {version or 'any'!r}"
        )


def _read_outputs(contract: Contract, reply: Any) -> Tensors:
    """The tensors of a reply; whatever breaks the contract is refused.

    Raises:
        ValueError: naming the tensor and what is wrong with it.
    """
    if len(reply.outputs) != len(reply.raw_output_contents):
        raise ValueError("the reply's tensors are not in raw form")
    pairs = zip(reply.outputs, reply.raw_output_contents, strict=True)
    tensors = {output.name: (output, raw) for output, raw in pairs}
    if len(tensors) < len(reply.outputs):
        raise ValueError("the reply holds two tensors of one name")
    outputs: Tensors = {}
    for tensor in contract.outputs:
        if tensor.name not in tensors:
            raise ValueError(f"the reply lacks {tensor.name}")
        output, raw = tensors[tensor.name]
        shape = tuple(output.shape)
        if output.datatype != tensor.dtype or not _fits(shape, tensor):
            raise ValueError(f"{tensor.name} is {output.datatype}{list(shape)}, not {tensor.dtype}{[1, *tensor.shape]}")
        if max(shape) > MAX_ROWS:
            raise ValueError(f"{tensor.name} is {max(shape):,} long; at most {MAX_ROWS:,} is taken")
        is_bytes = tensor.dtype == "BYTES"
        outputs[tensor.name] = _bytes(tensor, raw) if is_bytes else _array(tensor, raw, shape[1:])
    lengths = {name: len(outputs[name]) for name in contract.alike}
    if len(set(lengths.values())) > 1:
        lengths_text = ", ".join(f"{length:,} of {name}" for name, length in lengths.items())
        raise ValueError(f"these tensors must be of equal length: {lengths_text}")
    return outputs


def _fits(shape: Sequence[int], tensor: Tensor) -> bool:
    full = (1, *tensor.shape)
    return len(shape) == len(full) and all(map(lambda n, m: m in {-1, n}, shape, full))


def _bytes(tensor: Tensor, raw: bytes) -> bytes:
    if len(raw) < _LENGTH.size or _LENGTH.unpack_from(raw)[0] != len(raw) - _LENGTH.size:
        raise ValueError(f"{tensor.name} does not hold exactly one string")
    value = raw[_LENGTH.size :]
    if tensor.holds == "text":
        if len(value) > MAX_TEXT_BYTES:
            size, limit = f"{len(value):,}", f"{MAX_TEXT_BYTES:,}"
            raise ValueError(f"{tensor.name} has {size} bytes; at most {limit} are taken")
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{tensor.name} is no UTF-8: {error.reason}") from error
    return value


def _array(tensor: Tensor, raw: bytes, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if len(raw) != 4 * math.prod(shape):
        raise ValueError(f"{tensor.name} has {len(raw)} bytes for shape {list(shape)}")
    values = np.frombuffer(raw, dtype="<f4").reshape(shape)
    low, high = tensor.bounds or _FINITE
    if not values.size:
        return values
    # Reducing an array of one number takes longer than everything else here.
    least, most = (values.min(), values.max()) if values.size > 1 else (values.item(),) * 2
    # Written so that NaN, which compares to nothing, fails too.
    if not (least >= low and most <= high):
        if not np.isfinite(values).all():
            raise ValueError(f"{tensor.name} holds NaN or infinity")
        raise ValueError(f"{tensor.name} is outside {low:g}..{high:g}: {least}..{most}")
    return values
