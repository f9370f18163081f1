"""`editjudge.v1.JudgeService`: each method translated to `Judging` and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from editjudge.base.contracts import TEAM_HEADER, TOKENS_HEADER
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from .accounting import REQUEST_HEADER, Asking, Caller, terms_in
from .errors import Busy, Late, abort, foreseen, refusal_of
from .messages import asked_of, dimension_of, protocol_of, response_of
from .protocols import listed
from .schemas import DimensionServed, PanelServed, ScoreAsked, Unusable
from .service import Judging

_IN_STREAM = 16
"""Edits of one stream that are judged at a time; it is read on only below that."""


def _caller(context: Any, method: str) -> Caller:
    """Who asks, as the front door says; a caller's own word is not taken where there is one."""
    said = dict(context.invocation_metadata() or ())
    terms = terms_in(said, context.time_remaining())
    return Caller.of(said.get(TEAM_HEADER, ""), method, str(said.get(REQUEST_HEADER, "")), terms)


class JudgeServicer(judge_pb2_grpc.JudgeServiceServicer):
    """The methods.

    Args:
        judging: Entered by whoever made it.
    """

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    async def Score(  # noqa: N802 - the proto's name
        self, request: pb.ScoreRequest, context: Any
    ) -> pb.ScoreResponse:
        """Judge one edit; the caller's deadline ends its calls.

        How many tokens were taken is among the headers, for whoever stands between: also of an
        error, where any were.
        """
        tokens = 0
        try:
            with self._judging.asking(_caller(context, "Score")) as asking:
                try:
                    response = await self._score(request, asking, context.time_remaining())
                finally:
                    tokens = asking.meter.used.tokens
            await context.send_initial_metadata(((TOKENS_HEADER, str(tokens)),))
        except Exception as error:  # noqa: BLE001 - of this request alone
            if tokens:
                await context.send_initial_metadata(((TOKENS_HEADER, str(tokens)),))
            await abort(context, foreseen(error))
        return response

    async def _score(
        self,
        request: pb.ScoreRequest,
        asking: Asking,
        seconds: float | None = None,
        placed: asyncio.Event | None = None,
    ) -> pb.ScoreResponse:
        """Judge an edit; with `placed` it waits for room, and says there that it has its bytes."""

        async def read() -> ScoreAsked:
            return asked_of(request)

        team = asking.caller.team
        waits = placed is not None
        held = self._judging.requests.taking(team, request.ByteSize(), waits=waits)
        try:
            async with asyncio.timeout(seconds) as limit, held:
                if placed is not None:
                    placed.set()
                judgement = await self._judging.score(read, asking, waits=waits)
        except TimeoutError as error:
            if limit.expired():
                raise Late("the deadline is over", "give it more time") from error
            raise
        return response_of(judgement, request.request_id)

    async def ScoreStream(  # noqa: N802
        self, requests: AsyncIterator[pb.ScoreStreamRequest], context: Any
    ) -> AsyncIterator[pb.ScoreStreamResponse]:
        """Judge edits as they come, a few at a time.

        It has a place among the streams until it ends.
        """
        caller = _caller(context, "ScoreStream")
        place = self._judging.streams.taking(caller.team, 1, waits=False)
        try:
            async with place, aclosing(self._results(aiter(requests), caller)) as results:
                async for result in results:
                    yield result
        except Busy as error:
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
            with self._judging.asking(caller) as asking:
                response = await self._score(request, asking, placed=placed)
        except Exception as error:  # noqa: BLE001 - of this request alone
            return pb.ScoreStreamResponse(refusal=refusal_of(foreseen(error), request.request_id))
        finally:
            placed.set()
        return pb.ScoreStreamResponse(response=response)

    async def ListDimensions(  # noqa: N802
        self, request: pb.ListDimensionsRequest, context: Any
    ) -> pb.ListDimensionsResponse:
        """What can be asked."""
        try:
            asked = await asyncio.to_thread(listed, request.patterns, "patterns")
        except Unusable as error:
            await abort(context, error)
        served = DimensionServed.all_of(asked, self._judging.client.panel)
        return pb.ListDimensionsResponse(dimensions=map(dimension_of, served))

    async def GetPanel(  # noqa: N802
        self, request: pb.GetPanelRequest, context: Any
    ) -> pb.GetPanelResponse:
        """Who judges here, and how values by a protocol are signed."""
        signatures: dict[str, str] = {}
        try:
            if request.HasField("protocol"):
                protocol = protocol_of(request.protocol)
                with self._judging.asking(_caller(context, "GetPanel")) as asking:
                    made = await self._judging.signatures(protocol, request.dimensions, asking)
                signatures = {name: str(signature) for name, signature in made.items()}
        except Exception as error:  # noqa: BLE001 - of this request alone
            await abort(context, foreseen(error))
        panel = PanelServed.of(self._judging.client.panel)
        return pb.GetPanelResponse(**panel.model_dump(), signatures=signatures)
