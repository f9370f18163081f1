"""The Judge service as JSON over HTTP, for callers without gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from aiohttp import web
from google.rpc import code_pb2
from pydantic import ValidationError
from pydantic.json_schema import models_json_schema

from ..answers.lenient import whole
from ..app.wire.base import Wire, text_of
from ..app.wire.lists import Dimension
from ..app.wire.verdict import Score
from ..base.contracts import TEAM_HEADER
from ..base.errors import EditjudgeError
from ..base.identity import untrained
from ..base.signature import package_version
from .asked import Asked
from .judging import Judging
from .protocols import Unusable, listed
from .servicer import status_of, told
from .wire import (
    Batch,
    BatchAsked,
    DimensionServed,
    Error,
    PanelServed,
    Refused,
    Result,
    ScoreAsked,
)

W = TypeVar("W", bound=Wire)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HTTP = {
    code_pb2.INVALID_ARGUMENT: 400,
    code_pb2.FAILED_PRECONDITION: 400,
    code_pb2.RESOURCE_EXHAUSTED: 429,
}
_OF_BATCH = 16
"""Edits of a batch that are judged at a time; they wait for places, if need be."""
MAX_BODY_BYTES = 256 * 1024 * 1024


class JsonService:
    """The routes.

    Args:
        judging: Entered by whoever made it.
    """

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    def app(self) -> web.Application:
        """The application with all routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_refusals])
        for method, path, handler in (
            ("POST", "/v1/score", self._score),
            ("POST", "/v1/score:batch", self._batch),
            ("GET", "/v1/dimensions", self._dimensions),
            ("GET", "/v1/panel", self._panel),
            ("GET", "/v1/openapi.json", self._openapi),
            ("GET", "/health", self._health),
        ):
            app.router.add_route(method, path, handler)
        return app

    async def _score(self, request: web.Request) -> web.Response:
        async def read() -> Asked:
            return await asyncio.to_thread((await _body(request, ScoreAsked)).asked)

        caller = _caller(request)
        async with self._judging.requests.taking(caller, _announced(request), waits=False):
            return _reply(Score.of(await self._judging.score(read, caller)))

    async def _batch(self, request: web.Request) -> web.Response:
        caller = _caller(request)
        async with self._judging.requests.taking(caller, _announced(request), waits=False):
            batch = await _body(request, BatchAsked)
            some = asyncio.Semaphore(_OF_BATCH)
            results = await asyncio.gather(
                *(self._result(each, caller, some) for each in batch.requests)
            )
        return _reply(Batch(results=tuple(results)))

    async def _result(self, sent: ScoreAsked, caller: str, some: asyncio.Semaphore) -> Result:
        async def read() -> Asked:
            return await asyncio.to_thread(sent.asked)

        try:
            async with some:
                score = Score.of(await self._judging.score(read, caller, waits=True))
            text_of(score)  # what cannot be written costs itself
            return Result(score=score)
        except Exception as error:  # noqa: BLE001 - of this request alone
            return Result(error=_refused(told(error))[0])

    async def _dimensions(self, request: web.Request) -> web.Response:
        patterns = request.query.getall("pattern", [])
        asked = await asyncio.to_thread(listed, patterns, "pattern")
        served = frozenset(map(str, self._judging.client.panel.served))
        known = []
        for dimension in asked:
            about = Dimension.of(dimension)
            here = served.issuperset(about.services)
            known.append(DimensionServed(**about.model_dump(), served=here))
        return _reply(known)

    async def _panel(self, _: web.Request) -> web.Response:
        panel = self._judging.client.panel
        identities = panel.identities()
        return _reply(
            PanelServed(
                services={role: str(identity) for role, identity in sorted(identities.items())},
                untrained=tuple(sorted(untrained(identities))),
                problems=dict(panel.problems),
                version=package_version("editjudge"),
            )
        )

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(openapi())

    async def _health(self, _: web.Request) -> web.Response:
        if self._judging.ending:
            return web.Response(status=503, text="ending")
        return web.Response(text="serving")


