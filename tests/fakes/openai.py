"""A server that speaks the OpenAI protocol, vLLM's dialect of it too, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from editjudge.base.config import JudgeEndpoint
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.retry import RetryPolicy

POLICY = RetryPolicy(attempts=3, deadline=5.0, first_wait=0.001)
CONTROL = {"<|im_end|>": 90, "<|image_pad|>": 91, "[INST]": 92, "<\uff5cUser\uff5c>": 93, "</s>": 94}
# Qwen's way: good is one token, excellent and poor are two.
WORDS = {"Yes": 1, "No": 2, "Y": 3, "N": 4, "good": 5, "ex": 6, "cellent": 7, "po": 8, "or": 9}
SURE = {"Yes": 0.6, "Y": 0.1, "No": 0.2, "Maybe": 0.1}


@dataclass(frozen=True)
class Fault:
    """A status to answer with; `body` is JSON, or bytes as they are."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def problem(status: int, message: str, *, headers: Mapping[str, str] = {}, **more: Any) -> Fault:
    """A failure in OpenAI's form."""
    return Fault(status, {"error": {"message": message, **more}}, headers)


RESET = "reset"
"""The connection is lost in the middle of the reply."""
HALF = Fault(200, b'{"id":"x","choices":[{"mess')
"""A reply that ends too early, though its length says that it is whole."""


def reply(text: str | None = "Yes", **choice: Any) -> dict[str, Any]:
    """A chat completion; keywords go into its choice."""
    message = {"role": "assistant", "content": text} | choice.pop("message", {})
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
    }


