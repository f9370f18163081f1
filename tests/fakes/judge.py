"""A Judge service that answers at once and says what it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc

from editjudge.base.contracts import TOKENS_HEADER
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc


class ScriptedJudge(judge_pb2_grpc.JudgeServiceServicer):
    """Every edit takes as many tokens as the id of its request says.

    Attributes:
        teams: Who asked, in order.
    """

    def __init__(self) -> None:
        self.teams: list[str] = []

    async def Score(self, request: pb.ScoreRequest, context: Any) -> pb.ScoreResponse:  # noqa: N802
        self.teams.append(dict(context.invocation_metadata())["x-team"])
        await context.send_initial_metadata([(TOKENS_HEADER, request.request_id)])
        return pb.ScoreResponse(request_id=request.request_id)

    async def ScoreStream(  # noqa: N802
        self, requests: AsyncIterator[pb.ScoreStreamRequest], context: Any
    ) -> AsyncIterator[pb.ScoreStreamResponse]:
        async for each in requests:
            yield pb.ScoreStreamResponse(response=await self.Score(each.request, context))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve until the block is left; gives `host:port`."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        judge_pb2_grpc.add_JudgeServiceServicer_to_server(self, server)
        health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
