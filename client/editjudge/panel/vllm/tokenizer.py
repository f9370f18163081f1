"""A model's tokenizer and chat template, from the files that its server sends.

Text of a prompt never becomes a control token: `<|im_end|>` in an instruction must stay text, while
the template's own must be the one token. So control tokens in a prompt's texts are broken, as they
are over HTTP, and afterwards the token ids must hold the control tokens of the template and no
others.

The template never sees a prompt's texts, only marks in their place. So it cannot be led astray by
them, and for every character it is known whether it comes from the template or the prompt. Where a
template trims or rewrites texts, this has no effect: the prompt's own text is sent.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import secrets
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ...base.parse import parse_json
from ..prompt import Picture, Prompt, break_control_tokens

if TYPE_CHECKING:
    from jinja2.parser import Parser

MAX_ARCHIVE = 128 * 1024 * 1024
"""Bytes of the zip. The largest in use (vocabularies of 262,144 tokens) take about 15 MB."""
MAX_FILES = 512 * 1024 * 1024
"""Bytes of what is read out of it, together."""

# Those that decide what a prompt becomes; the others are never read.
_SHAPING = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json")
_READ = (*_SHAPING, "config.json", "generation_config.json")


@dataclass(frozen=True)
class TokenizerFiles:
    """The files of a model's tokenizer, as its server sends them.

    Attributes:
        files: Contents of the files that are read, by name.
    """

    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 16 hex digits of all files that decide how a prompt is encoded.

        It is not the digest of the archive, which holds the times of the files too.
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
        """The object in a JSON file, empty where there is no such file.

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
        """The source of the chat template, from whichever file has it.

        Raises:
            ValueError: no file has one.
        """
        template: Any = self.text("chat_template.jinja")
        template = template or self.tree("chat_template.json").get("chat_template")
        template = template or self.tree("tokenizer_config.json").get("chat_template")
        if isinstance(template, list):
            by_name = {each.get("name"): each.get("template") for each in template}
            template = by_name.get("default")
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
        """Tokens that end a reply, by the model's generation settings."""
        ids = self.tree("generation_config.json").get("eos_token_id")
        return tuple(int(i) for i in (ids if isinstance(ids, list) else [ids]) if i is not None)

    @cached_property
    def image_id(self) -> int | None:
        """The token that stands for an image, where the model's configuration names it."""
        config = self.tree("config.json")
        token = config.get("image_token_id", config.get("image_token_index"))
        return token if isinstance(token, int) else None


def unpack(archive: bytes) -> TokenizerFiles:
    """Read the needed files from a zip; nothing is written to disk, so names do no harm.

    Raises:
        ValueError: it is no zip, a damaged one, or one that holds too much.
    """
    files: dict[str, bytes] = {}
    left = MAX_FILES
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as archive_file:
            for name in set(archive_file.namelist()) & set(_READ):
                # What the directory says of sizes may be false: what is read is counted.
                with archive_file.open(name) as file:
                    files[name] = file.read(left + 1)
                left -= len(files[name])
                if left < 0:
                    raise ValueError(f"the tokenizer's files exceed {MAX_FILES:,} bytes")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"the tokenizer's archive cannot be read: {error}") from error
    return TokenizerFiles(files)


Piece: TypeAlias = tuple[str, bool]
"""Text, and whether it is of a prompt (True) or of the chat template (False)."""


