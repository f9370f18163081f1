"""JSON over HTTP with one server: pooled connections, typed errors, bounded replies.

Keys never leave through a reply: everything that a server says is searched for them first.
Redirects are not followed, because a key must not travel to another host.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...base.errors import Abstention, BadReply, ConfigError, NoAccess, NoConnection, NoModel, ServiceError, Unreachable
from ...base.parse import parse_json
from ...base.proxy import find_proxy
from ..prompt import Picture
from ..redaction import SERVER_WORDS, Secrets, explain_failure, read_error_kinds, shorten
from ..renewal import RenewableConnection
from ..retry import RetryPolicy, read_clock

if TYPE_CHECKING:
    import aiohttp

    from ...base.config import JudgeEndpoint
    from .completions import Body

_POLICY_CODES = re.compile("|".join(SERVER_WORDS["policy_codes"]), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply: a success, or a failure that a retry does not fix.

    Attributes:
        status: HTTP status.
        data: The JSON; None for a failure without.
        words: The server's own words on a failure, shortened, without secrets.
        codes: Machine-readable codes of a failure, in one line.
        param: The request's field that it complains about; empty where it names none.
        again: Whether the server says that a retry can help; None where it does not say.
        retry_after: Seconds that it asks to wait.
    """

    status: int
    data: Any = None
    words: str = ""
    codes: str = ""
    param: str = ""
    again: bool | None = None
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300


def read_failure(data: Any) -> tuple[str, str, str]:
    """The words of an error body, its codes, and the field that it names."""
    if not isinstance(data, dict):
        return "", "", ""
    error = data.get("error", data)
    if not isinstance(error, dict):
        return str(error), "", ""
    inner = error.get("innererror")  # Azure's
    codes = [error.get("code"), error.get("type"), error.get("status")]
    codes += [inner.get("code")] if isinstance(inner, dict) else []
    words = error.get("message") or error.get("detail") or data.get("detail") or ""
    return (
        words if isinstance(words, str) else json.dumps(words),
        " ".join(str(code) for code in codes if code),
        str(error.get("param") or ""),
    )


def is_blocked(reply: HttpReply) -> bool:
    """Whether a policy of the provider stopped the call."""
    if "invalid_prompt" in reply.codes:
        return "policy" in reply.words
    return _POLICY_CODES.search(reply.codes) is not None


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:(\d+)ms)?")


