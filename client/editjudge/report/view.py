"""Serves a page of runs to a browser on this machine, and refreshes it while a run goes on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from threading import Lock

from aiohttp import web
from aiohttp.http import HttpProcessingError

from ..app.view import RunView
from ..base.errors import ConfigError, EditjudgeError, ImageError, StoreError
from ..base.terminal import print_notice
from .edits import CHUNK, DetailChunk, Edits, JsonObject, OpenRun, PageRun
from .page import PageOptions, build_report, build_security_policy, dump_script_json, render_page
from .pictures import SIDE, PictureNames, make_thumbnail, name_picture

HOST = "127.0.0.1"
LARGE = 2048
"""Longer side of an enlarged picture, in pixels."""
_AT_ONCE = 4
"""Pictures decoded at the same time, since each may take much memory."""
_SECRET_BYTES = 16
_USUAL = 80
"""The default port of HTTP, which browsers leave out of an address."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OURS = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for the page itself and for a person who typed the address."""
_LOG = logging.getLogger("editjudge.view")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_SHARE = 4
"""Runs are read again after this multiple of the processor time that the last reading took, which
leaves the cores to the judging."""
_FEWEST_SECONDS = 1.0
_QUIET_SECONDS = 60.0
"""A run counts as finished once nothing has changed for this long."""
_FILES = ("run.sqlite", "run.sqlite-wal")


class _Snapshot:
    """The runs as they were when read; their files stay open.

    Attributes:
        version: Version of the runs; a different text once a run changes.
        report: What `build_report` returns, as JSON.
        edits: What `Edits.build_index` returns, as JSON.
        edit_count: Number of edits.
        finished_count: Number of edits without a pending verdict.
    """

    def __init__(
        self,
        runs: Sequence[Path],
        pictures: dict[str, Path],
        version: str,
        *,
        with_published: bool,
        open_run: OpenRun,
    ) -> None:
        self._lock, self._open = Lock(), True
        self._edits = edits = Edits(PictureNames(pictures))
        with ExitStack() as stack:
            views = [stack.enter_context(open_run(run)) for run in runs]
            self._runs = PageRun.from_views(views)
            for run in self._runs:
                run.read(edits, with_published=with_published)
            self._views = stack.pop_all()
        self.version, self.edit_count = version, edits.count
        self.finished_count = edits.count_finished()
        self.edits = dump_script_json(edits.build_index())
        report = build_report(self._runs, edits, PageOptions(mode="view", version=version))
        self.title, self.report = report["title"], dump_script_json(report)

    def detail(self, number: int) -> str | None:
        """Return a chunk of details as JSON; None if it does not exist or the runs are closed."""
        edits, chunk = self._edits, DetailChunk()
        if not 0 <= number < edits.chunks:
            return None
        numbers = range(number * CHUNK, min((number + 1) * CHUNK, edits.count))
        with self._lock:
            if not self._open:
                return None
            for run in self._runs:
                run.add_details(edits, numbers, chunk)
        return dump_script_json(chunk.to_json())

    def close(self) -> None:
        """Close the runs once no reader is left."""
        with self._lock:
            self._open = False
            self._views.close()


class LiveRuns:
    """Reads runs again whenever they change; a context manager, safe to use from any thread.

    Args:
        runs: Folders of the runs.
        with_published: Also show what the papers print.
        open_run: Opens a run.

    Raises:
        ConfigError: a folder holds no run, or one that this version cannot read.
        InputError: the data set of a run no longer exists.
        StoreError: a run is damaged.
    """

    def __init__(
        self, runs: Sequence[Path], *, with_published: bool = False, open_run: OpenRun = RunView
    ) -> None:
        self._runs, self._with_paper, self._open_run = tuple(runs), with_published, open_run
        self._pictures: dict[str, Path] = {}
        self._changed_pictures: set[str] = set()
        self._lock = Lock()
        self._problem = ""
        self._changed_at = self._due_at = -float("inf")
        self.snapshot = self._read(self._version())

    def __enter__(self) -> LiveRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self.snapshot.close()

    def check_progress(self) -> JsonObject:
        """Read the runs again if due, and return their progress and any problem."""
        with self._lock:
            self._refresh()
            snapshot, problem = self.snapshot, self._problem
            waits = self._version() != snapshot.version
            live = waits or time.monotonic() - self._changed_at < _QUIET_SECONDS
        return {
            "version": snapshot.version,
            "live": live and not problem,
            "problem": problem,
            "judged": snapshot.finished_count,
            "asked": snapshot.edit_count,
        }

    def detail(self, number: int) -> str | None:
        """Return a chunk of details as JSON; None if it does not exist."""
        snapshot = self.snapshot
        text = snapshot.detail(number)
        # The runs may have been read again meanwhile; then the next snapshot has the chunk.
        return self.snapshot.detail(number) if text is None else text

    def picture(self, name: str) -> Path | None:
        """Return the file of a picture; None if it does not exist or has changed.

        A changed picture causes the runs to be read again, since another picture was judged.
        """
        file = self._pictures.get(name)
        if file is None or name_picture(file) == name:
            return file
        self._changed_pictures.add(name)
        return None

    def _refresh(self) -> None:
        version = self._version()
        if version == self.snapshot.version:
            self._problem = ""
        elif time.monotonic() >= self._due_at:
            self._changed_at = time.monotonic()
            try:
                before, self.snapshot = self.snapshot, self._read(version)
            except (EditjudgeError, StoreError) as error:  # a run is being merged, moved or removed
                self._due_at = time.monotonic() + _QUIET_SECONDS / 10
                problem = f"the page shows an earlier state of the runs: {error}"
                if problem != self._problem:
                    print_notice(problem)
                self._problem = problem
            else:
                self._problem = ""
                before.close()

    def _read(self, version: str) -> _Snapshot:
        began = time.thread_time()
        snapshot = _Snapshot(
            self._runs,
            self._pictures,
            version,
            with_published=self._with_paper,
            open_run=self._open_run,
        )
        took = time.thread_time() - began
        self._due_at = time.monotonic() + max(_FEWEST_SECONDS, _SHARE * took)
        return snapshot

    def _version(self) -> str:
        """Return a text that changes with every run and picture, without opening files."""
        stats = [_size_and_time(run / name) for run in self._runs for name in _FILES]
        facts = repr((stats, len(self._changed_pictures)))
        return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _size_and_time(file: Path) -> tuple[int, int]:
    """Return size and time of a file; zeros if it is absent or empty, as readers leave logs."""
    try:
        stat = file.stat()
    except OSError:
        return (0, 0)
    return (stat.st_size, stat.st_mtime_ns) if stat.st_size else (0, 0)