class ModelTokenizer:
    """A model's tokenizer.

    Args:
        source: Text of `tokenizer.json`.

    Raises:
        ValueError: it is no tokenizer.

    Attributes:
        size: Number of tokens, added ones included.
    """

    def __init__(self, source: str) -> None:
        from tokenizers import Tokenizer

        tree = parse_json(source)
        try:
            self._tokenizer = Tokenizer.from_str(source)
            # Runs of white space are added tokens of some models: no control tokens, those.
            added_ids = {t["content"]: int(t["id"]) for t in tree.get("added_tokens", ())}
            added_ids = {content: token for content, token in added_ids.items() if content.strip()}
        except Exception as error:  # the library raises nothing more precise
            raise ValueError(f"tokenizer.json: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self._added_tokens = frozenset(added_ids)
        # The unknown token is no threat: it stands for what has no other token.
        unknown = tree["model"].get("unk_token") if isinstance(tree["model"], dict) else None
        self._control = {token for content, token in added_ids.items() if content != unknown}

    def encode(self, pieces: Sequence[Piece]) -> list[int]:
        """Token ids of a rendered prompt, in which only the template has control tokens.

        They are those of the whole text in one piece, except that a control token's text in the
        prompt is broken by a zero-width space; see `break_control_tokens`.

        Raises:
            ValueError: the tokenizer makes a control token of other text.
        """
        of_template = (self.ids(part) for part, of_prompt in pieces if not of_prompt)
        own = [token for ids in of_template for token in ids if token in self._control]
        safe = (break_control_tokens(part, self._added_tokens) if of_prompt else part for part, of_prompt in pieces)
        ids = self.ids("".join(safe))
        # A normaliser could still have made one of something else (of a wide "<", say).
        if (control := [token for token in ids if token in self._control]) != own:
            other = next((token for token in control if token not in own), (*control, *own)[0])
            name = self._tokenizer.id_to_token(other)
            raise ValueError(f"the tokenizer makes {name!r} of a text that is none")
        return ids

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, in which control tokens are recognised."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def single_token(self, text: str) -> int | None:
        """The one token that is the text; None where it takes several or is a control token."""
        ids = self.ids(text)
        return ids[0] if len(ids) == 1 and ids[0] not in self._control else None

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special ones left out."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def text_of(self, token: int) -> str | None:
        """The text of a token, None where there is no such token."""
        name: str | None = self._tokenizer.id_to_token(token)
        return name


_Shape: TypeAlias = tuple[bool, ...]
_CACHE_SIZE = 256


class ChatTemplate:
    """Encodes prompts for one model by its chat template.

    Args:
        source: The template, in the dialect of `transformers`.
        tokens: The model's tokenizer.
        variables: `bos_token` and so on.
        image_id: The token that stands for an image, where it is known.

    Raises:
        ValueError: the template cannot be read.
    """

    def __init__(
        self,
        source: str,
        tokens: ModelTokenizer,
        variables: Mapping[str, str] | None = None,
        image_id: int | None = None,
    ) -> None:
        self.tokens = tokens
        self._variables = dict(variables or {})
        self._image_id = image_id
        self._key = secrets.token_hex(16)
        self._mark = re.compile(f"{self._key}x([0-9]+)x")
        self._render = lru_cache(_CACHE_SIZE)(self._render_template)
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise ValueError(f"the chat template cannot be read: {error}") from error

    @classmethod
    def of(cls, bundle: TokenizerFiles) -> ChatTemplate:
        """The template in a model's files.

        Raises:
            ValueError: naming the file that is missing or cannot be read.
        """
        source = bundle.text("tokenizer.json")
        if source is None:
            raise ValueError("the model has no tokenizer.json")
        return cls(bundle.template, ModelTokenizer(source), bundle.special_texts, bundle.image_id)

    def ids(self, prompt: Prompt) -> list[int]:
        """Token ids of the prompt up to where the reply begins, with one placeholder per image.

        Raises:
            ValueError: the template does not take such a prompt (an image, a system turn), or a
                text cannot be told from a control token.
        """
        ids = self.tokens.encode(self.pieces(prompt))
        images = len(prompt.pictures)
        count = 0 if self._image_id is None else ids.count(self._image_id)
        if count not in (0, images):
            raise ValueError(f"the chat template writes {count} placeholders for {images} images")
        return ids

    def pieces(self, prompt: Prompt) -> list[Piece]:
        """The rendered prompt in pieces, each marked as text of the prompt or of the template.

        Raises:
            ValueError: the template does not take such a prompt.
        """
        runs = _split_runs(prompt)
        rendering = self._render(bool(prompt.system), tuple(run is None for run in runs))
        # Every other element is the number of a text.
        texts = [prompt.system, *runs]
        return [
            (part, False) if i % 2 == 0 else (texts[int(part)] or "", True) for i, part in enumerate(rendering) if part
        ]

    def _render_template(self, system: bool, shape: _Shape) -> list[str]:
        """The template's own text, split at the marks; in between stand the numbers of texts."""
        order = [*([0] if system else []), *(i for i, image in enumerate(shape, 1) if not image)]
        reasons = []
        for system_content, content in filter(None, (self._as_parts(shape), self._as_text(shape))):
            messages = [{"role": "system", "content": system_content}] if system else []
            messages.append({"role": "user", "content": content})
            try:
                text = self._template.render(
                    messages=messages, tools=None, documents=None, add_generation_prompt=True, **self._variables
                )
            except Exception as error:  # noqa: BLE001 - foreign code: it can raise anything
                reasons.append(str(error))
                continue
            parts = self._mark.split(text)
            texts = "".join(parts[::2])
            if [int(number) for number in parts[1::2]] == order and self._key not in texts:
                return parts
            reasons.append("it leaves out texts or changes their order")
        raise ValueError(f"the chat template does not take the prompt: {'; '.join(reasons)}")

    def _as_parts(self, shape: _Shape) -> tuple[Any, Any]:
        """System and user turn in OpenAI's form; a template that expects text prints the key, and is found."""
        key, count = self._key, len(shape) + 1
        text = [{"type": "text", "text": f"{key}x{i}x", key: ""} for i in range(count)]
        return [text[0]], [{"type": "image"} if is_image else text[i] for i, is_image in enumerate(shape, 1)]

    def _as_text(self, shape: _Shape) -> tuple[Any, Any] | None:
        """The two in the form of older templates, with placeholders for images, or None."""
        placeholder = None if self._image_id is None else self.tokens.text_of(self._image_id)
        if any(shape) and placeholder is None:
            return None
        texts = (placeholder or "" if is_image else f"{self._key}x{i}x" for i, is_image in enumerate(shape, 1))
        return f"{self._key}x0x", "".join(texts)


def _split_runs(prompt: Prompt) -> list[str | None]:
    """The user turn: neighbouring texts as one, and None for an image."""
    runs: list[str | None] = []
    for part in prompt.parts:
        if isinstance(part, Picture):
            runs.append(None)
        elif part.text and runs and runs[-1] is not None:
            runs[-1] += part.text
        elif part.text:
            runs.append(part.text)
    return runs


class _Generation(Extension):
    """The block `{% generation %}`, which marks replies for training, rendered as its content."""

    tags = {"generation"}  # noqa: RUF012 - declared so by Extension

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """The Jinja environment as transformers makes it, for which templates are written."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _now
    # Jinja's own two open ways out of the sandbox.
    environment.globals["dict"] = _new_dict
    environment.globals["namespace"] = _Names
    return environment


class _Names(Namespace):
    """A namespace without private names."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # So that a template may call an attribute `self`.
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            _check_public(name)
        Namespace.__init__(args[0], attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_public(name)
        super().__setitem__(name, value)


def _check_public(name: str) -> None:
    if name.startswith("_"):
        raise SecurityError(f"the template uses the private name {name!r}")


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    # Local time, as transformers has it.
    return datetime.now().astimezone().strftime(form)
