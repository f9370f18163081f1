"""Specialists that are multimodal LLMs: their weights are on vLLM, their prompts here.

The client sees a Triton model like the others. The authors' prompts are not ours to ship:
the operator supplies them as files, and other bytes than the authors' are refused.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from PIL import Image as Pil
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from editjudge.errors import Abstained, ConfigError
from editjudge.images import RGB
from editjudge.prompts.originals import prompts_dir

from .specialist import Unavailable

T = TypeVar("T")


class Backend(BaseSettings):
    """Where one specialist's weights are served; variables `EDITJUDGE_<NAME>_*`.

    Attributes:
        url: Base address of vLLM's OpenAI-compatible API, ending in `/v1`.
        model: The name it serves the weights under.
        prompts: Folder with the authors' prompt files; by default where `editjudge prompts
            import` keeps them.
        timeout: Seconds for one reply.
        concurrency: Calls in flight.
    """

    model_config = SettingsConfigDict(extra="ignore")
    url: str = ""
    model: str = ""
    prompts: Path = Path()
    timeout: float = Field(default=120.0, gt=0)
    concurrency: int = Field(default=16, ge=1)

    @classmethod
    def of(cls, name: str) -> Backend:
        """Read the variables of one specialist, for example `QINSIGHT`.

        Raises:
            ConfigError: a variable has a value that cannot be used.
        """
        try:
            backend = cls(_env_prefix=f"EDITJUDGE_{name}_")  # type: ignore[call-arg]
        except ValidationError as error:
            variable = f"EDITJUDGE_{name}_{str(error.errors()[0]['loc'][0]).upper()}"
            raise ConfigError(f"{variable}: {error.errors()[0]['msg']}") from error
        if backend.url and (
            urlsplit(backend.url).scheme not in {"http", "https"} or not backend.model
        ):
            raise ConfigError(
                f"EDITJUDGE_{name}_URL={backend.url!r} EDITJUDGE_{name}_MODEL={backend.model!r}",
                "give an http(s) address ending in /v1 and the model's name there",
            )
        if "prompts" not in backend.model_fields_set:
            return backend.model_copy(update={"prompts": prompts_dir() / name.lower()})
        return backend


def read_prompts(folder: Path, digests: Mapping[str, str]) -> dict[str, str]:
    """The authors' prompts, byte for byte.

    Args:
        digests: sha256 by file name.

    Raises:
        RuntimeError: a file is missing, or not the authors'.
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


class Lmm:
    """A vLLM server as a specialist uses it: synchronous, pooled, with retries.

    Raises:
        RuntimeError: on construction, when the server does not serve the model.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._url = backend.url.rstrip("/")
        self._session = requests.Session()
        retry = Retry(total=3, backoff_factor=0.2, status_forcelist=(429, 502, 503, 504))
        retry.allowed_methods = None
        adapter = HTTPAdapter(pool_maxsize=backend.concurrency, max_retries=retry)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._threads = ThreadPoolExecutor(backend.concurrency, thread_name_prefix="lmm")
        served = [one.get("id") for one in self._get("models").get("data", [])]
        if backend.model not in served:
            raise RuntimeError(f"{self._url} serves {served}, not {backend.model!r}")

    def map(self, ask: Callable[[RGB], T], images: Sequence[RGB]) -> list[T | Abstained]:
        """Ask for each image, side by side; an abstention stays with its image."""

        def one(image: RGB) -> T | Abstained:
            try:
                return ask(image)
            except Abstained as abstained:
                return abstained

        return list(self._threads.map(one, images))

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
        """One chat completion; its only choice.

        Raises:
            Unavailable: the server does not answer, or answers with an error.
            Abstained: the reply holds no choice.
        """
        reply = self._post(
            "chat/completions", {"model": self._backend.model, "messages": messages, **options}
        )
        if reply.get("model") != self._backend.model:
            raise Unavailable(f"asked {self._backend.model!r}, {reply.get('model')!r} answered")
        choices = reply.get("choices") or []
        if len(choices) != 1:
            raise Abstained("unparsable", f"{len(choices)} choices in the reply")
        return dict(choices[0])

    def token_id(self, text: str) -> int:
        """The id of a text that is one token.

        Raises:
            RuntimeError: it is not, so this is not the tokenizer the score was made for.
        """
        base = self._url.removesuffix("/v1")
        body = {"model": self._backend.model, "prompt": text, "add_special_tokens": False}
        tokens = self._send("POST", f"{base}/tokenize", json=body).get("tokens", [])
        if len(tokens) != 1:
            raise RuntimeError(f"{text!r} is {len(tokens)} tokens at {self._url}, not one")
        return int(tokens[0])

    def _get(self, path: str) -> dict[str, Any]:
        return self._send("GET", f"{self._url}/{path}")

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", f"{self._url}/{path}", json=body)

    def _send(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            reply = self._session.request(method, url, timeout=self._backend.timeout, **options)
            reply.raise_for_status()
            return dict(reply.json())
        except (requests.RequestException, ValueError) as error:
            raise Unavailable(f"{url}: {error}") from error


def image_part(image: RGB) -> dict[str, Any]:
    """An image as part of a message: PNG, so that nothing is lost on the way."""
    buffer = io.BytesIO()
    Pil.fromarray(image).save(buffer, "PNG", compress_level=1)
    data = base64.b64encode(buffer.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def text_part(text: str) -> dict[str, Any]:
    """A text as part of a message."""
    return {"type": "text", "text": text}