class _Pages:
    """The handlers of all addresses below the secret."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def page(self, _: web.Request) -> web.Response:
        """Send the page, which requests everything else."""
        report = json.loads(self._runs.snapshot.report)
        html = await asyncio.to_thread(render_page, report, mode="view")
        return web.Response(
            text=html,
            content_type="text/html",
            charset="utf-8",
            headers={"Content-Security-Policy": build_security_policy("view")},
        )

    async def data(self, request: web.Request) -> web.Response:
        """Send the progress, the report, the index of edits, or a chunk of details."""
        name, snapshot = request.match_info["name"], self._runs.snapshot
        if name == "state":
            return _json_response(json.dumps(await asyncio.to_thread(self._runs.check_progress)))
        if name in {"report", "edits"}:
            return _json_response(snapshot.report if name == "report" else snapshot.edits)
        number = name.removeprefix("detail-")
        if not (number.isascii() and number.isdecimal() and len(number) <= len("9999999")):
            raise web.HTTPNotFound
        text = await asyncio.to_thread(self._runs.detail, int(number))
        if text is None:
            raise web.HTTPNotFound
        return _json_response(text)

    async def picture(self, request: web.Request) -> web.Response:
        """Send a picture as WebP, small or large; browsers may cache it."""
        side = LARGE if request.query.get("full") == "1" else SIDE
        try:
            webp = await self._make_webp(request.match_info["name"], side)
        except ImageError as error:
            return web.Response(status=422, text=str(error))
        # A picture that changes gets another name.
        headers = {"Cache-Control": "private, max-age=3600, immutable"}
        return web.Response(body=webp, content_type="image/webp", headers=headers)

    async def _make_webp(self, name: str, side: int) -> bytes:
        file = await asyncio.to_thread(self._runs.picture, name)
        if file is None:
            raise web.HTTPNotFound
        async with self._places:
            webp = await asyncio.to_thread(make_thumbnail, file, side)
        # The file may have changed while it was read.
        if await asyncio.to_thread(self._runs.picture, name) is None:
            raise web.HTTPNotFound
        return webp


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Return False for malformed requests, which say nothing of this server."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOG.addFilter(_is_worth_logging)


def _json_response(text: str) -> web.Response:
    response = web.Response(text=text, content_type="application/json")
    response.enable_compression()
    return response


@asynccontextmanager
async def serve_page(runs: LiveRuns, port: int = 0) -> AsyncIterator[str]:
    """Serve a page of runs on this machine, and yield its address.

    The address contains a secret, since other users of this machine and other web pages can also
    reach the port.

    Args:
        port: 0 for a free one.

    Raises:
        ConfigError: the port is in use.
    """
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    pages = _Pages(runs)
    application = web.Application(middlewares=[_guard])
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


def _host_names(port: int) -> frozenset[str]:
    """Return the Host headers of this server; the default port may be left out."""
    names = (HOST, "localhost")
    return frozenset([*(f"{name}:{port}" for name in names), *(names if port == _USUAL else ())])


@web.middleware
async def _guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse requests under other host names and from pages of other origins."""
    address = request.transport.get_extra_info("sockname") if request.transport else None
    hosts = _host_names(address[1]) if address else frozenset()
    if request.host not in hosts:
        raise web.HTTPMisdirectedRequest(text="unknown host name", headers=_HEADERS)
    if request.headers.get("Sec-Fetch-Site", "none") not in _OURS:
        raise web.HTTPForbidden(text="requests from other pages are refused", headers=_HEADERS)
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(_HEADERS)
        raise
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
