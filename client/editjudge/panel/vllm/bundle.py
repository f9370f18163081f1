"""The files of a model's tokenizer, as vLLM's gRPC protocol sends them: one zip, in memory."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...base.parse import parse_json

MAX_ARCHIVE = 128 * 1024 * 1024
"""Bytes of the zip. The largest in use (vocabularies of 262,144 tokens) take about 15 MB."""
MAX_FILES = 512 * 1024 * 1024
"""Bytes of what is read out of it, together."""

# Those that decide what a prompt becomes; the others are never read.
_SHAPING = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")
_READ = (*_SHAPING, "config.json", "generation_config.json")


@dataclass(frozen=True)
class Bundle:
    """The files of a model's tokenizer, as its server sends them.

    Attributes:
        files: Contents by name, of those that are read.
    """

    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 16 hex digits of all that decides what a prompt becomes.

        Not the archive's own: that holds the times of the files too.
        """
        whole = hashlib.sha256()
        for name in _SHAPING:
            if name in self.files:
                whole.update(f"{name} {hashlib.sha256(self.files[name]).hexdigest()}\n".encode())
        return "sha256:" + whole.hexdigest()[:16]

    def text(self, name: str) -> str | None:
        """A file as text, None where there is none.

        Raises:
            ValueError: it is not UTF-8.
        """
        data = self.files.get(name)
        return None if data is None else data.decode("utf-8")

    def tree(self, name: str) -> dict[str, Any]:
        """A JSON file's object, empty where there is none.

        Raises:
            ValueError: it is not a JSON object.
        """
        text = self.text(name)
        tree = {} if text is None else parse_json(text)
        if not isinstance(tree, dict):
            raise ValueError(f"{name} is not a JSON object")  # noqa: TRY004 - of a file, not a call
        return tree

    @cached_property
    def template(self) -> str:
        """The source of the chat template, from wherever this model keeps it.

        Raises:
            ValueError: it has none.
        """
        template: Any = self.text("chat_template.jinja")
        template = template or self.tree("chat_template.json").get("chat_template")
        template = template or self.tree("tokenizer_config.json").get("chat_template")
        if isinstance(template, list):
            named = {each.get("name"): each.get("template") for each in template}
            template = named.get("default")
        if not isinstance(template, str) or not template:
            raise ValueError("the model has no chat template")
        return template

    @cached_property
    def special_texts(self) -> dict[str, str]:
        """`bos_token` and so on, as templates use them."""
        texts = {}
        for name, value in self.tree("tokenizer_config.json").items():
            content = value.get("content") if isinstance(value, dict) else value
            if name.endswith("_token") and isinstance(content, str):
                texts[name] = content
        return texts

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end a reply by the model's generation settings."""
        ids = self.tree("generation_config.json").get("eos_token_id")
        return tuple(int(i) for i in (ids if isinstance(ids, list) else [ids]) if i is not None)

    @cached_property
    def image_id(self) -> int | None:
        """The token that stands for an image, where the model's configuration names it."""
        config = self.tree("config.json")
        token = config.get("image_token_id", config.get("image_token_index"))
        return token if isinstance(token, int) else None


def unpack(archive: bytes) -> Bundle:
    """Read the files that are needed; nothing is written anywhere, so names can do no harm.

    Raises:
        ValueError: not a zip, a damaged one, or one that holds too much.
    """
    files: dict[str, bytes] = {}
    left = MAX_FILES
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            for name in set(packed.namelist()) & set(_READ):
                # What the directory says of sizes may be false: what is read is counted.
                with packed.open(name) as file:
                    files[name] = file.read(left + 1)
                left -= len(files[name])
                if left < 0:
                    raise ValueError(f"the tokenizer's files exceed {MAX_FILES:,} bytes")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"the tokenizer's archive cannot be read: {error}") from error
    return Bundle(files)
