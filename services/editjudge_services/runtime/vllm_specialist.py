"""Specialists that are multimodal LLMs, with weights on a vLLM server and prompts here.

To the client they are Triton models like the others. The official prompts may not be distributed:
the operator supplies them as files, and files with other bytes than the authors' are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
from PIL import Image as Pil
from pydantic import Field

from editjudge.base.config import JudgeEndpoint
from editjudge.base.errors import Abstention, ConfigError, DeadlineExceeded, ServiceError
from editjudge.base.images import RGB
from editjudge.base.prompt_releases import prompts_dir
from editjudge.panel.openai.completions import dump_json
from editjudge.panel.openai.http import HttpReply, HttpServer
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ..zoo.artefact import Precision
from .serving import Variables
from .specialist import Outputs, Request, Specialist, Unavailable

if TYPE_CHECKING:
    from editjudge.panel.openai.completions import Body

_FIRST_WAIT = 0.4
"""Seconds before the second attempt, about."""


class Backend(Variables):
    """The vLLM server of one specialist, read from the variables `EDITJUDGE_<NAME>_*`.

    Attributes:
        url: Base address of vLLM's OpenAI-compatible API, ending in `/v1`.
        model: The name under which vLLM serves the weights.
        prompts: Folder with the official prompt files; by default that of `editjudge prompts
            import`.
        timeout: Seconds for one reply, all attempts included.
        concurrency: How many calls may be in flight.
    """

    url: str = ""
    model: str = ""
    prompts: Path = Path()
    timeout: float = Field(default=120.0, gt=0)
    concurrency: int = Field(default=16, ge=1)

    @classmethod
    def read_named(cls, name: str) -> Backend:
        """Read the variables of one specialist, for example `QINSIGHT`.

        Raises:
            ConfigError: a variable has a value that cannot be used.
        """
        backend = cls.read(f"EDITJUDGE_{name}_")
        if backend.url and (urlsplit(backend.url).scheme not in {"http", "https"} or not backend.model):
            raise ConfigError(
                f"EDITJUDGE_{name}_URL={backend.url!r} EDITJUDGE_{name}_MODEL={backend.model!r}",
                "give an http(s) address ending in /v1 and the model's name there",
            )
        if "prompts" not in backend.model_fields_set:
            return backend.model_copy(update={"prompts": prompts_dir() / name.lower()})
        return backend


def read_prompts(folder: Path, digests: Mapping[str, str]) -> dict[str, str]:
    """Read the official prompts and check that they are the authors', byte for byte.

    Args:
        digests: sha256 by file name.

    Raises:
        RuntimeError: a file is missing or has another digest.
    """
    prompts = {}
    for name, digest in digests.items():
        path = folder / name
        if not path.is_file():
            raise RuntimeError(f"the prompt {path} is missing: editjudge prompts import")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise RuntimeError(f"the prompt {path} is not the authors': its sha256 is not {digest}")
        prompts[name] = data.decode("utf-8")
    return prompts


class VllmModel:
    """A synchronous client of a vLLM server, over the connection and the retries of judges.

    All attempts of a call share one deadline, the `timeout` of the settings.

    Raises:
        RuntimeError: on construction, when the server does not serve the model.
    """

    def __init__(self, backend: Backend) -> None:
        self._model = backend.model
        self._url = backend.url.rstrip("/")
        self._policy = RetryPolicy(deadline=backend.timeout, first_wait=_FIRST_WAIT)
        endpoint = JudgeEndpoint(url=self._url, model=backend.model)
        self._server = HttpServer(endpoint, "vllm", backend.concurrency, self._policy)
        self._loop = asyncio.new_event_loop()
        Thread(target=_run, args=(self._loop,), name="vllm", daemon=True).start()
        weakref.finalize(self, _close, self._loop, self._server)  # Triton may drop a model
        self._threads = ThreadPoolExecutor(backend.concurrency, thread_name_prefix="vllm")
        models = self._send(f"{self._url}/models").get("data", [])
        names = [model.get("id") for model in models]
        if backend.model not in names:
            raise RuntimeError(f"{self._url} serves {names}, not {backend.model!r}")

    def map(self, ask: Callable[[RGB], float], images: Sequence[RGB]) -> list[Outputs | Abstention]:
        """Score images concurrently; an abstention becomes the result of its image.

        Args:
            ask: Scores one image; may raise `Abstention`.
        """

        def score(image: RGB) -> Outputs | Abstention:
            try:
                return {"SCORE": np.array([ask(image)], dtype=np.float32)}
            except Abstention as abstention:
                return abstention

        return list(self._threads.map(score, images))

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """Request a chat completion, and return its only choice.

        Raises:
            Unavailable: the server does not answer, or answers with an error.
            Abstention: the reply holds no choice, or the server withheld it.
        """
        body = {"model": self._model, "messages": messages, **options}
        reply = self._send(f"{self._url}/chat/completions", body)
        if reply.get("model") != self._model:
            raise Unavailable(f"asked {self._model!r}, {reply.get('model')!r} answered")
        choices = reply.get("choices") or []
        if len(choices) != 1:
            raise Abstention("unparsable", f"{len(choices)} choices in the reply")
        return dict(choices[0])

    def token_id(self, text: str) -> int:
        """Look up the id of a text that is one token.

        Raises:
            RuntimeError: the text is several tokens, so the tokenizer is not the score's.
        """
        base = self._url.removesuffix("/v1")
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        tokens = self._send(f"{base}/tokenize", body).get("tokens", [])
        if len(tokens) != 1:
            raise RuntimeError(f"{text!r} is {len(tokens)} tokens at {self._url}, not one")
        return int(tokens[0])

    def _send(self, url: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        async def attempt(seconds: float) -> HttpReply:
            try:
                async with asyncio.timeout(seconds):
                    body: Body | None = None if fields is None else [dump_json(fields)]
                    reply = await self._server.ask(url, body, model=self._model)
            except TimeoutError as error:
                what = f"no reply within {seconds:.3g} s"
                raise self._server.make_error(DeadlineExceeded, what, self._model) from error
            if not reply.ok:
                raise self._server.to_error(reply, self._model)
            return reply

        call = call_with_retries(attempt, self._policy)
        try:
            reply = asyncio.run_coroutine_threadsafe(call, self._loop).result()
        except ServiceError as error:
            raise Unavailable(f"{url}: {error.detail}") from error
        if not isinstance(reply.data, dict):
            raise Unavailable(f"{url}: no JSON object")
        return reply.data


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _close(loop: asyncio.AbstractEventLoop, server: HttpServer) -> None:
    closing = asyncio.run_coroutine_threadsafe(server.connections.close(), loop)
    closing.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))


def image_part(image: RGB) -> dict[str, Any]:
    """Make the part of a message that holds an image, as PNG, which is lossless."""
    buffer = io.BytesIO()
    Pil.fromarray(image).save(buffer, "PNG", compress_level=1)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def text_part(text: str) -> dict[str, Any]:
    """Make the part of a message that holds a text."""
    return {"type": "text", "text": text}


class LmmSpecialist(Specialist):
    """A multimodal LLM on vLLM that scores one image at a time.

    It is served where `EDITJUDGE_<variable>_URL` names a vLLM.

    Attributes:
        variable: The part of its variables' names after `EDITJUDGE_`.
        prompts: sha256 of its official prompts by file name.
    """

    max_batch = 16
    variable: ClassVar[str]
    prompts: ClassVar[Mapping[str, str]]

    @classmethod
    def installed_identity(cls, precision: Precision) -> Mapping[str, str] | None:
        """The name at vLLM, which tells no digest; None where the variables name no server."""
        backend = Backend.read_named(cls.variable)
        return {"served_as": backend.model, "weights": "not told"} if backend.url else None

    def load(self, parameters: Mapping[str, str]) -> None:
        """Read the prompts and find the model at the vLLM."""
        backend = Backend.read_named(self.variable)
        self._prompts = read_prompts(backend.prompts, self.prompts)
        self._model = VllmModel(backend)

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Score the images concurrently; vLLM batches them."""
        return self._model.map(self._score, [one.tensors["IMAGE"] for one in batch])

    @abstractmethod
    def _score(self, image: RGB) -> float:
        """Score one image.

        Raises:
            Abstention: the reply has no score.
        """
