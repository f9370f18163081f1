"""A network that fails on demand: a TCP proxy in front of a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Mode = Literal["pass", "delay", "black hole", "half-open", "reset", "throttle", "refuse"]

_PIECE = 64 * 1024


class FaultProxy:
    """Passes bytes between clients and one server, or does not.

    - `delay`: every piece is late by `seconds`, both ways.
    - `black hole`: bytes are taken and lost; new connections are accepted, and reach nobody.
    - `half-open`: as `black hole`, and the server sees its connections close.
    - `reset`: connections are reset, new ones at once.
    - `throttle`: `rate` bytes a second, both ways.
    - `refuse`: nobody listens; what is connected is reset.

    What was lost stays lost: a connection that went through a black hole, was half-open or
    reset never passes anything again.

    Args:
        url: The server's address.
    """

    def __init__(self, url: str, *, seconds: float = 0.05, rate: int = 200_000) -> None:
        self._server = urlsplit(url)
        self._listening: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._port = 0
        self.seconds = seconds
        self.rate = rate
        self.mode: Mode = "pass"
        self.accepted = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on loopback; gives the address that stands for the server's."""
        await self._listen()
        try:
            yield urlunsplit(self._server._replace(netloc=f"127.0.0.1:{self._port}"))
        finally:
            await self.switch("refuse")

    async def switch(self, mode: Mode) -> None:
        """Change what happens, to connections that are there as well."""
        self.mode = mode
        if mode == "refuse":
            if self._listening is not None:
                self._listening.close()
            self._listening = None
        elif self._listening is None:
            await self._listen()
        for link in list(self._links):
            link.fail(mode)

    def find_server(self) -> tuple[str, int]:
        """Where a new connection goes: host and port."""
        return self._server.hostname or "", self._server.port or 0

    async def _listen(self) -> None:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=_PIECE)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.run(*self.find_server())
        finally:
            self._links.discard(link)


class _Link:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._client = writer
        self._server: asyncio.StreamWriter | None = None
        self._lost = False

    def fail(self, mode: Mode) -> None:
        if mode in {"reset", "refuse"}:
            self._client.transport.abort()
        if mode in {"reset", "refuse", "half-open"} and self._server is not None:
            self._server.transport.abort()
        self._lost |= mode in {"black hole", "half-open"}

    async def run(self, host: str, port: int) -> None:
        try:
            if self._proxy.mode in {"pass", "delay", "throttle"}:
                reader, self._server = await asyncio.open_connection(host, port, limit=_PIECE)
            self.fail(self._proxy.mode)
            if self._server is None:
                while await self._reader.read(_PIECE):
                    pass
                return
            await asyncio.gather(self._pump(self._reader, self._server), self._pump(reader, self._client))
        except OSError:
            pass  # either side went away
        finally:
            self._client.close()
            if self._server is not None:
                self._server.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        at_client = source is self._reader
        while True:
            try:
                piece = await source.read(_PIECE if self._proxy.mode != "throttle" else 4096)
            except OSError:
                piece = b""
            if not piece:
                break
            if self._proxy.mode == "delay":
                await asyncio.sleep(self._proxy.seconds)
            elif self._proxy.mode == "throttle":
                await asyncio.sleep(len(piece) / self._proxy.rate)
            if not self._lost:
                sink.write(piece)
                await sink.drain()
        if self._lost and not at_client:
            # The client is not told that the server is gone; the other pump reads what it says.
            return
        sink.close()
