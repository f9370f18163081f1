"""A judge that answers by a script after a while, in a process of its own, and keeps count.

What it says depends on the edit that is asked about and on how often it was asked about it, never
on who asks or when, so that all who ask meet the same. The edit is known by a number in the
instruction, as in `make cup 17 red`. What is asked about no edit, but for probabilities, it answers
after the same while: how it answers choices.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any
from urllib.request import urlopen

EDIT = "make cup {} red"
LOW, HIGH = 1, 5
_EDIT = re.compile(rb"make cup (\d+) red")
_ENUM = re.compile(rb'"choice":{"type":"string","enum":\["(\w+)"')
_CARD = {"object": "list", "data": [{"id": "judge", "object": "model", "owned_by": "script"}]}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LIKELIEST = {"Yes": 0.7, "No": 0.2, "Maybe": 0.1}
_LEVELS = {"good": 0.7, "fair": 0.2, "poor": 0.1}
# Off the scale, in words with numbers of something else, and broken.
_GARBAGE = (
    '{"reasoning": "The cup is red.", "consistency_score": 45}',
    "Of the 3 cups, 2 are as they were; a very good edit.",
    '{"reasoning": "The cup is red", "consistency_score": "high"',
)


@dataclass(frozen=True)
class Script:
    """How the judge answers.

    Attributes:
        latency: Seconds until it does.
        error_share: Share of requests that get status 500.
        busy: Share that get status 429.
        garbage: Share of replies that no score can be read off.
        cut: Share of replies that end before their score.
        refusal_share: Share of edits about which it says nothing but that it cannot.
    """

    latency: float = 0.2
    error_share: float = 0.0
    busy: float = 0.0
    garbage: float = 0.0
    cut: float = 0.0
    refusal_share: float = 0.0

    def answer(self, edit: str, turn: int) -> tuple[int, str, str, str]:
        """Status, text, how it ended, and what kind of answer it is (`good` has the score)."""
        if _share("refused", edit) < self.refusal_share:
            return 200, "I cannot give an opinion on pictures of this kind.", "stop", "refused"
        at = _share("fault", edit, turn)
        for kind, share in (("broken", self.error_share), ("busy", self.busy)):
            if at < share:
                return (500 if kind == "broken" else 429), kind, "", kind
            at -= share
        if at < self.garbage:
            text = _GARBAGE[int(_share("garbage", edit) * len(_GARBAGE))]
            return 200, text, "stop", "garbage"
        if at - self.garbage < self.cut:
            return 200, '{"reasoning": "All 2 cups are where they', "length", "cut"
        score = score_of(edit)
        reply = {"reasoning": "The cup is red, all else is as it was.", "consistency_score": score}
        return 200, json.dumps(reply), "stop", "good"


CLEAN = Script()
FAULTY = Script(error_share=0.02, busy=0.02, garbage=0.03, cut=0.01, refusal_share=0.01)


def score_of(edit: str) -> int:
    """What the judge thinks of an edit."""
    return LOW + int(_share("score", edit) * (HIGH - LOW + 1))


def _share(*of: object) -> float:
    """A number from 0 up to 1 that looks random and depends on its arguments alone."""
    return int.from_bytes(hashlib.sha256(repr(of).encode()).digest()[:6], "big") / 2**48


@dataclass
class Record:
    """What was asked.

    Attributes:
        calls: By call: edit, when it came and when it was answered (seconds of the monotonic
            clock; None while it waits or where nobody took the answer), and the kind of answer.
        beside: Calls about no edit.
        most: Calls that waited at the same time.
        bytes: Of all requests.
    """

    calls: list[list[Any]] = field(default_factory=list)
    beside: int = 0
    most: int = 0
    bytes: int = 0


class _Judge(asyncio.Protocol):
    """One connection."""

    def __init__(self, script: Script, record: Record, waiting_calls: set[int], turns: Counter[str]) -> None:
        self._script, self._record, self._waiting_calls, self._turns = script, record, waiting_calls, turns
        self._request = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        end = self._request.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(self._request, 0, end + 2)
        if len(self._request) < end + 4 + (int(length[1]) if length else 0):
            return
        request, self._request = self._request, bytearray()
        self._answer_request(request)

    def _answer_request(self, request: bytearray) -> None:
        if request.startswith(b"GET /record"):
            self._send(200, asdict(self._record))
        elif request.startswith(b"GET /v1/models"):
            self._send(200, _CARD)
        elif request.startswith(b"POST /v1/chat/completions") and (edit_match := _EDIT.search(request)):
            self._judge(edit_match[1].decode(), len(request))
        elif request.startswith(b"POST /v1/chat/completions") and b'"logprobs"' in request:
            self._record.beside += 1
            loop = asyncio.get_running_loop()
            probabilities = _LEVELS if b"image_url" in request else _LIKELIEST
            loop.call_later(self._script.latency, self._choose, probabilities)
        elif request.startswith(b"POST /v1/chat/completions") and (choice_match := _ENUM.search(request)):
            # Whether it obeys a schema: it does.
            self._record.beside += 1
            choice_text = json.dumps({"choice": choice_match[1].decode()})
            loop = asyncio.get_running_loop()
            loop.call_later(self._script.latency, self._reply, "beside", choice_text, "stop")
        else:
            self._send(404, {"error": {"message": "no such thing"}})

    def _judge(self, edit: str, size: int) -> None:
        record = self._record
        record.bytes += size
        turn = self._turns[edit]
        self._turns[edit] += 1
        number = len(record.calls)
        status, text, finish, kind = self._script.answer(edit, turn)
        record.calls.append([edit, time.monotonic(), None, kind])
        self._waiting_calls.add(number)
        record.most = max(record.most, len(self._waiting_calls))
        loop = asyncio.get_running_loop()
        loop.call_later(self._script.latency, self._answer, number, status, text, finish)

    def _answer(self, number: int, status: int, text: str, finish: str) -> None:
        self._waiting_calls.discard(number)
        if self._transport.is_closing():
            return
        self._record.calls[number][2] = time.monotonic()
        if status != 200:
            self._send(status, {"error": {"message": f"scripted: {text}"}})
            return
        self._reply(number, text, finish)

    def _choose(self, probabilities: dict[str, float]) -> None:
        if self._transport.is_closing():
            return
        top = [{"token": t, "logprob": math.log(p)} for t, p in probabilities.items()]
        self._reply("beside", "Yes", "stop", logprobs={"content": [{"top_logprobs": top}]})

    def _reply(self, number: object, text: str, finish: str, **more: object) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish, **more}
        usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
        self._send(
            200,
            {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion",
                "created": 0,
                "model": "judge",
                "choices": [choice],
                "usage": usage,
            },
        )

    def _send(self, status: int, content: object) -> None:
        payload = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} OK\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(payload)}\r\n\r\n".encode() + payload)


def _serve(pipe: Connection, script: Script) -> None:
    async def run() -> None:
        record, waiting_calls, turns = Record(), set[int](), Counter[str]()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Judge(script, record, waiting_calls, turns), "127.0.0.1", 0, backlog=512
        )
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def serve_script(script: Script) -> Iterator[str]:
    """A judge in a process of its own; gives its address, without a path."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, script), daemon=True)
    process.start()
    theirs.close()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def record_of(judge: str) -> Record:
    """What a judge was asked until now."""
    with urlopen(f"{judge}/record") as reply:  # noqa: S310 - a server of ours on loopback
        return Record(**json.load(reply))
