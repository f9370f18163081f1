"""What the scripted servers that speak gRPC have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio


class Failure(Exception):
    """A status to answer with."""

    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@asynccontextmanager
async def serve(
    add: Callable[[Any], object],
    address: str = "127.0.0.1:0",
    options: Sequence[tuple[str, int]] = (),
    grace: float | None = None,
) -> AsyncIterator[str]:
    """Serve what `add` adds to a server, on loopback; gives `host:port`.

    Args:
        grace: Seconds for calls in flight when it ends.
    """
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *options])
    add(server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        await server.stop(grace)


class ScriptedGrpc:
    """Answers each call with the next of `script`; the last one stays.

    An answer is a `Failure`, a number of seconds to sleep before the next answer, None for a good
    one, or what the server makes of anything else.

    Attributes:
        options: Of the server.
        grace: Seconds that calls in flight have when it ends.
        requests: What was asked.
        metadata: Of all calls.
        deadlines: Seconds that callers gave.
        cancelled: How many calls ended while they slept.
    """

    options: Sequence[tuple[str, int]] = ()
    grace: float | None = None

    def __init__(self, *script: Any) -> None:
        self.script = list(script) or [None]
        self.requests: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.deadlines: list[float | None] = []
        self.cancelled = 0

    def add_to(self, server: Any) -> None:
        """Add the servicers."""
        raise NotImplementedError

    async def play(self, request: Any, context: Any) -> Any:
        """Note a call and play the next answer; what is no failure is returned."""
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.deadlines.append(context.time_remaining())
        answer = self._next()
        if isinstance(answer, int | float):
            try:
                await asyncio.sleep(answer)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            answer = self._next() if self.script != [answer] else None
        if isinstance(answer, Failure):
            await context.abort(answer.code, answer.detail)
        return answer

    def _next(self) -> Any:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    @asynccontextmanager
    async def serving(self, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
        """Serve on loopback; gives the address."""
        async with serve(self.add_to, f"{host}:{port}", self.options, self.grace) as at:
            yield f"grpc://{at}"
