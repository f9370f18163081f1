"""`editjudge.v1.JudgeService`: each method translated to `Judging` and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from editjudge.base.contracts import TEAM_HEADER, TOKENS_HEADER
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from .accounting import REQUEST_HEADER, Caller, RequestAccount, read_terms
from .errors import DeadlineExceeded, NoCapacity, abort, make_refusal, wrap_defect
from .messages import make_dimension, make_response, read_protocol, read_score_request
from .protocols import list_dimensions
from .schemas import InvalidRequest, PanelReply, ScoreRequest, ServedDimension
from .service import JudgeService

_IN_STREAM = 16
"""Edits of one stream that are judged at a time; it is read on only below that."""


def _caller(context: Any, method: str) -> Caller:
    """Who asks, as the front door says; a caller's own word is not taken where there is one."""
    said = dict(context.invocation_metadata() or ())
    terms = read_terms(said, context.time_remaining())
    return Caller.of(said.get(TEAM_HEADER, ""), method, str(said.get(REQUEST_HEADER, "")), terms)


class JudgeServicer(judge_pb2_grpc.JudgeServiceServicer):
    """The methods.

    Args:
        service: Entered by whoever made it.
    """

    def __init__(self, service: JudgeService) -> None:
        self._service = service

    async def Score(  # noqa: N802 - the proto's name
        self, request: pb.ScoreRequest, context: Any
    ) -> pb.ScoreResponse:
        """Judge one edit; the caller's deadline ends its calls.

        How many tokens were taken is among the headers, for whoever stands between: also of an
        error, where any were.
        """
        tokens = 0
        try:
            with self._service.open_account(_caller(context, "Score")) as account:
                try:
                    response = await self._score(request, account, context.time_remaining())
                finally:
                    tokens = account.meter.total.tokens
            await context.send_initial_metadata(((TOKENS_HEADER, str(tokens)),))
        except Exception as error:  # noqa: BLE001 - of this request alone
            if tokens:
                await context.send_initial_metadata(((TOKENS_HEADER, str(tokens)),))
            await abort(context, wrap_defect(error))
        return response

    async def _score(
        self,
        request: pb.ScoreRequest,
        account: RequestAccount,
        seconds: float | None = None,
        placed: asyncio.Event | None = None,
    ) -> pb.ScoreResponse:
        """Judge an edit; with `placed` it waits for room, and says there that it has its bytes."""

        async def read() -> ScoreRequest:
            return read_score_request(request)

        team = account.caller.team
        may_wait = placed is not None
        held = self._service.requests.acquire(team, request.ByteSize(), may_wait=may_wait)
        try:
            async with asyncio.timeout(seconds) as limit, held:
                if placed is not None:
                    placed.set()
                judgement = await self._service.score(read, account, may_wait=may_wait)
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineExceeded("the deadline is over", "give it more time") from error
            raise
        return make_response(judgement, request.request_id)

    async def ScoreStream(  # noqa: N802
        self, requests: AsyncIterator[pb.ScoreStreamRequest], context: Any
    ) -> AsyncIterator[pb.ScoreStreamResponse]:
        """Judge edits as they come, a few at a time.

        It has a place among the streams until it ends.
        """
        caller = _caller(context, "ScoreStream")
        place = self._service.streams.acquire(caller.team, 1, may_wait=False)
        try:
            async with place, aclosing(self._results(aiter(requests), caller)) as results:
                async for result in results:
                    yield result
        except NoCapacity as error:
            await abort(context, error)

    async def _results(
        self, upcoming: AsyncIterator[pb.ScoreStreamRequest], caller: Caller
    ) -> AsyncGenerator[pb.ScoreStreamResponse, None]:
        judged: set[asyncio.Task[pb.ScoreStreamResponse]] = set()
        reading: asyncio.Task[bool] | None = None
        more = True
        try:
            while True:
                if more and reading is None and len(judged) < _IN_STREAM:
                    reading = asyncio.create_task(self._begin_next(upcoming, caller, judged))
                if not (waited := {*judged, *([reading] if reading else [])}):
                    return
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if reading is not None and reading in done:
                    more, reading = reading.result(), None
                for task in judged & done:
                    judged.remove(task)
                    yield task.result()
        finally:
            unfinished = [*judged, *([reading] if reading else [])]
            for each in unfinished:
                each.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def _begin_next(
        self,
        upcoming: AsyncIterator[pb.ScoreStreamRequest],
        caller: Caller,
        judged: set[asyncio.Task[pb.ScoreStreamResponse]],
    ) -> bool:
        """Read a request and begin to judge it; False at the end.

        It returns when the bytes of that request have room: what is read is in memory already, so
        a stream reads no other one before.
        """
        each = await anext(upcoming, None)
        if each is None:
            return False
        placed = asyncio.Event()
        judged.add(asyncio.create_task(self._result(each.request, caller, placed)))
        await placed.wait()
        return True

    async def _result(
        self, request: pb.ScoreRequest, caller: Caller, placed: asyncio.Event
    ) -> pb.ScoreStreamResponse:
        try:
            with self._service.open_account(caller) as account:
                response = await self._score(request, account, placed=placed)
        except Exception as error:  # noqa: BLE001 - of this request alone
            return pb.ScoreStreamResponse(
                refusal=make_refusal(wrap_defect(error), request.request_id)
            )
        finally:
            placed.set()
        return pb.ScoreStreamResponse(response=response)

    async def ListDimensions(  # noqa: N802
        self, request: pb.ListDimensionsRequest, context: Any
    ) -> pb.ListDimensionsResponse:
        """What can be asked."""
        try:
            asked = await asyncio.to_thread(list_dimensions, request.patterns, "patterns")
        except InvalidRequest as error:
            await abort(context, error)
        served = ServedDimension.list_served(asked, self._service.client.panel)
        return pb.ListDimensionsResponse(dimensions=map(make_dimension, served))

    async def GetPanel(  # noqa: N802
        self, request: pb.GetPanelRequest, context: Any
    ) -> pb.GetPanelResponse:
        """Who judges here, and how values by a protocol are signed."""
        signatures: dict[str, str] = {}
        try:
            if request.HasField("protocol"):
                protocol = read_protocol(request.protocol)
                with self._service.open_account(_caller(context, "GetPanel")) as account:
                    made = await self._service.signatures(protocol, request.dimensions, account)
                signatures = {name: str(signature) for name, signature in made.items()}
        except Exception as error:  # noqa: BLE001 - of this request alone
            await abort(context, wrap_defect(error))
        panel = PanelReply.of(self._service.client.panel)
        return pb.GetPanelResponse(**panel.model_dump(), signatures=signatures)
