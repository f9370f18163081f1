"""The gRPC methods of `editjudge.v1.JudgeService`, on top of `service.JudgeService`."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

from editjudge.base.contracts import TOKENS_HEADER
from editjudge.base.threads import in_thread
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from .accounting import Caller, RequestAccount
from .errors import DeadlineExceeded, abort, make_refusal, wrap_defect
from .interceptor import AdmittedMessages
from .messages import make_dimension, make_response, read_protocol, read_score_request
from .schemas import InvalidRequest, PanelReply, ScoreRequest
from .service import JudgeService


class JudgeServicer(judge_pb2_grpc.JudgeServiceServicer):
    """The methods of the gRPC service.

    Args:
        service: A service that has been entered as a context manager.
    """

    def __init__(self, service: JudgeService) -> None:
        self._service = service

    async def Score(  # noqa: N802 - the proto's name
        self, request: pb.ScoreRequest | AdmittedMessages, context: Any
    ) -> pb.ScoreResponse:
        """Judge one edit; the caller's deadline cancels its calls.

        A request that is not read yet is read when there is a place for its edit.

        The initial metadata reports the tokens used, for the front door's token limits. An error
        reports them too where there are any.
        """
        caller = Caller.of_call(context, "Score")
        report = self._service.open_report(caller)
        context.add_done_callback(lambda call: report.close(has_arrived=call.done()))
        try:
            with self._service.open_account(caller, report) as account:
                response = await self._score(request, account, context.time_remaining())
            await context.send_initial_metadata(((TOKENS_HEADER, str(report.take())),))
        except Exception as error:  # noqa: BLE001 - of this request alone
            if tokens := report.take():
                await context.send_initial_metadata(((TOKENS_HEADER, str(tokens)),))
            await abort(context, wrap_defect(error))
        return response

    async def _score(
        self, request: pb.ScoreRequest | AdmittedMessages, account: RequestAccount, seconds: float | None = None
    ) -> pb.ScoreResponse:
        """Judge an edit.

        Args:
            seconds: The time until the caller's deadline; None where there is none.
        """
        request_id = ""

        async def read() -> ScoreRequest:
            nonlocal request_id
            score_request: ScoreRequest
            if isinstance(request, AdmittedMessages):
                request_id, score_request = await request.read_only(_read_message)
            else:
                request_id, score_request = await in_thread(_read_message, request)
            return score_request

        try:
            async with asyncio.timeout(seconds) as limit:
                judgement = await self._service.score(read, account)
        except TimeoutError as error:
            if limit.expired():
                raise DeadlineExceeded("the deadline has passed", "give it more time") from error
            raise
        return await in_thread(make_response, judgement, request_id)

    async def ScoreStream(  # noqa: N802
        self, requests: AdmittedMessages, context: Any
    ) -> AsyncIterator[pb.ScoreStreamResponse]:
        """Judge edits as they arrive, several at a time; results come in the order they finish.

        An error of one edit is sent as its result, and the stream goes on. When the stream ends or
        is cancelled, edits in flight are cancelled.
        """
        caller = Caller.of_call(context, "ScoreStream")
        place = self._service.streams.acquire(caller.team, 1, caller.waits_until)
        # Its edits wait for room as long as it takes.
        caller = replace(caller, waits_until=math.inf)
        async with place, aclosing(self._results(requests, caller)) as results:
            async for result in results:
                yield result

    async def _results(
        self, upcoming: AdmittedMessages, caller: Caller
    ) -> AsyncGenerator[pb.ScoreStreamResponse, None]:
        edits: set[asyncio.Task[pb.ScoreStreamResponse]] = set()
        reader: asyncio.Task[bool] | None = None
        has_more, most_edits = True, self._service.edits.largest
        try:
            while True:
                if has_more and reader is None and len(edits) < most_edits:
                    reader = asyncio.create_task(self._start_next(upcoming, caller, edits))
                if not (tasks := {*edits, *([reader] if reader else [])}):
                    return
                ready, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if reader is not None and reader in ready:
                    has_more, reader = reader.result(), None
                for task in edits & ready:
                    edits.remove(task)
                    yield task.result()
        finally:
            open_tasks = [*edits, *([reader] if reader else [])]
            for each in open_tasks:
                each.cancel()
            await asyncio.gather(*open_tasks, return_exceptions=True)

    async def _start_next(
        self, upcoming: AdmittedMessages, caller: Caller, edits: set[asyncio.Task[pb.ScoreStreamResponse]]
    ) -> bool:
        """Read a request and start to judge it; False at the end of the stream."""
        each = await anext(upcoming, None)
        if each is None:
            return False
        room = upcoming.room.pop_all()
        edits.add(asyncio.create_task(self._result(each.request, caller, room)))
        return True

    async def _result(self, request: pb.ScoreRequest, caller: Caller, room: AsyncExitStack) -> pb.ScoreStreamResponse:
        async with room:
            try:
                with self._service.open_account(caller) as account:
                    response = await self._score(request, account)
            except Exception as error:  # noqa: BLE001 - of this request alone
                refusal = make_refusal(wrap_defect(error), request.request_id)
                return pb.ScoreStreamResponse(refusal=refusal)
            return pb.ScoreStreamResponse(response=response)

    async def ListDimensions(  # noqa: N802
        self, request: pb.ListDimensionsRequest, context: Any
    ) -> pb.ListDimensionsResponse:
        """List dimensions that can be requested, by ids and globs."""
        caller = Caller.of_call(context, "ListDimensions")
        try:
            listing = await self._service.list_dimensions(request.patterns, "patterns", caller)
        except InvalidRequest as error:
            await abort(context, error)
        return await in_thread(lambda: pb.ListDimensionsResponse(dimensions=map(make_dimension, listing)))

    async def GetPanel(  # noqa: N802
        self, request: pb.GetPanelRequest, context: Any
    ) -> pb.GetPanelResponse:
        """Describe the judges and specialists, and the signatures of values under a protocol."""
        signatures: dict[str, str] = {}
        try:
            if request.HasField("protocol"):
                protocol = await in_thread(read_protocol, request.protocol)
                with self._service.open_account(Caller.of_call(context, "GetPanel")) as account:
                    now = await self._service.make_signatures(protocol, request.dimensions, account)
                signatures = await in_thread(lambda: {n: str(each) for n, each in now.items()})
        except Exception as error:  # noqa: BLE001 - of this request alone
            await abort(context, wrap_defect(error))
        panel = PanelReply.of(self._service.client.panel)
        return pb.GetPanelResponse(**panel.model_dump(), signatures=signatures)


def _read_message(message: pb.ScoreRequest) -> tuple[str, ScoreRequest]:
    """The id of a request and the request itself."""
    return message.request_id, read_score_request(message)
