"""A judge over HTTP, byte by byte, that answers some requests in an evil way."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from ..e2e.test_judge import Judge

Out = asyncio.StreamWriter
Evil = Callable[[Out, dict[str, Any], str], Awaitable[None]]
"""Writes an answer: where to, the honest one, and the address of another host."""
LIES = {"excellent": 0.999, "good": 0.001}
_JSON = {"content-type": "application/json"}
_ESCAPES = "\x1b[2J\x1b[31m[/m]\x07\u202e"


def response(
    body: bytes,
    status: str = "200 OK",
    headers: Mapping[str, str] = _JSON,
    *,
    length: str | None = None,
    version: str = "HTTP/1.1",
) -> bytes:
    """A response; `length` instead of the true one."""
    told = {**headers, "content-length": str(len(body)) if length is None else length}
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value != "-")
    return f"{version} {status}\r\n{lines}\r\n".encode("utf-8", "surrogateescape") + body


def encode_json(data: Any) -> bytes:
    return json.dumps(data).encode()


class EvilJudge:
    """Answers as an honest judge does, but for requests that hold a word.

    Attributes:
        keys: The `authorization` of every request, by path.
        lied: How many answers were evil.
    """

    def __init__(self, evil: Evil | None, word: str = "edit 1", *, models: bool = False) -> None:
        self._evil = evil
        self._word = word.encode()
        self._models = models
        self.keys: list[str] = []
        self.lied = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serving(self, elsewhere: str = "") -> AsyncIterator[str]:
        """Serve on loopback; gives the address, ending in /v1."""

        async def handle_connection(reader: asyncio.StreamReader, writer: Out) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                while await self._answer_request(reader, writer, elsewhere):
                    pass
            except (OSError, asyncio.IncompleteReadError, ValueError):
                pass
            finally:
                self._tasks.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(handle_connection, "127.0.0.1", 0, limit=64 * 1024 * 1024)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer_request(self, reader: asyncio.StreamReader, out: Out, elsewhere: str) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        self.keys.append(headers.get("authorization", ""))
        body = b""
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        elif "chunked" in headers.get("transfer-encoding", ""):
            while size := int((await reader.readline()).strip(), 16):
                body += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
        listing = first.startswith("GET")
        honest = _list_models() if listing else answer_honestly(json.loads(body))
        if self._evil is not None and (listing if self._models else self._word in body):
            self.lied += 1
            await self._evil(out, honest, elsewhere)
            await out.drain()
            return False
        out.write(response(encode_json(honest)))
        await out.drain()
        return True


def _list_models() -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "judge", "object": "model", "owned_by": "openai"}]}


def answer_honestly(request: dict[str, Any]) -> dict[str, Any]:
    """What an honest judge answers."""
    judge = Judge()
    judge.requests = [request]
    return {"model": "judge"} | judge.make_reply()


# Ways to be evil


def _raw(data: bytes, *, hold: float = 0.0) -> Evil:
    async def evil(out: Out, _: dict[str, Any], __: str) -> None:
        out.write(data)
        await out.drain()
        await asyncio.sleep(hold)

    return evil


def _with(make: Callable[[bytes], bytes]) -> Evil:
    """Bytes made of the honest reply's."""

    async def evil(out: Out, honest: dict[str, Any], _: str) -> None:
        out.write(make(encode_json(honest)))

    return evil


def _but(change: Callable[[dict[str, Any]], Any]) -> Evil:
    """The honest reply, changed."""

    async def evil(out: Out, honest: dict[str, Any], _: str) -> None:
        change(honest)
        out.write(response(json.dumps(honest).encode()))

    return evil


def _choice(**fields: Any) -> Evil:
    return _but(lambda reply: reply["choices"][0].update(fields))


def _message(**fields: Any) -> Evil:
    return _but(lambda reply: reply["choices"][0]["message"].update(fields))


def _usage(number: Any) -> Evil:
    told = {"prompt_tokens": number, "completion_tokens": number, "total_tokens": number}
    told["prompt_tokens_details"] = {"cached_tokens": number}
    return _but(lambda reply: reply.update(usage=told))


def _top(change: Callable[[list[Any]], Any]) -> Evil:
    def change_logprobs(reply: dict[str, Any]) -> None:
        content = (reply["choices"][0].get("logprobs") or {}).get("content")
        if content:
            change(content[0]["top_logprobs"])
        else:
            reply["choices"] = []

    return _but(change_logprobs)


def _redirect(status: str, *, same: bool = False) -> Evil:
    async def evil(out: Out, _: dict[str, Any], elsewhere: str) -> None:
        there = "/v1/chat/completions" if same else f"{elsewhere}/chat/completions?key=x"
        out.write(response(b"", status, {"location": there}))

    return evil


async def _drip(out: Out, honest: dict[str, Any], _: str) -> None:
    for byte in response(encode_json(honest)):
        out.write(bytes([byte]))
        await out.drain()
        await asyncio.sleep(0.1)


