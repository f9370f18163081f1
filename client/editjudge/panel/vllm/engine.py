"""The calls of vLLM's own gRPC protocol (`vllm serve --grpc`), with typed errors.

Service `vllm.grpc.engine.VllmEngine`, messages from the package `smg-grpc-proto`. The server
takes token ids and gives token ids; it has no TLS of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...base.errors import (
    BadReply,
    MissingExtra,
    NotServed,
    Overloaded,
    Refused,
    ServiceError,
    Unreachable,
)
from ...base.proxy import proxy_of
from ..grpc_channel import Channel, channel_options, service_error
from ..secrets import Secrets
from .tokenizer import MAX_ARCHIVE

if TYPE_CHECKING:
    from ...base.config import GeneralistEndpoint
    from ..prompt import Picture
    from .request import Request

SERVICE = "vllm.grpc.engine.VllmEngine"
MEDIA_OFF = (
    "start it with --mm-processor inprocess, or with SMG_VLLM_MM_PROCESSOR=inprocess in its"
    " environment"
)
_ABORT_SECONDS = 1.0


class Engine:
    """One server.

    Args:
        service: `role.variant`, for errors.
        deadline: Seconds of one call at most.

    Raises:
        ConfigError: a header's secret cannot be read.
        MissingExtra: the extra `vllm` is not installed.

    Attributes:
        messages: The protocol's message classes.
        model: For errors, once it is known.
        secrets: What no reply may hold.
    """

    def __init__(self, endpoint: GeneralistEndpoint, service: str, deadline: float) -> None:
        try:
            import grpc.aio
            import tokenizers  # noqa: F401 - looked for here, so that it fails here
            from grpc_health.v1 import health_pb2, health_pb2_grpc
            from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc
            from smg_grpc_proto.generated import common_pb2

            from .request import Request
        except ImportError as error:
            raise MissingExtra("vLLM's gRPC protocol", "vllm") from error
        values = {name.lower(): value for name, value in endpoint.header_values().items()}
        self.url = endpoint.url
        self.model = endpoint.model
        self.service = service
        self.messages = vllm_engine_pb2
        self._tokenizer_request = common_pb2.GetTokenizerRequest
        self._request = Request
        self._health = health_pb2
        self._metadata = tuple(values.items())
        self.secrets = Secrets(endpoint.headers, values, proxy_of(endpoint.url))
        self._rpc_error = grpc.RpcError
        self._usage_error = grpc.aio.UsageError
        address, options = urlsplit(endpoint.url).netloc, channel_options(endpoint.url)

        def use(channel: Any) -> None:
            self._stub: Any = vllm_engine_pb2_grpc.VllmEngineStub(channel)
            self._generate: Any = channel.unary_stream(
                f"/{SERVICE}/Generate",
                request_serializer=Request.encoded,
                response_deserializer=vllm_engine_pb2.GenerateResponse.FromString,
            )
            self._health_stub: Any = health_pb2_grpc.HealthStub(channel)

        self._channel = Channel(
            lambda: grpc.aio.insecure_channel(address, options=options), use, deadline
        )

    async def close(self) -> None:
        """Close the channel; calls in flight are cancelled."""
        await self._channel.close()

    def late(self, began: float) -> None:
        """An attempt that began then got no reply in time; see `Channel`."""
        self._channel.late(began)

    async def check_ready(self, end: float) -> None:
        """Ask the standard health service.

        Raises:
            NotServed: something else is served there.
            Unreachable: warming up, or shutting down.
        """
        request = self._health.HealthCheckRequest(service=SERVICE)
        try:
            reply = await self._health_stub.Check(
                request, timeout=left(end), metadata=self._metadata
            )
        except self._rpc_error as error:
            raise self._protocol(error) from error
        if reply.status != self._health.HealthCheckResponse.SERVING:
            raise self.error(Unreachable, "the engine is not ready, or shuts down")

    async def ask(self, method: str, end: float) -> Any:
        """The server's report on itself: `GetModelInfo`, `GetServerInfo` or `GetLoads`."""
        request = getattr(self.messages, f"{method}Request")()
        try:
            call = getattr(self._stub, method)
            reply = await call(request, timeout=left(end), metadata=self._metadata)
        except self._rpc_error as error:
            raise self._protocol(error) from error
        return self.secrets.hidden_in_message(reply)

    async def tokenizer(self, end: float) -> bytes:
        """The zip of the tokenizer's files, compared with the digest that comes with it."""
        archive = bytearray()
        digest = ""
        call = self._stub.GetTokenizer(
            self._tokenizer_request(), timeout=left(end), metadata=self._metadata
        )
        try:
            async for chunk in call:
                archive += chunk.data
                digest = chunk.sha256 or digest
                if len(archive) > MAX_ARCHIVE:
                    raise self.error(BadReply, f"the tokenizer exceeds {MAX_ARCHIVE:,} bytes")
        except self._rpc_error as error:
            failure = self._protocol(error)
            if not failure.retryable and "okenizer" in failure.detail:
                # The servicer looks for a folder of that name, and does not ask the hub.
                failure = self.error(
                    type(failure),
                    f"{failure.detail} (start vLLM with the model's local folder, not its hub id)",
                )
            raise failure from error
        finally:
            call.cancel()
        # The digest comes with the last chunk, so its absence means a cut as well.
        if hashlib.sha256(archive).hexdigest() != digest:
            raise self.error(BadReply, "the tokenizer arrived damaged: its digest differs")
        return bytes(archive)

    def request(self, ids: list[int], pictures: tuple[Picture, ...] = ()) -> Request:
        """One whole reply is asked for, every sampling field set to do nothing.

        Args:
            ids: With one placeholder per picture, which the server expands.
        """
        message = self.messages.GenerateRequest(stream=False)
        message.tokenized.input_ids.extend(ids)
        params = message.sampling_params
        # An unset temperature is 1 for the server; it applies no defaults of the model's.
        params.temperature = 1.0
        params.top_p = 1.0
        params.repetition_penalty = 1.0
        params.skip_special_tokens = True
        params.n = 1
        return self._request(message, pictures)

    async def generate(self, request: Request, end: float) -> Any:
        """A request's `GenerateComplete`.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """
        # A repetition must not meet what the server still has of the first.
        request_id = request.message.request_id = f"editjudge-{uuid.uuid4().hex}"
        call = self._generate(request, timeout=left(end), metadata=self._metadata)
        try:
            complete = await self._whole(call)
        except self._rpc_error as error:
            raise self._translated(error) from error
        except asyncio.CancelledError:
            await self._abort(request_id)
            raise
        finally:
            call.cancel()
        self._channel.heard()
        if complete.finish_reason in {"abort", "error"}:
            raise self.error(Unreachable, f"the engine gave up: {complete.finish_reason}")
        return complete

    def error(self, kind: type[ServiceError], detail: str) -> ServiceError:
        """An error that names this server, without its secrets."""
        detail = self.secrets.hidden(detail)
        return kind(detail, service=self.service, endpoint=self.url, model=self.model)

    async def _whole(self, call: Any) -> Any:
        complete = None
        async for response in call:
            if complete is not None or response.WhichOneof("response") != "complete":
                raise self.error(BadReply, "the reply comes in pieces though asked for whole")
            complete = response.complete
        if complete is None:
            raise self.error(BadReply, "the reply ended without a completion")
        return complete

    async def _abort(self, request_id: str) -> None:
        """Tell the engine that no caller waits any more.

        vLLM's own servicer aborts where a call is cancelled; what stands between may not
        pass that on.
        """
        request = self.messages.AbortRequest(request_ids=[request_id])
        try:
            await self._stub.Abort(request, timeout=_ABORT_SECONDS, metadata=self._metadata)
        except (self._rpc_error, self._usage_error):
            return

    def _translated(self, error: Any) -> ServiceError:
        failure = service_error(error, service=self.service, endpoint=self.url)
        detail = failure.detail
        if isinstance(failure, Refused) and "media_refs sent but" in detail:
            detail = f"the server does not take images: {MEDIA_OFF} ({detail})"
        if isinstance(failure, Unreachable) and "media_refs[" in detail:
            return self.error(Overloaded, detail)
        return self.error(type(failure), detail)

    def _protocol(self, error: Any) -> ServiceError:
        """Of a call that every such server answers."""
        failure = self._translated(error)
        if error.code().name in {"UNIMPLEMENTED", "NOT_FOUND"}:
            return self.error(NotServed, f"no vLLM engine is served here: {failure.detail}")
        return failure


def left(end: float) -> float:
    """Seconds until then."""
    return max(end - time.monotonic(), 0.001)
