"""A Judge service that answers at once and says what it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc_health.v1 import health, health_pb2_grpc

from editjudge.base.contracts import TOKENS_HEADER
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from .grpc_server import ScriptedGrpc


class ScriptedJudge(ScriptedGrpc, judge_pb2_grpc.JudgeServiceServicer):
    """Every edit takes as many tokens as the id of its request says."""

    options = (("grpc.max_receive_message_length", -1),)

    @property
    def teams(self) -> list[str]:
        """Who asked, in order."""
        return [metadata["x-team"] for metadata in self.metadata]

    async def Score(self, request: pb.ScoreRequest, context: Any) -> pb.ScoreResponse:  # noqa: N802
        await self.play(request, context)
        await context.send_initial_metadata([(TOKENS_HEADER, request.request_id)])
        return pb.ScoreResponse(request_id=request.request_id)

    async def ScoreStream(  # noqa: N802
        self, requests: AsyncIterator[pb.ScoreStreamRequest], context: Any
    ) -> AsyncIterator[pb.ScoreStreamResponse]:
        async for each in requests:
            await self.play(each.request, context)
            response = pb.ScoreResponse(request_id=each.request.request_id)
            yield pb.ScoreStreamResponse(response=response)

    def add_to(self, server: Any) -> None:
        judge_pb2_grpc.add_JudgeServiceServicer_to_server(self, server)
        health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