class ScriptedOpenAi:
    """Answers each chat completion with the next of `script`; the last one stays.

    An answer is a reply, a `Fault`, `RESET`, a number of seconds to sleep before the next
    answer, or None for what the model (`probabilities` of its first token) says. Whether it binds
    replies is answered beside the script.

    Args:
        owner: `vllm` for its dialect; other servers reject fields that they do not know.
        binds: Whether it holds replies to choices; a `Fault` rejects the field.
        ids: Whether it knows `logprob_token_ids`.
    """

    def __init__(
        self,
        *script: Any,
        owner: str = "openai",
        models: tuple[str, ...] = ("judge",),
        answers_as: str = "judge",
        probabilities: Mapping[str, float] = SURE,
        ids: bool = True,
        tokenize: bool = True,
        models_answer: Fault | None = None,
        binds: bool | Fault = False,
    ) -> None:
        self.binds = binds
        self.root = "Org/Judge"
        self.script = list(script) or [None]
        self.owner = owner
        self.models = models
        self.answers_as = answers_as
        self.probabilities = probabilities
        self.ids = ids
        self.tokenize = tokenize
        self.models_answer = models_answer
        self.vocabulary = WORDS | CONTROL
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.tokenized: list[str] = []
        self.listed = 0
        self.cancelled = 0

    @asynccontextmanager
    async def serving(
        self, tls: ssl.SSLContext | None = None, port: int = 0, host: str = "127.0.0.1"
    ) -> AsyncIterator[str]:
        """Serve on loopback; gives the address, ending in /v1."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._answer)
        if self.owner == "vllm":
            app.router.add_get("/version", self._version)
            app.router.add_get("/health", self._health)
            if self.tokenize:
                app.router.add_post("/tokenize", self._tokenize)
        # A request that is half received would keep the server for a minute.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
            yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        self.listed += 1
        if self.models_answer is not None:
            return _make_response(self.models_answer)
        cards = [{"id": name, "object": "model", "owned_by": self.owner} for name in self.models]
        if self.owner == "vllm":
            cards = [c | {"root": self.root, "max_model_len": 4096} for c in cards]
        return web.json_response({"object": "list", "data": cards})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def _tokenize(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["add_special_tokens"] is False
        self.tokenized.append(asked["prompt"])
        tokens = self.tokens(asked["prompt"])
        return web.json_response({"count": len(tokens), "max_model_len": 4096, "tokens": tokens})

    def tokens(self, text: str) -> list[int]:
        """Longest words first; bytes otherwise."""
        found = []
        while text:
            word = max((w for w in self.vocabulary if text.startswith(w)), key=len, default="")
            found.append(self.vocabulary[word] if word else 1000 + ord(text[0]))
            text = text[len(word) or 1 :]
        return found

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        if "frozen water" in json.dumps(asked["messages"]) and "logprobs" not in asked:
            return self._say_whether_it_binds(asked)
        return await self._chat(request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.times.append(asyncio.get_running_loop().time())
        self.bodies.append(await request.read())
        self.requests.append(json.loads(self.bodies[-1]))
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        answer = self._next()
        while isinstance(answer, int | float):
            try:
                await asyncio.sleep(answer)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            answer = self._next()
        if answer == RESET:
            response = web.StreamResponse(headers={"content-length": "5000"})
            await response.prepare(request)
            await response.write(b'{"choices":')
            assert request.transport is not None
            request.transport.abort()
            return response
        if isinstance(answer, Fault):
            return _make_response(answer)
        return web.json_response({"model": self.answers_as} | (answer or self.make_reply()))

    def _say_whether_it_binds(self, asked: dict[str, Any]) -> web.Response:
        given = choices_of(asked)
        if isinstance(self.binds, Fault) and given:
            return _make_response(self.binds)
        text = bound_to(asked, given[0]) if given and self.binds is True else "Yes"
        return web.json_response({"model": self.answers_as} | reply(text) | {"usage": None})

    def _next(self) -> Any:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def make_reply(self) -> dict[str, Any]:
        """What the model answers to the latest request."""
        asked = self.requests[-1]
        best = max(self.probabilities, key=lambda token: self.probabilities[token])
        if not asked.get("logprobs"):
            return reply(best)
        return reply(best, logprobs={"content": [self._logprobs(asked, best)]})

    def _logprobs(self, asked: dict[str, Any], best: str) -> dict[str, Any]:
        if (wanted := asked.get("logprob_token_ids")) and self.ids:
            words = {number: word for word, number in self.vocabulary.items()}
            known = (words.get(number) or chr(number - 1000) for number in wanted)
            listed = list(dict.fromkeys([best, *known]))
        else:
            by_size = sorted(self.probabilities, key=lambda t: -self.probabilities[t])
            listed = by_size[: asked["top_logprobs"]]
        as_ids = asked.get("return_tokens_as_token_ids", False)
        top = [
            {
                "token": f"token_id:{self.tokens(word)[0]}" if as_ids else word,
                "logprob": math.log(p) if (p := self.probabilities.get(word, 0)) else -9999.0,
                "bytes": list(word.encode()),
            }
            for word in listed
        ]
        return top[0] | {"top_logprobs": top}


@contextmanager
def serve_in_thread(server: ScriptedOpenAi) -> Iterator[str]:
    """Serve beside a test that is not asynchronous; gives the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = server.serving()

    def run(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result()

    try:
        yield run(serving.__aenter__())
    finally:
        run(serving.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def choices_of(asked: dict[str, Any]) -> list[str]:
    """The choices that a request holds its reply to; empty for none."""
    if "structured_outputs" in asked:
        return list(asked["structured_outputs"]["choice"])
    schema = asked.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return list(schema.get("properties", {}).get("choice", {}).get("enum", ()))


def bound_to(asked: dict[str, Any], choice: str) -> str:
    """A choice in the form that a request holds its reply to."""
    return choice if "structured_outputs" in asked else json.dumps({"choice": choice})


@asynccontextmanager
async def open_transport(
    server: ScriptedOpenAi, policy: RetryPolicy = POLICY, **settings: Any
) -> AsyncIterator[OpenAiTransport]:
    """A transport to a scripted server."""
    async with server.serving() as url:
        endpoint = JudgeEndpoint(url=url, **settings)
        async with OpenAiTransport(endpoint, policy) as transport:
            yield transport


def _make_response(fault: Fault) -> web.Response:
    if isinstance(fault.body, bytes):
        kind = fault.headers.get("content-type", "application/json")
        headers = {k: v for k, v in fault.headers.items() if k != "content-type"}
        return web.Response(status=fault.status, body=fault.body, headers=headers, content_type=kind)
    return web.json_response(fault.body, status=fault.status, headers=fault.headers)
