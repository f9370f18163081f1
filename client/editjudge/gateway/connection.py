"""The gRPC connection to a Judge service, with typed errors."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from ..base.config import GatewayEndpoint
from ..base.errors import ServiceError, Unreachable
from ..panel.grpc_channel import GrpcConnection, read_team
from ..panel.retry import RetryPolicy, call_with_retries
from ..v1 import judge_pb2 as pb
from ..v1 import judge_pb2_grpc

_CUT = re.compile("connection (was lost|termination)|Stream removed|RST_STREAM|remote reset")
"""How gRPC and Envoy say that a connection ended while a request was in flight."""
SERVICE = "the Judge service"
"""The name of the service in errors."""


def _make_stub(channel: Any) -> Any:
    """A stub whose `Score` sends its message as a stream of one, which is the same on the wire.

    So grpcio does not hold the pictures until the answer is there.
    """
    make: Callable[[Any], Any] = judge_pb2_grpc.JudgeServiceStub
    stub = make(channel)
    stub.Score = channel.stream_unary(
        "/editjudge.v1.JudgeService/Score",
        request_serializer=pb.ScoreRequest.SerializeToString,
        response_deserializer=pb.ScoreResponse.FromString,
    )
    return stub


class PanelReport(NamedTuple):
    """What a Judge service reports of its panel.

    Attributes:
        panel: Its services, signatures, version and problems.
        team: The team as which a front door before it knows the caller; "" where none says.
    """

    panel: pb.GetPanelResponse
    team: str


class JudgeService(GrpcConnection):
    """A client of one Judge service; use as an async context manager.

    Args:
        endpoint: Its address and credentials.
        policy: How often and how long to try; its deadline is that of one edit.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.
    """

    def __init__(self, endpoint: GatewayEndpoint, policy: RetryPolicy) -> None:
        super().__init__(endpoint, SERVICE, policy, _make_stub)

    async def panel(self, request: pb.GetPanelRequest, timeout: float) -> PanelReport:
        """Ask which services judge there.

        Args:
            request: The protocol and dimensions to be signed.
            timeout: Seconds for one attempt.

        Raises:
            ServiceError: the service cannot be reached, or refuses.
        """

        async def once(left: float) -> PanelReport:
            seconds = min(left, timeout)
            call = self.stub.GetPanel(request, timeout=seconds, metadata=self.metadata)
            return PanelReport(await self.await_reply(call), await read_team(call))

        return await call_with_retries(once, self._policy)

    async def score(self, make_request: Callable[[], pb.ScoreRequest], losses: list[Unreachable]) -> pb.ScoreResponse:
        """Have an edit judged, with retries within the policy's deadline.

        An edit whose connection was cut is sent once more and not a third time: it may be what ends
        the service.

        Args:
            make_request: Makes the request, for each attempt.
            losses: The connections that were cut while the edit was judged; new ones are added.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """

        async def once(left: float) -> pb.ScoreResponse:
            requests = [make_request()]

            async def send() -> AsyncIterator[pb.ScoreRequest]:
                yield requests.pop()

            call = self.stub.Score(send(), timeout=left, metadata=self.metadata)
            try:
                response: pb.ScoreResponse = await self.await_reply(call)
            except Unreachable as error:
                if losses and _CUT.search(error.detail):
                    detail = f"{error.detail}; cut twice, so the edit is not sent again"
                    raise self.make_error(ServiceError, detail) from error
                losses.extend([error] if _CUT.search(error.detail) else [])
                raise
            return response

        return await call_with_retries(once, self._policy)
