"""One Judge service over gRPC, with typed errors."""

from __future__ import annotations

from typing import NamedTuple

from ..base.config import GatewayEndpoint
from ..panel.grpc_channel import GrpcConnection, read_team
from ..panel.retry import RetryPolicy
from ..v1 import judge_pb2 as pb
from ..v1 import judge_pb2_grpc

SERVICE = "the Judge service"
"""How errors call it."""


class PanelReport(NamedTuple):
    """What a service says of itself.

    Attributes:
        team: As whom a front door before it knows the caller; "" where none says.
    """

    panel: pb.GetPanelResponse
    team: str


class JudgeService(GrpcConnection):
    """One Judge service; use as an async context manager.

    Args:
        endpoint: Its address, with what it takes to be let in.
        policy: How often and how long to ask; its deadline is that of one edit.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.
    """

    def __init__(self, endpoint: GatewayEndpoint, policy: RetryPolicy) -> None:
        super().__init__(endpoint, SERVICE, policy, judge_pb2_grpc.JudgeServiceStub)

    async def panel(self, request: pb.GetPanelRequest, timeout: float) -> PanelReport:
        """Who judges there.

        Args:
            timeout: Seconds for an attempt.

        Raises:
            ServiceError: it cannot be reached or asked.
        """

        async def once(left: float) -> PanelReport:
            seconds = min(left, timeout)
            call = self.stub.GetPanel(request, timeout=seconds, metadata=self.metadata)
            return PanelReport(await self.await_reply(call), await read_team(call))

        return await self.call_with_retries(once)

    async def score(self, request: pb.ScoreRequest) -> pb.ScoreResponse:
        """Have an edit judged, with retries inside the policy's deadline.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """

        async def once(left: float) -> pb.ScoreResponse:
            call = self.stub.Score(request, timeout=left, metadata=self.metadata)
            response: pb.ScoreResponse = await self.await_reply(call)
            return response

        return await self.call_with_retries(once)