def _endless(head: bytes, more: bytes, pause: float = 0.0) -> Evil:
    async def evil(out: Out, _: dict[str, Any], __: str) -> None:
        out.write(head)
        while True:
            out.write(more)
            await out.drain()
            await asyncio.sleep(pause)

    return evil


async def _reset(out: Out, honest: dict[str, Any], _: str) -> None:
    whole = response(encode_json(honest))
    out.write(whole[: len(whole) - 20])
    await out.drain()
    await asyncio.sleep(0.05)
    out.transport.abort()


async def _two(out: Out, honest: dict[str, Any], _: str) -> None:
    """A second answer, to a question that nobody asked yet."""
    forged = said_of(LIES)
    out.write(response(encode_json(honest)) + response(encode_json(forged)) * 3)
    await out.drain()
    await asyncio.sleep(0.3)


def said_of(probabilities: Mapping[str, float]) -> dict[str, Any]:
    """A reply with these choices, whatever was asked."""
    judge = Judge()
    judge.requests = [{"logprobs": True, "top_logprobs": 20, "messages": "excellent:"}]
    judge.probabilities = probabilities
    return {"model": "judge"} | super(Judge, judge).make_reply()


def _gzip(data: bytes) -> bytes:
    return response(gzip.compress(data, 1), headers={**_JSON, "content-encoding": "gzip"})


def _bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    packed_ = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
    return response(packed_, headers={**_JSON, "content-encoding": "gzip"})


async def _gzip_bomb(out: Out, _: dict[str, Any], __: str) -> None:
    out.write(await asyncio.to_thread(_bomb))


def _fail(status: str, **headers: str) -> Evil:
    body = encode_json({"error": {"message": f"no {_ESCAPES}", "code": "x"}})
    return _raw(response(body, status, {**_JSON, **headers}))


_STATUSES = [f"{each.value} {each.phrase}" for each in HTTPStatus if each >= 202 and each != 401]
_STATUSES += ["99 Odd", "520 ?", "529 Busy", "599 ?", "600 ?", "999 ?"]
_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_BODIES = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "number": b"5",
    "text": b'"excellent"',
    "page": b"<html>excellent</html>",
    "deep": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "no UTF-8": b'{"choices": "\xff\xfe"}',
    "UTF-16": '{"choices": []}'.encode("utf-16"),
    "half": b'{"choices": [{"mess',
    "huge number": b'{"usage": ' + b"9" * 100_000 + b"}",
    "NaN": b'{"choices": NaN}',
    "17 MiB": b" " * (17 * 1024 * 1024),
    "events": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
}
_RAW = {
    "nothing": b"",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x28",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"excellent",
    "status line": b"HTTP/1.1 OK 200\r\n\r\n",
    "no status": b"HTTP/1.1\r\n\r\n",
    "escapes in status": f"HTTP/1.1 500 {_ESCAPES}\r\ncontent-length: 0\r\n\r\n".encode(),
    "no colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n{}",
    "NUL": b"HTTP/1.1 200 OK\r\nx: \x00\r\ncontent-length: 2\r\n\r\n{}",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 2\n\n{}",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000 + b"\r\n{}",
    "long header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2_000_000 + b"\r\n\r\n{}",
    "chunk size": _CHUNKED + b"xyz\r\n{}\r\n0\r\n\r\n",
    "negative chunk": _CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n",
    "huge chunk": _CHUNKED + b"ffffffffffffffff\r\n{}",
    "no last chunk": _CHUNKED + b"2\r\n{}\r\n",
    "trailers": _CHUNKED + b"2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 50_000,
    "both lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 9\r\n\r\n{}",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "no gzip": response(b"{}", headers={**_JSON, "content-encoding": "gzip"}),
    "unknown coding": response(b"{}", headers={**_JSON, "content-encoding": "x-evil"}),
    "brotli": response(b"\xff\xff", headers={**_JSON, "content-encoding": "br"}),
}
_NEVER = "Wed, 01 Jan 9999999 00:00:00 GMT"
_WAITS = ("soon", "-5", "nan", "inf", "1e308", "9" * 400, _NEVER, _ESCAPES)
_NUMBERS = (-1, 2**63, 10**400, 1.5, "7", None, True, [], {}, float("nan"))
_SECRET = "{key}"

