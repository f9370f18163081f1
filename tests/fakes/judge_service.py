"""A Judge service that misbehaves on demand, before one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer

from .grpc_server import Failure, serve


class ScriptedService(JudgeServicer):
    """Answers as the service does, but for what tests change.

    Attributes:
        token: Of callers that are let in; "" lets everybody in.
        refusal: What the others get.
        panels: Changes each answer of `GetPanel`.
        scores: Changes each answer of `Score`, or fails.
        about: What was asked of its panel.
        asked: The edits that were sent, as (id, model).
        callers: Metadata of all calls.
    """

    def __init__(self, service: JudgeService) -> None:
        super().__init__(service)
        self.token = ""
        self.refusal = grpc.StatusCode.UNAUTHENTICATED
        self.panels: Callable[[pb.GetPanelResponse], None] = lambda _: None
        self.scores: Callable[[pb.ScoreRequest, pb.ScoreResponse], None] = lambda *_: None
        self.about: list[pb.GetPanelRequest] = []
        self.asked: list[tuple[str, str]] = []
        self.deadlines: list[float] = []

    async def _let_in(self, context: Any) -> None:
        said = dict(context.invocation_metadata()).get("authorization", "")
        if self.token and said != f"Bearer {self.token}":
            await context.abort(self.refusal, f"Jwt is not {said[7:]}")

    async def GetPanel(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._let_in(context)
        self.about.append(request)
        response = await super().GetPanel(request, context)
        self.panels(response)
        return response

    async def Score(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._let_in(context)
        self.asked.append((request.edit.id, request.edit.model))
        self.deadlines.append(context.time_remaining())
        response = await super().Score(request, context)
        try:
            self.scores(request, response)
        except Failure as failure:
            await context.abort(failure.code, failure.detail)
        return response

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Serve on loopback; gives the address."""
        add = partial(judge_pb2_grpc.add_JudgeServiceServicer_to_server, self)
        async with serve(add, f"127.0.0.1:{port}") as at:
            yield f"grpc://{at}"