def read_duration(text: str) -> float | None:
    """Seconds of a duration such as `1m30.5s`, `120ms` or `7.66s`; None where it is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    try:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1e3


def read_limit_reset(headers: Mapping[str, str], data: Any) -> float | None:
    """Seconds until a rate limit ends, where no `Retry-After` says it.

    Google puts a `retryDelay` into the body. OpenAI and those that follow it have a header for each
    limit; the used-up ones count.
    """
    error = data.get("error") if isinstance(data, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    delays = [
        read_duration(str(detail["retryDelay"]))
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict) and "retryDelay" in detail
    ]
    delays += [
        read_duration(headers.get(f"x-ratelimit-reset-{kind}", ""))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
    ]
    return max((delay for delay in delays if delay is not None), default=None)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; None where the header is missing or unreadable."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        at = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):  # no date, or one that no calendar here has
        return None
    return max(at - time.time(), 0.0)


MAX_REPLY_BYTES = 16 * 1024 * 1024
# uvicorn, which vLLM runs on, closes a connection that was idle for 5 s: one second earlier
# than that, no request meets a connection that is being closed.
_KEEP_ALIVE = 4.0
_ERRORS = read_error_kinds("http")


class HttpServer:
    """A client of one HTTP server.

    Args:
        endpoint: Its address and credentials.
        service: `role.variant`, for errors.
        concurrency: Connections at most.
        policy: How long connections last.

    Raises:
        ConfigError: the address, a header's secret or a certificate cannot be used.

    Attributes:
        connections: Those to the server, or servers, behind the address. Once they are closed,
            calls fail.
    """

    def __init__(self, endpoint: JudgeEndpoint, service: str, concurrency: int, policy: RetryPolicy) -> None:
        parts = urlsplit(endpoint.url)
        if parts.username is not None or parts.query or parts.fragment:
            # Not shown whole: what is in there may be the key.
            raise ConfigError(
                f"judge at {parts.hostname}: the address holds more than a path",
                "give keys as `api_key` or in `headers`",
            )
        self.url = endpoint.url
        self.service = service
        self._concurrency = concurrency
        self._headers = {"accept": "application/json"} | endpoint.header_values()
        for name, value in self._headers.items():
            if re.search(r"[\x00-\x1f\x7f]", name + value):
                raise ConfigError(f"{self.url}: header {name} holds a control character")
        self._tls = _make_tls_context(endpoint)
        self._proxy = find_proxy(endpoint.url)
        self._secrets = Secrets(endpoint.headers, self._headers, self._proxy)
        self.connections = RenewableConnection(self._open_session, _close_session, policy)

    async def ask(
        self, url: str, body: Body | None = None, *, model: str = "", headers: Mapping[str, str] | None = None
    ) -> HttpReply:
        """Send a GET, or a POST of a JSON body in pieces (`make_chat_body`), without a time limit.

        Raises:
            ServiceError: the server cannot be reached, replies with something that is no JSON, or
                reports a failure that a retry can fix.
        """
        reply = await self._request(url, body, model, headers)
        if not reply.ok:
            error = self.to_error(reply, model)
            if isinstance(error, ServiceError) and error.retryable:
                raise error
        return reply

    def to_error(self, reply: HttpReply, model: str = "") -> ServiceError | Abstention:
        """The typed error of a failure."""
        if reply.status in {400, 403, 422} and is_blocked(reply):
            return Abstention("refused", f"blocked by the provider: {reply.words}")
        family = f"{min(reply.status // 100, 5)}xx"
        kind = _ERRORS.get(str(reply.status), _ERRORS.get(family, _ERRORS["other"]))
        if reply.status == 429 and "insufficient_quota" in reply.codes:
            kind = NoAccess
        error = self.make_error(kind, f"HTTP {reply.status}: {reply.words}", model, again=reply.again)
        error.retry_after = reply.retry_after
        return error

    def make_error(
        self, kind: type[ServiceError], detail: str, model: str = "", *, again: bool | None = None
    ) -> ServiceError:
        """An error that names this server, without its secrets."""
        error = kind(self._secrets.redact(detail), service=self.service, endpoint=self.url, model=model)
        if again is not None:
            error.retryable = again  # type: ignore[misc]  # the server knows better than the class
        return error

    async def _request(
        self, url: str, body: Body | None, model: str, headers_of_call: Mapping[str, str] | None
    ) -> HttpReply:
        import aiohttp

        if self.connections.is_closed:
            raise self.make_error(Unreachable, "the connection is closed", model, again=False)
        # Errors are made outside of `except`: aiohttp's own hold the request's headers, and
        # must not be printed as the context of ours.
        problem: tuple[type[ServiceError], str, bool | None]
        began = read_clock()
        try:
            async with self.connections.get().request(
                "GET" if body is None else "POST",
                url,
                data=None if body is None else _make_payload_type()(body),
                headers=headers_of_call,
                timeout=aiohttp.ClientTimeout(total=None),
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                payload = await _read_body(response)
                status, headers = response.status, response.headers
        except aiohttp.ClientSSLError as error:
            problem = NoConnection, f"TLS: {error}", False
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno or 0  # negative where the name is not known
            problem = NoConnection, os.strerror(number) if number > 0 else str(error), None
        except (aiohttp.ClientError, OSError) as error:
            problem = Unreachable, str(error) or type(error).__name__, None
        else:
            return self._read_reply(status, headers, payload, model)
        self.connections.renew_after_failure(began)
        kind, detail, again = problem
        text = explain_failure(shorten(self._secrets.redact(detail)))
        raise self.make_error(kind, text, model, again=again)

    def _read_reply(self, status: int, headers: Mapping[str, str], payload: bytes | None, model: str) -> HttpReply:
        if payload is None:
            what = f"a reply of more than {MAX_REPLY_BYTES:,} bytes"
            raise self.make_error(BadReply, what, model)
        try:
            data = self._secrets.redact_json(parse_json(payload))
        except ValueError:
            data = None
        body = data[0] if isinstance(data, list) and data else data
        if 200 <= status < 300:
            if data is None:
                raise self._no_json(headers, payload, model)
            problem = body.get("error") if isinstance(body, dict) else None
            if not problem or "choices" in body:
                return HttpReply(status, data)
            # Gateways report what happened behind them in a reply of status 200.
            code = problem.get("code") if isinstance(problem, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 502
        words, codes, param = read_failure(body)
        if 300 <= status < 400:
            # Its query may hold what was sent.
            target = headers.get("location", "").partition("?")[0] or "nowhere"
            words = f"redirects to {target}, which is not followed"
        words = shorten(self._secrets.redact(words or payload.decode("utf-8", "replace")))
        if status in {401, 403}:
            words = explain_failure(words)
        if request := headers.get("x-request-id"):
            words += f" (request {shorten(self._secrets.redact(request))})"
        wish = headers.get("x-should-retry", "").lower()
        again = {"true": True, "false": False}.get(wish)
        wait = read_retry_after(headers)
        if wait is None and status == 429:
            wait = read_limit_reset(headers, body)
        return HttpReply(status, data, words, codes, param, again, wait)

    def _no_json(self, headers: Mapping[str, str], payload: bytes, model: str) -> ServiceError:
        if "text/html" in headers.get("content-type", ""):
            return self.make_error(NoModel, "a web page instead of JSON: is the address right (…/v1)?", model)
        # Cut only after the search, which half a key would pass.
        text = shorten(self._secrets.redact(payload[:10_000].decode("utf-8", "replace")))
        return self.make_error(Unreachable, f"cut short, or no JSON: {text[:80]}", model)

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._concurrency, keepalive_timeout=_KEEP_ALIVE, ssl=True if self._tls is None else self._tls
            ),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )


async def _close_session(session: aiohttp.ClientSession, seconds: float) -> None:
    """Close a session after some seconds."""
    await asyncio.sleep(seconds)
    await session.close()


@cache
def _make_payload_type() -> type[Any]:
    """The class of a body that is sent piece by piece: joining would copy every image once more.

    The base64 of an image is made as it is sent, and is gone while the reply is waited for.
    """
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.payload import Payload

    class Pieces(Payload):
        def __init__(self, pieces: Body) -> None:
            super().__init__(pieces, content_type="application/json")
            self._size = sum(p.base64_size if isinstance(p, Picture) else len(p) for p in pieces)

        def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
            return b"".join(map(_encode_piece, self._value)).decode(encoding, errors)

        async def write(self, writer: AbstractStreamWriter) -> None:
            for piece in self._value:
                await writer.write(_encode_piece(piece))

        async def write_with_length(self, writer: AbstractStreamWriter, _: int | None) -> None:
            await self.write(writer)

    return Pieces


def _encode_piece(piece: bytes | Picture) -> bytes:
    return piece.base64() if isinstance(piece, Picture) else piece


async def _read_body(response: aiohttp.ClientResponse) -> bytes | None:
    """The reply's body, or None where it is larger than the limit (after decompression)."""
    try:
        await response.content.readexactly(MAX_REPLY_BYTES + 1)
    except asyncio.IncompleteReadError as error:
        return error.partial
    response.close()
    return None


def _make_tls_context(endpoint: JudgeEndpoint) -> ssl.SSLContext | None:
    if endpoint.ca_file is None and endpoint.cert_file is None:
        return None
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
    except OSError as error:  # SSLError, where the file holds no certificate, is one
        reason = error.strerror or "no certificate in it"
        raise ConfigError(f"{endpoint.url}: {endpoint.ca_file}: {reason}") from error
    if (cert := endpoint.cert_file) is not None:
        try:
            # A key with a password is refused rather than asked for.
            context.load_cert_chain(cert, endpoint.key_file, password="")
        except OSError as error:
            reason = error.strerror or "not a certificate and its key"
            what = f"{endpoint.url}: {cert}, {endpoint.key_file}: {reason}"
            raise ConfigError(what) from error
    return context
