"""A page of runs at an address of this machine, for one person's browser."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

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
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OURS = frozenset({"same-origin", "none"})
"""Who asks, as browsers say it: the page itself, or a person who typed the address."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Pictures:
    """The pictures of the runs as WebP; the last ones stay at hand."""

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def get(self, name: str, side: int) -> bytes | None:
        """A picture; None where no run has one of this name.

        Raises:
            ImageError: it cannot be read.
        """
        file, key = self._files.get(name), (name, side)
        if file is None:
            return None
        async with self._places:
            if key not in self._kept:
                self._keep(key, await asyncio.to_thread(thumbnail, file, side))
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
        self._pictures = _Pictures(viewed.names.files)

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
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
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


@web.middleware
async def _careful(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer our own page alone: not one whose name leads here, nor one of another place."""
    taken = request.transport.get_extra_info("sockname") if request.transport else None
    hosts = {f"{name}:{taken[1]}" for name in (HOST, "localhost")} if taken else set()
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
