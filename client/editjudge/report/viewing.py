"""A page of runs at an address of this machine, for one person's browser."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..base.errors import ConfigError, ImageError
from .page import page_html, policy
from .pictures import SIDE, thumbnail
from .viewed import Viewed

HOST = "127.0.0.1"
LARGE = 2048
"""Pixels of the longer side of a picture that is looked at closely."""
_KEPT_BYTES = 64 * 1024 * 1024
"""Of pictures that were shown."""
_AT_ONCE = 4
"""Pictures that are made at a time: each may take much memory while it is decoded."""
_SECRET_BYTES = 16
_USUAL = 80
"""Port that browsers leave out of an address."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OURS = frozenset({"same-origin", "none"})
"""Who asks, as browsers say it: the page itself, or a person who typed the address."""
_LOG = logging.getLogger("editjudge.view")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Pictures:
    """The pictures of the runs as WebP; the last ones stay at hand."""

    def __init__(self, place: Callable[[str], Path | None]) -> None:
        self._place = place
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def get(self, name: str, side: int) -> bytes | None:
        """A picture; None where no run has one of this name, or it is another one by now.

        Raises:
            ImageError: it cannot be read.
        """
        file, key = await asyncio.to_thread(self._place, name), (name, side)
        if file is None:
            return None
        async with self._places:
            if key not in self._kept:
                webp = await asyncio.to_thread(thumbnail, file, side)
                # It may have been written while it was read.
                if await asyncio.to_thread(self._place, name) is None:
                    return None
                self._keep(key, webp)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: tuple[str, int], webp: bytes) -> None:
        if key not in self._kept:
            self._kept[key] = webp
            self._bytes += len(webp)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)


class _Pages:
    """What there is below the secret of the address."""

    def __init__(self, viewed: Viewed) -> None:
        self._viewed = viewed
        self._pictures = _Pictures(viewed.picture)

    async def page(self, _: web.Request) -> web.Response:
        """The page, which asks for all else."""
        report = json.loads(self._viewed.report)
        html = await asyncio.to_thread(page_html, report, mode="view")
        return web.Response(
            text=html,
            content_type="text/html",
            charset="utf-8",
            headers={"Content-Security-Policy": policy("view")},
        )

    async def data(self, request: web.Request) -> web.Response:
        """The report, the index of edits, or a chunk of details."""
        name = request.match_info["name"]
        if name == "state":
            return _json(json.dumps(await asyncio.to_thread(self._viewed.progress)))
        if name in {"report", "edits"}:
            return _json(self._viewed.report if name == "report" else self._viewed.edits)
        number = name.removeprefix("detail-")
        if not (number.isascii() and number.isdecimal() and len(number) <= len("9999999")):
            raise web.HTTPNotFound
        text = await asyncio.to_thread(self._viewed.detail, int(number))
        if text is None:
            raise web.HTTPNotFound
        return _json(text)

    async def picture(self, request: web.Request) -> web.Response:
        """A picture of the runs, small or large."""
        side = LARGE if request.query.get("full") == "1" else SIDE
        try:
            webp = await self._pictures.get(request.match_info["name"], side)
        except ImageError as error:
            return web.Response(status=422, text=str(error))
        if webp is None:
            raise web.HTTPNotFound
        # Another picture has another name.
        headers = {"Cache-Control": "private, max-age=3600, immutable"}
        return web.Response(body=webp, content_type="image/webp", headers=headers)


def _worth_telling(record: logging.LogRecord) -> bool:
    """False of what is no request at all: it was answered, and says nothing of us."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOG.addFilter(_worth_telling)


def _json(text: str) -> web.Response:
    response = web.Response(text=text, content_type="application/json")
    response.enable_compression()
    return response


@asynccontextmanager
async def viewing(viewed: Viewed, port: int = 0) -> AsyncIterator[str]:
    """Serve a page of runs on this machine alone; where it is.

    Whoever does not know the address finds nothing: its path holds a secret, for other people on
    this machine and pages of other places can reach the port too.

    Args:
        port: 0 for a free one.

    Raises:
        ConfigError: the port is taken.
    """
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    pages = _Pages(viewed)
    application = web.Application(middlewares=[_careful])
    application.add_routes(
        [
            web.get(f"/{secret}/", pages.page),
            web.get(f"/{secret}/data/{{name}}.json", pages.data),
            web.get(f"/{secret}/pictures/{{name}}", pages.picture),
        ]
    )
    runner = web.AppRunner(application, access_log=None, logger=_LOG, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}", "give another --port") from error
        yield f"http://{HOST}:{runner.addresses[0][1]}/{secret}/"
    finally:
        await runner.cleanup()


def _names(port: int) -> frozenset[str]:
    """What browsers call this server: without the port where it is the usual one."""
    names = (HOST, "localhost")
    return frozenset([*(f"{name}:{port}" for name in names), *(names if port == _USUAL else ())])


@web.middleware
async def _careful(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer our own page alone: not one whose name leads here, nor one of another place."""
    taken = request.transport.get_extra_info("sockname") if request.transport else None
    hosts = _names(taken[1]) if taken else frozenset()
    if request.host not in hosts:
        raise web.HTTPMisdirectedRequest(text="this is no name of this server", headers=_HEADERS)
    if request.headers.get("Sec-Fetch-Site", "none") not in _OURS:
        raise web.HTTPForbidden(text="not for other pages", headers=_HEADERS)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(_HEADERS)
        raise
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
