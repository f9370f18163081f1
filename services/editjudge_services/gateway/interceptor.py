"""A gRPC interceptor that reads requests: not before there is room, and refusing what is none."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from inspect import isasyncgenfunction
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from editjudge.base.errors import EditjudgeError
from editjudge.base.fair_queue import TEAM
from editjudge.base.threads import FairThreads, in_thread

from .accounting import Caller
from .admission import MAX_REQUEST_BYTES, Hold, SharedLimit, SharedRate
from .bounds import check_message
from .errors import abort
from .schemas import InvalidRequest
from .service import JudgeService

_SMALL_BYTES = 4096
"""Up to this size a message is parsed at once; others wait for a thread."""
_LARGE_BYTES = 8 * 1024 * 1024
"""A team with a message of this size reads its messages one after another from then on."""
_LARGE_SECONDS = 600.0
"""For so long."""
_TURN_SECONDS = 0.5
"""How long a message that does not arrive holds up the next one of its team."""
_PARSERS = FairThreads(2, "parse")
_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class LargeMessages:
    """Reads the messages of calls: those of a team that sends large ones, one after another.

    gRPC copies a message in the event loop: 56 MiB take 70 ms, and eight that arrive together hold
    up everybody for half a second.
    """

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Lock] = {}

    async def read(self, owner: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """Read a message; see `AdmittedMessages`."""
        if (turn := self._turns.get(owner)) is None:
            data = await read()
        else:
            async with turn:
                reading = asyncio.ensure_future(read())
                try:
                    await asyncio.wait([reading], timeout=_TURN_SECONDS)
                except asyncio.CancelledError:
                    reading.cancel()
                    raise
            data = await reading
        if data is not grpc.aio.EOF and len(data) > _LARGE_BYTES and owner not in self._turns:
            self._turns[owner] = asyncio.Lock()
            asyncio.get_running_loop().call_later(_LARGE_SECONDS, self._turns.pop, owner)
        return data


@dataclass(eq=False)
class AdmittedMessages:
    """The messages of a call; none is read before there is room for the largest.

    Attributes:
        rate: The limit on requests; each message is one.
        limit: The limit on the bytes of requests.
        owner: Whose they are.
        until: When a message no longer waits for room, by the event loop's clock.
        read: Reads a message; gives `grpc.aio.EOF` at the end.
        deserialize: Makes a request of a message.
        room: Holds the room of the message that was read last, until the next one is read. Who
            needs the message longer takes it over (`pop_all`).
    """

    rate: SharedRate
    limit: SharedLimit
    owner: str
    until: float
    read: Callable[[], Awaitable[Any]]
    deserialize: Callable[[bytes], Any]
    room: AsyncExitStack = field(default_factory=AsyncExitStack, init=False)
    _hold: Hold | None = None

    def __aiter__(self) -> AdmittedMessages:
        return self

    async def admit(self) -> Hold:
        """Wait for room for the next message, which is not read yet.

        Raises:
            NoCapacity: there was no room for it in time.
        """
        await self.room.aclose()
        await self.rate.wait(self.owner, until=self.until)
        room = self.limit.acquire(self.owner, MAX_REQUEST_BYTES, self.until)
        self._hold = await self.room.enter_async_context(room)
        return self._hold

    async def read_only(self, convert: Callable[[Any], Any] | None = None) -> Any:
        """Read the message of a call that has one.

        Args:
            convert: Makes of it what is returned, in the thread that parses it: each change of
                threads costs more than this does.

        Raises:
            InvalidRequest: there is none, or it is no message of this method, or `convert` says so.
            NoCapacity: there was no room for it in time.
        """
        if (message := await self._read(convert)) is None:
            raise InvalidRequest("request", "there is none", "send one message")
        return message

    async def __anext__(self) -> Any:
        """Read the next message.

        Raises:
            InvalidRequest: it is no message of this method.
            NoCapacity: there was no room for it in time.
            StopAsyncIteration: there is no further one.
        """
        if (message := await self._read()) is None:
            raise StopAsyncIteration
        return message

    async def _read(self, convert: Callable[[Any], Any] | None = None) -> Any:
        hold, self._hold = self._hold or await self.admit(), None
        data = await self.read()
        if data is grpc.aio.EOF:
            await self.room.aclose()
            return None
        hold.shrink(len(data))
        if len(data) <= _SMALL_BYTES:
            return _parse(self.deserialize, data, convert)
        return await in_thread(_parse, self.deserialize, data, convert, executor=_PARSERS)


def _parse(deserialize: Any, data: bytes, convert: Callable[[Any], Any] | None) -> Any:
    """Parse a message that holds no more than a request may."""
    try:
        check_message(data, deserialize.__self__.DESCRIPTOR)
        message = deserialize(data)
    except DecodeError as error:
        reason = f"{len(data):,} bytes are no message of this method"
        raise InvalidRequest("request", reason, "make it from the proto") from error
    return convert(message) if convert else message


class RequestInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Reads the requests of all methods, and sets the team whose turn their work takes.

    grpcio would read the message of a unary call before anybody can say that there is no room. On
    the wire it is a stream of one message, and so it is read here. A message that cannot be parsed
    is refused with INVALID_ARGUMENT, where grpcio would say UNKNOWN; in a stream it ends the
    stream. `Score` gets its message unread, for when there is a place for its edit.
    """

    def __init__(self, service: JudgeService) -> None:
        self._service = service
        self._messages = LargeMessages()

    async def intercept_service(self, resolve: Callable[[Any], Awaitable[Any]], call: Any) -> Any:
        """Wrap the handler of a method; None where there is no such method."""
        handler = await resolve(call)
        if handler is None:
            return None
        kind = next(name for name in _KINDS if getattr(handler, name) is not None)
        stream_kind = f"stream_{kind.rpartition('_')[2]}"
        method = self._wrap_method(handler, kind, call.method.rpartition("/")[2])
        changes = {kind: None, stream_kind: method, "request_streaming": True}
        return handler._replace(request_deserializer=None, **changes)

    def _wrap_method(self, handler: Any, kind: str, name: str) -> Callable[[Any, Any], Any]:
        """Make a method that reads the requests of `handler` before calling it."""
        method = getattr(handler, kind)

        @contextlib.asynccontextmanager
        async def open_messages(context: Any) -> AsyncIterator[Any]:
            caller = Caller.of_call(context, name)
            TEAM.set(caller.team)
            until = math.inf if handler.request_streaming else caller.waits_until
            rate, limit, owner = self._service.rate, self._service.requests, caller.owner
            deserialize = handler.request_deserializer
            read = partial(self._messages.read, owner, context.read)
            messages = AdmittedMessages(rate, limit, owner, until, read, deserialize)
            async with messages.room, AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(self._service.calls.acquire(owner, 1, 0.0))
                    if name == "Score":
                        await messages.admit()
                    is_unread = handler.request_streaming or name == "Score"
                    yield messages if is_unread else await messages.read_only()
                except EditjudgeError as error:
                    await self._refuse(error, caller, context)

        async def respond(context: Any) -> Any:
            async with open_messages(context) as request:
                return await method(request, context)

        async def answer(_: object, context: Any) -> Any:
            try:
                return await respond(context)
            except grpc.aio.AbortError as error:
                # Its context keeps it, and with its frames the message, until garbage is collected.
                error.__context__ = None
                raise error.with_traceback(None)  # noqa: B904

        async def answer_stream(_: object, context: Any) -> AsyncIterator[Any]:
            async with AsyncExitStack() as stack:
                request = await stack.enter_async_context(open_messages(context))
                responses = await stack.enter_async_context(aclosing(method(request, context)))
                async for response in responses:
                    yield response

        return answer_stream if isasyncgenfunction(method) else answer

    async def _refuse(self, error: EditjudgeError, caller: Caller, context: Any) -> None:
        """End a call with an error that its method does not account for."""
        with contextlib.suppress(EditjudgeError), self._service.open_account(caller):
            raise error
        await abort(context, error)