_PATHS: tuple[tuple[str, str, str, type[Wire] | None, type[Wire]], ...] = (
    ("/v1/score", "post", "Judge one edit.", ScoreAsked, Score),
    ("/v1/score:batch", "post", "Judge several; each is refused alone.", BatchAsked, Batch),
    ("/v1/dimensions", "get", "What can be asked; `pattern` chooses.", None, DimensionServed),
    ("/v1/panel", "get", "Who judges here.", None, PanelServed),
)


def openapi() -> dict[str, Any]:
    """The routes in OpenAPI 3.1."""
    models = {m for *_, asked, given in _PATHS for m in (asked, given) if m is not None} | {Error}
    keys, definitions = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda m: m.__name__)],
        ref_template="#/components/schemas/{model}",
    )

    def content(model: type[Wire], *, several: bool = False) -> dict[str, Any]:
        schema: Mapping[str, Any] = keys[model, "validation"]
        if several:
            schema = {"type": "array", "items": schema}
        return {"content": {"application/json": {"schema": schema}}}

    paths: dict[str, Any] = {}
    for path, method, summary, asked, result in _PATHS:
        many = result is DimensionServed
        operation: dict[str, Any] = {
            "summary": summary,
            "responses": {
                "200": {"description": "judged", **content(result, several=many)},
                "4XX": {"description": "refused: the field and the mend", **content(Error)},
            },
        }
        if asked is not None:
            operation["requestBody"] = {"required": True, **content(asked)}
        if many:
            operation["parameters"] = [
                {
                    "name": "pattern",
                    "in": "query",
                    "schema": {"type": "array", "items": {"type": "string"}},
                }
            ]
        paths[path] = {method: operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "editjudge", "version": package_version("editjudge")},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {})},
    }


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        mend = f"send less than {MAX_BODY_BYTES:,} bytes"
        refused, status = Refused(code="INVALID_ARGUMENT", message="too large", mend=mend), 413
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - of this request alone
        refused, status = _refused(told(error))
    headers = {"retry-after": "1"} if status == 429 else {}
    return _reply(Error(error=refused), status=status, headers=headers)


def _refused(error: EditjudgeError) -> tuple[Refused, int]:
    code = status_of(error).code
    refused = Refused(
        code=code_pb2.Code.Name(code),
        message=error.message,
        field=error.field if isinstance(error, Unusable) else "",
        mend=error.mend,
    )
    return refused, _HTTP.get(code, 500)


async def _body(request: web.Request, model: type[W]) -> W:
    """The body, checked beside the event loop: pictures in base64 are megabytes.

    Raises:
        Unusable: naming the first field that cannot be used.
    """
    try:
        text = await request.read()
    except web.RequestPayloadError as error:
        raise Unusable("body", "it cannot be read", "send JSON without encodings") from error
    try:
        return await asyncio.to_thread(model.model_validate_json, text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise Unusable(field, first["msg"], "see /v1/openapi.json") from error


def _announced(request: web.Request) -> int:
    """How many bytes the body may have, before any is read.

    Raises:
        HTTPRequestEntityTooLarge: more than any body may have.
    """
    size = request.content_length
    if size is None or "content-encoding" in request.headers:
        return MAX_BODY_BYTES
    if size > MAX_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, size)
    return size


def _reply(
    models: Wire | list[Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        text=whole(text_of(models, indent=None)),
        content_type="application/json",
        status=status,
        headers=headers,
    )


def _caller(request: web.Request) -> str:
    return request.headers.get(TEAM_HEADER, "")


@contextlib.asynccontextmanager
async def serving_json(judging: Judging, host: str, port: int, drain: float) -> AsyncIterator[str]:
    """Serve at an address; at the end what is in flight is finished.

    Yields:
        The address with its port.

    Raises:
        OSError: the address is taken.
    """
    runner = web.AppRunner(
        JsonService(judging).app(),
        access_log=None,
        shutdown_timeout=drain,
        handler_cancellation=True,  # who went away waits for nothing, and pays for no more
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
