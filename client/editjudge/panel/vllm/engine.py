"""The calls of vLLM's own gRPC protocol (`vllm serve --grpc`), with typed errors.

Service `vllm.grpc.engine.VllmEngine`, messages from the package `smg-grpc-proto`. The server
takes token ids and gives token ids; it has no TLS of its own.
"""

import asyncio
import contextlib
import hashlib
import time
import uuid
from typing import Any

from ...base.config import JudgeEndpoint
from ...base.errors import BadReply, MissingExtra, NoModel, Overload, Rejection, ServiceError, Unreachable
from ..grpc_channel import GrpcConnection
from ..prompt import Picture
from ..retry import RetryPolicy
from .tokenizer import MAX_ARCHIVE

SERVICE = "vllm.grpc.engine.VllmEngine"
MEDIA_OFF = "start it with --mm-processor inprocess, or with SMG_VLLM_MM_PROCESSOR=inprocess in its environment"
_ABORT_SECONDS = 1.0


class Engine(GrpcConnection):
    """A client of one vLLM server over gRPC.

    Args:
        endpoint: Its address and credentials.
        service: `role.variant`, for errors.
        policy: How often and how long to try.

    Raises:
        ConfigError: a header's secret cannot be read.
        MissingExtra: the extra `vllm` is not installed.

    Attributes:
        messages: The protocol's message classes.
    """

    def __init__(self, endpoint: JudgeEndpoint, service: str, policy: RetryPolicy) -> None:
        try:
            import tokenizers  # noqa: F401 - looked for here, so that it fails here
            from grpc_health.v1 import health_pb2, health_pb2_grpc
            from smg_grpc_proto import vllm_engine_pb2, vllm_engine_pb2_grpc
            from smg_grpc_proto.generated import common_pb2
        except ImportError as error:
            raise MissingExtra("vLLM's gRPC protocol", "vllm") from error
        self.messages: Any = vllm_engine_pb2
        self._common: Any = common_pb2
        self._health: Any = health_pb2

        def stub_of(channel: Any) -> Any:
            stub: Any = vllm_engine_pb2_grpc.VllmEngineStub(channel)
            stub.Check = health_pb2_grpc.HealthStub(channel).Check
            return stub

        super().__init__(endpoint, service, policy, stub_of)
        self.model = endpoint.model

    async def check_ready(self, end: float) -> None:
        """Ask the standard health service.

        Raises:
            NoModel: something else is served there.
            Unreachable: the engine is warming up or shutting down.
        """
        request = self._health.HealthCheckRequest(service=SERVICE)
        reply = await self._report("Check", request, end)
        if reply.status != self._health.HealthCheckResponse.SERVING:
            raise self.make_error(Unreachable, "the engine is not ready, or shuts down")

    async def ask(self, method: str, end: float) -> Any:
        """The server's report on itself: `GetModelInfo`, `GetServerInfo` or `GetLoads`."""
        request = getattr(self.messages, f"{method}Request")()
        return self.secrets.redact_message(await self._report(method, request, end))

    async def _report(self, method: str, request: Any, end: float) -> Any:
        """The reply to a call that every such server takes."""
        seconds = seconds_left(end)
        call = getattr(self.stub, method)(request, timeout=seconds, metadata=self.metadata)
        try:
            return await self.await_reply(call)
        except ServiceError as failure:
            raise self._explain_missing_service(failure) from failure.__cause__

    async def tokenizer(self, end: float) -> bytes:
        """The zip of the tokenizer's files, compared with the digest that comes with it."""
        archive = bytearray()
        digest = ""
        request = self._common.GetTokenizerRequest()
        call = self.stub.GetTokenizer(request, timeout=seconds_left(end), metadata=self.metadata)

        async def receive() -> None:
            nonlocal digest
            async for chunk in call:
                archive.extend(chunk.data)
                digest = chunk.sha256 or digest
                if len(archive) > MAX_ARCHIVE:
                    raise self.make_error(BadReply, f"the tokenizer exceeds {MAX_ARCHIVE:,} bytes")

        try:
            await self.await_reply(receive())
        except BadReply:
            raise
        except ServiceError as failure:
            if not failure.retryable and "okenizer" in failure.detail:
                # The servicer looks for a folder of that name, and does not ask the hub.
                fix = "start vLLM with the model's local folder, not its hub id"
                raise self.make_error(type(failure), f"{failure.detail} ({fix})") from failure
            raise self._explain_missing_service(failure) from failure.__cause__
        finally:
            call.cancel()
        # The digest comes with the last chunk, so its absence means a cut as well.
        if hashlib.sha256(archive).hexdigest() != digest:
            raise self.make_error(BadReply, "the tokenizer arrived damaged: its digest differs")
        return bytes(archive)

    def request(self, ids: list[int], pictures: tuple[Picture, ...] = ()) -> Any:
        """A `GenerateRequest` for one whole reply; its sampling fields are set to have no effect.

        Args:
            ids: Token ids with one placeholder per picture, which the server expands.
            pictures: The pictures, in order.
        """
        message = self.messages.GenerateRequest(stream=False)
        message.tokenized.input_ids.extend(ids)
        for picture in pictures:
            message.media_refs.items.add(modality=self._common.IMAGE, url=picture.url)
        params = message.sampling_params
        # An unset temperature is 1 for the server; it applies no defaults of the model's.
        params.temperature = 1.0
        params.top_p = 1.0
        params.repetition_penalty = 1.0
        params.skip_special_tokens = True
        params.n = 1
        return message

    async def generate(self, request: Any, end: float) -> Any:
        """The `GenerateComplete` of a request; a cancelled one is aborted in the engine too.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """
        # A retry must not clash with what the server still has of the first attempt.
        request_id = request.request_id = f"editjudge-{uuid.uuid4().hex}"
        call = self.stub.Generate(request, timeout=seconds_left(end), metadata=self.metadata)
        try:
            complete = await self.await_reply(self._read_complete(call))
        except asyncio.CancelledError:
            await self._abort(request_id)
            raise
        finally:
            call.cancel()
        if complete.finish_reason in {"abort", "error"}:
            raise self.make_error(Unreachable, f"the engine gave up: {complete.finish_reason}")
        return complete

    async def _read_complete(self, call: Any) -> Any:
        complete = None
        async for response in call:
            if complete is not None or response.WhichOneof("response") != "complete":
                raise self.make_error(BadReply, "the reply comes in pieces though asked for whole")
            complete = response.complete
        if complete is None:
            raise self.make_error(BadReply, "the reply ended without a completion")
        return complete

    async def _abort(self, request_id: str) -> None:
        """Tell the engine that no caller waits any more.

        vLLM's own server aborts when a call is cancelled, but a proxy in between may not pass that
        on.
        """
        from grpc import RpcError
        from grpc.aio import UsageError

        request = self.messages.AbortRequest(request_ids=[request_id])
        with contextlib.suppress(RpcError, UsageError):
            await self.stub.Abort(request, timeout=_ABORT_SECONDS, metadata=self.metadata)

    def to_error(self, error: Any, service: str | None = None, model: str | None = None) -> Any:
        """The typed error for a status, with the fix where the server takes no images."""
        failure = super().to_error(error, service, model)
        if isinstance(failure, Rejection) and "media_refs sent but" in failure.detail:
            detail = f"the server does not take images: {MEDIA_OFF} ({failure.detail})"
            return self.make_error(Rejection, detail)
        if isinstance(failure, Unreachable) and "media_refs[" in failure.detail:
            return self.make_error(Overload, failure.detail)
        return failure

    def _explain_missing_service(self, failure: ServiceError) -> ServiceError:
        """The failure of a call that every such server takes, as the error that it means."""
        if isinstance(failure, NoModel):
            return self.make_error(NoModel, f"no vLLM engine is served here: {failure.detail}")
        return failure


def seconds_left(end: float) -> float:
    """Seconds until a time of `time.monotonic`, at least 0.001."""
    return max(end - time.monotonic(), 0.001)
