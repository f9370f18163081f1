"""The Judge service as JSON over HTTP, for callers without gRPC."""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.typedefs import Middleware
from pydantic import BaseModel

from editjudge.base.contracts import TEAM_HEADER, TOKENS_HEADER
from editjudge.base.fair_queue import TEAM
from editjudge.base.strict import to_json
from editjudge.base.text import join_surrogates
from editjudge.base.threads import in_thread
from editjudge.service import ScoreReport

from .accounting import Caller, RequestAccount
from .admission import MAX_REQUEST_BYTES
from .bounds import check_json
from .errors import describe_error, wrap_defect
from .metrics import CONTENT_TYPE
from .openapi import render_openapi
from .reward_bodies import ROOM_OF_BATCH, send_continue
from .reward_routes import RewardRoutes
from .schemas import (
    BatchReply,
    BatchRequest,
    BatchResult,
    ErrorReply,
    InvalidRequest,
    JsonModel,
    PanelReply,
    Refusal,
    ScoreRequest,
    parse_request,
)
from .service import JudgeService
from .token_reports import TokenReport

W = TypeVar("W", bound=JsonModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HTTP = {"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "RESOURCE_EXHAUSTED": 429}
_REPORT = web.RequestKey("report", TokenReport)
"""The report of the tokens that judges used for a request."""
_CALLER = web.RequestKey("caller", Caller)
_JSON = "application/json"
_QUERIES = {"/v1/dimensions": ("pattern",)}
"""The query parameters of each route that has any."""
_MAX_SHOWN_CHARS = 80


class JsonService:
    """The routes of the HTTP server.

    Args:
        service: A service that has been entered as a context manager.
        team: The team that all requests count for; only rewards are then served. "" for that of each request.
    """

    def __init__(self, service: JudgeService, team: str = "") -> None:
        self.service = service
        self._team = team
        self._config = service.reward_config
        self._opened_at: WeakKeyDictionary[asyncio.BaseTransport, float] = WeakKeyDictionary()

    def app(self) -> web.Application:
        """Make the application with all routes."""
        middlewares = [*([_count_for(self._team)] if self._team else []), _send, _refusals]
        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=middlewares)
        others = (
            ("POST", "/v1/score", self._score),
            ("POST", "/v1/score:batch", self._batch),
            ("GET", "/v1/dimensions", self._in_place(self._dimensions)),
            ("GET", "/v1/panel", self._in_place(self._panel)),
            ("GET", "/v1/openapi.json", self._in_place(self._openapi)),
            ("GET", "/metrics", self._metrics),
        )
        for method, path, handler in (
            *(() if self._team else others),
            ("GET", "/health", self.health),
            *(RewardRoutes(self, self._config).routes() if self._config else ()),
        ):
            for each in (method, "HEAD") if method == "GET" else (method,):
                app.router.add_route(each, path, handler, expect_handler=_expect)
        app.on_response_prepare.append(self._bound_connection_age)
        return app

    async def _bound_connection_age(self, request: web.Request, response: web.StreamResponse) -> None:
        now, transport = asyncio.get_running_loop().time(), request.transport
        if transport is not None:
            opened_at = self._opened_at.setdefault(transport, now)
            age = self.service.connection_age * random.uniform(0.9, 1.1)
            if self.service.is_terminating or now > opened_at + age:
                response.force_close()
                response.headers["connection"] = "close"  # aiohttp has set it already

    async def _score(self, request: web.Request) -> web.Response:
        async def read() -> ScoreRequest:
            return await _body(request, ScoreRequest)

        with self.open_account(request) as account:
            async with self.acquire_room(request, account.caller):
                judgement = await self.service.score(read, account)
                return await in_thread(_reply, ScoreReport.of(judgement))

    async def _batch(self, request: web.Request) -> web.Response:
        with self.open_account(request) as account:
            async with self.acquire_room(request, account.caller):
                batch = await _body(request, BatchRequest)
                account.is_split = True
                slots = asyncio.Semaphore(self.service.edits.largest)
                results = await asyncio.gather(*(self._result(request, each, slots) for each in batch.requests))
        return await in_thread(_reply, BatchReply(results=tuple(results)))

    async def _result(self, request: web.Request, body: object, slots: asyncio.Semaphore) -> BatchResult:
        async def read() -> ScoreRequest:
            return await in_thread(parse_request, ScoreRequest.model_validate, body)

        try:
            with self.open_account(request, is_part=True) as account:
                async with slots:
                    await self.service.rate.wait(account.caller.owner)
                    score = ScoreReport.of(await self.service.score(read, account))
            await in_thread(to_json, score)  # one that cannot be written fails alone
            return BatchResult(score=score)
        except Exception as error:  # noqa: BLE001 - of this request alone
            return BatchResult(error=describe_error(wrap_defect(error)))

    @contextlib.asynccontextmanager
    async def acquire_room(
        self, request: web.Request, caller: Caller, largest: float = MAX_REQUEST_BYTES
    ) -> AsyncIterator[int]:
        """Hold room for a call and for its body, which is not read yet; gives its size."""
        size, until = _read_size(request, largest), caller.waits_until
        async with self._acquire_place(caller), self.service.requests.acquire(caller.owner, size, until):
            yield size

    @contextlib.asynccontextmanager
    async def _acquire_place(self, caller: Caller) -> AsyncIterator[None]:
        """Hold a place for a call, which begins when its team has not asked too often."""
        async with self.service.calls.acquire(caller.owner, 1, 0.0):
            await self.service.rate.wait(caller.owner, until=caller.waits_until)
            yield

    def _in_place(self, handler: Handler) -> Handler:
        """A handler of a request without a body, which takes a place."""

        async def answer(request: web.Request) -> web.StreamResponse:
            async with self._acquire_place(_find_caller(request)):
                return await handler(request)

        return answer

    @contextlib.contextmanager
    def open_account(self, request: web.Request, *, is_part: bool = False) -> Iterator[RequestAccount]:
        """Account for a request, or for one edit of it; its tokens are in the report."""
        if is_part:  # it waits for room as long as it takes
            caller = replace(request[_CALLER], waits_until=math.inf)
        else:
            request[_CALLER] = caller = _find_caller(request)
            request[_REPORT] = self.service.open_report(caller)
        with self.service.open_account(caller, request[_REPORT]) as account:
            try:
                yield account
            except web.HTTPException:  # too large, or no JSON
                account.code = "INVALID_ARGUMENT"
                raise

    async def _dimensions(self, request: web.Request) -> web.Response:
        patterns = request.query.getall("pattern", [])
        caller = _find_caller(request)
        listing = await self.service.list_dimensions(patterns, "pattern", caller)
        return await in_thread(_reply, listing)

    async def _panel(self, _: web.Request) -> web.Response:
        return _reply(PanelReply.of(self.service.client.panel))

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.json_response(text=await in_thread(render_openapi))

    async def health(self, _: web.Request) -> web.Response:
        """Say that requests are accepted, and which rewards there are."""
        if self.service.is_terminating:
            return web.Response(status=503, text="ending")
        if self._config:
            return web.json_response({"status": "ok", "rewards": self._config.list_rewards()})
        return web.Response(text="serving")

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(self.service.metrics.text)
        return web.Response(body=text, headers={"content-type": CONTENT_TYPE})


def _find_caller(request: web.Request) -> Caller:
    """The caller of a request to one of the routes; a name in its path is no method of its own."""
    resource = request.match_info.route.resource
    return Caller.of(request.headers, resource.canonical if resource else "")


def _count_for(team: str) -> Middleware:
    """Make requests count for a team; what a front door would say of them (`x-…`) is left out."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name: text for name, text in request.headers.items() if not name.lower().startswith("x-")}
        return await handler(request.clone(headers={**headers, TEAM_HEADER: team}))

    return count


@web.middleware
async def _send(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send the response, with the report of its tokens, and note whether it has arrived."""
    has_arrived = False
    try:
        response = await handler(request)
        if _REPORT in request:
            response.headers[TOKENS_HEADER] = str(request[_REPORT].take())
        with contextlib.suppress(ConnectionResetError):  # its caller has gone
            await response.prepare(request)
            await response.write_eof()
            has_arrived = True
        return response
    finally:
        if _REPORT in request:
            request[_REPORT].close(has_arrived=has_arrived)


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    TEAM.set(request.headers.get(TEAM_HEADER, ""))
    try:
        _check_query(request)
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        fix = f"send less than {MAX_REQUEST_BYTES:,} bytes"
        why, status = Refusal(code="INVALID_ARGUMENT", message="too large", fix=fix), 413
    except web.HTTPException as error:
        why, status = _no_such(request, error), error.status
        headers = {"allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return _reply(ErrorReply(error=why), status=status, headers=headers)
    except Exception as error:  # noqa: BLE001 - of this request alone
        why = describe_error(wrap_defect(error))
        status = _HTTP.get(why.code, 500)
    headers = {"retry-after": "1"} if status == 429 else {}
    return _reply(ErrorReply(error=why), status=status, headers=headers)


def _check_query(request: web.Request) -> None:
    """Check that a JSON route has all parameters of a query.

    Raises:
        InvalidRequest: naming the first parameter that the route does not have.
    """
    if request.match_info.http_exception is not None or not request.path.startswith("/v1/"):
        return
    parameters = _QUERIES.get(request.path, ())
    if unknown := [name for name in request.query if name not in parameters]:
        fix = f"there is {', '.join(parameters)}" if parameters else "leave it out"
        raise InvalidRequest(unknown[0][:_MAX_SHOWN_CHARS], "no such field of a query", fix)


def _no_such(request: web.Request, error: web.HTTPException) -> Refusal:
    """Describe why no route accepts a request: its path, method or headers."""
    if isinstance(error, web.HTTPNotFound):
        message = f"{request.path[:_MAX_SHOWN_CHARS]}: nothing is served here"
        return Refusal(code="NOT_FOUND", message=message, fix="see /v1/openapi.json")
    if isinstance(error, web.HTTPMethodNotAllowed):
        message = f"{request.path[:_MAX_SHOWN_CHARS]} takes no {request.method[:_MAX_SHOWN_CHARS]}"
        fix = f"use {' or '.join(sorted(error.allowed_methods))}"
        return Refusal(code="UNIMPLEMENTED", message=message, fix=fix)
    return Refusal(code="INVALID_ARGUMENT", message=error.reason, fix="see /v1/openapi.json")


async def _body(request: web.Request, model: type[W]) -> W:
    """Read and validate the body in a thread, since images in base64 are megabytes.

    Raises:
        HTTPUnsupportedMediaType: its content type is not JSON.
        InvalidRequest: naming the first field that cannot be used.
    """
    if request.content_type != _JSON:
        # Any web page may send plain text or a form from a browser, without a CORS preflight.
        content_type = request.content_type[:_MAX_SHOWN_CHARS]
        reason = f"the body is {content_type}; send it as content-type: {_JSON}"
        raise web.HTTPUnsupportedMediaType(reason=reason)
    if "content-encoding" in request.headers:
        raise InvalidRequest("body", "it has a content encoding", "send JSON without encodings")
    try:
        await send_continue(request)
        text = await request.read()
    except web.RequestPayloadError as error:
        raise InvalidRequest("body", "it ends too early", "send all of it") from error
    return await in_thread(_parse_body, text, model)


async def _expect(_: web.Request) -> None:
    """Leave a caller that asks whether to send its body waiting, until there is room for it."""


def _parse_body(body: bytes, model: type[W]) -> W:
    check_json(body, ROOM_OF_BATCH if model is BatchRequest else 1)
    return parse_request(model.model_validate_json, body)


def _read_size(request: web.Request, largest: float) -> int:
    """Read the body's size from its header; without one, the largest size that is accepted.

    Raises:
        HTTPRequestEntityTooLarge: the body is larger than any body may be.
    """
    size = request.content_length
    if size is None:
        return MAX_REQUEST_BYTES
    if size > largest:
        raise web.HTTPRequestEntityTooLarge(MAX_REQUEST_BYTES, size)
    return size


def _reply(
    body: BaseModel | Sequence[BaseModel], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        text=join_surrogates(to_json(body, indent=None)),
        content_type="application/json",
        status=status,
        headers=headers,
    )


@contextlib.asynccontextmanager
async def serve_http(service: JudgeService, host: str, port: int, drain: float, team: str = "") -> AsyncIterator[str]:
    """Serve JSON over HTTP at an address until the block is left or the service shuts down.

    Requests in flight then have `drain` seconds, after which they are cancelled. A request whose
    caller disconnects is cancelled at once.

    Args:
        team: See `JsonService`.

    Yields:
        The address with its port.

    Raises:
        OSError: the address is taken.
    """
    runner = web.AppRunner(
        JsonService(service, team).app(),
        access_log=None,
        shutdown_timeout=drain / 2,  # aiohttp waits for it twice
        auto_decompress=False,  # a few bytes could decompress to gigabytes
        handler_cancellation=True,  # a caller that disconnected pays for no further calls
    )
    await runner.setup()

    async def end() -> None:
        await service.shutdown.wait()
        await runner.cleanup()

    ending = asyncio.create_task(end())
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        url_host = f"[{host}]" if ":" in host else host
        yield f"http://{url_host}:{runner.addresses[0][1]}"
    finally:
        service.shutdown.set()
        await ending