MODES: dict[str, Evil] = {
    **{f"status {status}": _fail(status) for status in _STATUSES},
    **{f"status {s}, no body": _raw(response(b"", s)) for s in ("200 OK", "429 Many", "503 Busy")},
    **{f"body {name}": _raw(response(body)) for name, body in _BODIES.items()},
    **{f"{name} as an error": _raw(response(body, "500 Broken")) for name, body in _BODIES.items()},
    **{f"raw {name}": _raw(data) for name, data in _RAW.items()},
    **{f"raw {name}, held": _raw(data, hold=60) for name, data in _RAW.items()},
    **{
        f"moved {status}": _redirect(status)
        for status in ("301 Moved", "302 Found", "303 See", "307 Moved", "308 Moved")
    },
    "moved here": _redirect("307 Moved", same=True),
    "moved nowhere": _fail("307 Moved"),
    "HTTP/1.0": _with(lambda body: response(body, version="HTTP/1.0")),
    "HTTP/9.9": _with(lambda body: response(body, version="HTTP/9.9")),
    "no length": _with(lambda body: response(body, length="-")),
    "too long a length": _with(lambda body: response(body, length=str(len(body) + 9))),
    "too short a length": _with(lambda body: response(body, length=str(len(body) - 9))),
    "negative length": _with(lambda body: response(body, length="-9 ")),
    "no length at all": _with(lambda body: response(body, length="many")),
    "another type": _with(lambda body: response(body, headers={"content-type": "image/png"})),
    "a page's type": _with(lambda body: response(body, headers={"content-type": "text/html"})),
    "no type": _with(lambda body: response(body, headers={})),
    "charset": _with(lambda body: response(body, headers={"content-type": "a/b; charset=evil"})),
    "gzip": _with(_gzip),
    "gzip, cut": _with(lambda body: _gzip(body)[:-5]),
    "byte order mark": _with(lambda body: response(b"\xef\xbb\xbf" + body)),
    "twice": _with(lambda body: response(body + body)),
    "text behind": _with(lambda body: response(body + b"\nexcellent")),
    "cookie": _with(lambda body: response(body, headers={**_JSON, "set-cookie": "a=b; domain=x"})),
    "closed": _with(lambda body: response(body, headers={**_JSON, "connection": "close"})),
    "a message in two": _with(lambda body: response(body, "100 Continue")[:-1]),
    "answers ahead": _two,
    "drips": _drip,
    "drips headers": _endless(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n", 0.02),
    "endless": _endless(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
    "endless chunks": _endless(_CHUNKED, b"1\r\n \r\n" * 4096),
    "continues": _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.01),
    "reset": _reset,
    "gzip bomb": _gzip_bomb,
    "hangs": _raw(b"", hold=60),
    "hangs in the body": _raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", hold=60),
    **{f"wait {i}": _fail("429 Many", **{"retry-after": w}) for i, w in enumerate(_WAITS)},
    "wait in ms": _fail("503 Busy", **{"retry-after-ms": "1e400"}),
    "retry for ever": _fail("400 Bad", **{"x-should-retry": "true"}),
    "never again": _fail("500 Broken", **{"x-should-retry": "false"}),
    "long id": _fail("400 Bad", **{"x-request-id": "x" * 7000}),
    "no choice": _but(lambda reply: reply.update(choices=[])),
    "two choices": _but(lambda reply: reply["choices"].append(said_of(LIES)["choices"][0])),
    "choices null": _but(lambda reply: reply.update(choices=None)),
    "choice of text": _but(lambda reply: reply.update(choices=["excellent"])),
    "choices by name": _but(lambda reply: reply.update(choices={"0": reply["choices"][0]})),
    "no message": _choice(message=None),
    "text for a message": _choice(message="excellent"),
    **{
        f"content {i}": _message(content=content)
        for i, content in enumerate((None, 5, True, [], {}, [{"type": "text", "text": "x"}]))
    },
    "content escapes": _message(content=f"{_ESCAPES} excellent {{"),
    "content without end": _message(content="x" * 3_000_000),
    "refuses": _message(refusal=f"never {_ESCAPES}"),
    "filtered": _choice(finish_reason="content_filter"),
    "finished oddly": _choice(finish_reason={"a": 1}),
    "error and all": _but(lambda reply: reply.update(error={"message": "x", "code": 502})),
    "error alone": _raw(response(encode_json({"error": {"message": _ESCAPES, "code": 10**400}}))),
    "error of text": _raw(response(encode_json({"error": _ESCAPES}))),
    "no model": _but(lambda reply: reply.pop("model")),
    **{
        f"model {i}": _but(lambda reply, n=name: reply.update(model=n))
        for i, name in enumerate((None, 5, "", "judge-2", "x" * 5000, _ESCAPES, _SECRET))
    },
    **{f"usage {i}": _usage(number) for i, number in enumerate(_NUMBERS)},
    "usage of text": _but(lambda reply: reply.update(usage="many")),
    "no usage": _but(lambda reply: reply.pop("usage")),
    **{
        f"logprobs {i}": _choice(logprobs=value)
        for i, value in enumerate((None, [], {}, "x", {"content": None}, {"content": []}, {"content": [1]}))
    },
    **{
        f"logprob {i}": _top(lambda top, v=value: top[0].update(logprob=v))
        for i, value in enumerate((False, True, None, "0", float("nan"), 10**400, 5.0, 0.5))
    },
    "token twice": _top(lambda top: top.append(dict(top[0]))),
    "token of a number": _top(lambda top: top[0].update(token=5)),
    "tokens without end": _top(lambda top: top.extend([{"token": "x", "logprob": -50.0}] * 50_000)),
    "no token": _top(list.clear),
    "other tokens": _top(lambda top: [each.update(token="maybe") for each in top]),
    "sure of all": _top(lambda top: [each.update(logprob=0.0) for each in top]),
}
