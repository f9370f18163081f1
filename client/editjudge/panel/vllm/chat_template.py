"""Prompts as a model's own chat template writes them, and as token ids.

The template never sees a prompt's texts, only marks in their place: so it cannot be led
astray by them, and it is known of every character whose it is. The one difference to
rendering the texts themselves: a template that trims or otherwise rewrites them has no
effect, what is sent is what the prompt says.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ..pictures import Picture
from ..prompt import Prompt
from .tokens import Piece, Tokens

if TYPE_CHECKING:
    from jinja2.parser import Parser

    from .bundle import Bundle

_Shape: TypeAlias = tuple[bool, ...]
_KEPT = 256


class Chat:
    """Writes prompts for one model.

    Args:
        source: The template, as `transformers` understands it.
        tokens: The model's tokenizer.
        variables: `bos_token` and so on.
        image_id: The token that stands for an image, where it is known.

    Raises:
        ValueError: the template cannot be read.
    """

    def __init__(
        self,
        source: str,
        tokens: Tokens,
        variables: Mapping[str, str] | None = None,
        image_id: int | None = None,
    ) -> None:
        self.tokens = tokens
        self._variables = dict(variables or {})
        self._image_id = image_id
        self._key = secrets.token_hex(16)
        self._mark = re.compile(f"{self._key}x([0-9]+)x")
        self._rendered: dict[tuple[bool, _Shape], list[str]] = {}
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise ValueError(f"the chat template cannot be read: {error}") from error

    @classmethod
    def of(cls, bundle: Bundle) -> Chat:
        """From a model's files.

        Raises:
            ValueError: naming the file that is missing or cannot be read.
        """
        source = bundle.text("tokenizer.json")
        if source is None:
            raise ValueError("the model has no tokenizer.json")
        return cls(bundle.template, Tokens(source), bundle.special_texts, bundle.image_id)

    def ids(self, prompt: Prompt) -> list[int]:
        """The prompt as token ids, up to where the reply begins; one placeholder per image.

        Raises:
            ValueError: the template does not take such a prompt (an image, a system turn), or a
                text cannot be told from a control token.
        """
        ids = self.tokens.encode(self.pieces(prompt))
        images = len(prompt.pictures)
        if self._image_id in ids and ids.count(self._image_id) != images:
            raise ValueError(
                f"the chat template writes {ids.count(self._image_id)} placeholders for"
                f" {images} images"
            )
        return ids

    def pieces(self, prompt: Prompt) -> list[Piece]:
        """The rendered prompt, by whose text it is.

        Raises:
            ValueError: the template does not take such a prompt.
        """
        runs = _runs(prompt)
        shape = (bool(prompt.system), tuple(run is None for run in runs))
        if shape not in self._rendered:
            if len(self._rendered) >= _KEPT:
                self._rendered.clear()
            self._rendered[shape] = self._render(*shape)
        # Every other element is the number of a text.
        texts = [prompt.system, *runs]
        return [
            (part, False) if i % 2 == 0 else (texts[int(part)] or "", True)
            for i, part in enumerate(self._rendered[shape])
            if part
        ]

    def _render(self, system: bool, shape: _Shape) -> list[str]:
        """The template's own text, split at the marks; in between the numbers of texts."""
        order = [*([0] if system else []), *(i for i, image in enumerate(shape, 1) if not image)]
        reasons = []
        for messages in (self._as_parts(system, shape), self._as_text(system, shape)):
            if messages is None:
                continue
            try:
                text = self._template.render(
                    messages=messages,
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    **self._variables,
                )
            except Exception as error:  # noqa: BLE001 - foreign code: it can raise anything
                reasons.append(str(error))
                continue
            parts = self._mark.split(text)
            if [int(number) for number in parts[1::2]] == order and self._key not in "".join(
                parts[::2]
            ):
                return parts
            reasons.append("it leaves out texts or changes their order")
        raise ValueError(f"the chat template does not take the prompt: {'; '.join(reasons)}")

    def _as_parts(self, system: bool, shape: _Shape) -> list[dict[str, Any]]:
        """OpenAI's form. A template that expects text would write out the key, and is found."""
        text = [
            {"type": "text", "text": f"{self._key}x{i}x", self._key: ""}
            for i in range(len(shape) + 1)
        ]
        image = {"type": "image"}
        content = [image if is_image else text[i] for i, is_image in enumerate(shape, 1)]
        turns: list[dict[str, Any]] = [{"role": "user", "content": content}]
        return [{"role": "system", "content": [text[0]]}, *turns] if system else turns

    def _as_text(self, system: bool, shape: _Shape) -> list[dict[str, Any]] | None:
        """The form of older templates, where an image is its placeholder; None if not known."""
        placeholder = self._placeholder()
        if any(shape) and placeholder is None:
            return None
        content = "".join(
            placeholder or "" if is_image else f"{self._key}x{i}x"
            for i, is_image in enumerate(shape, 1)
        )
        turns = [{"role": "user", "content": content}]
        return [{"role": "system", "content": f"{self._key}x0x"}, *turns] if system else turns

    def _placeholder(self) -> str | None:
        return None if self._image_id is None else self.tokens.text_of(self._image_id)


def _runs(prompt: Prompt) -> list[str | None]:
    """The user turn: texts, neighbours as one, and None for an image."""
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
    """`{% generation %}` marks replies for training; here it is its content."""

    tags = {"generation"}  # noqa: RUF012 - declared so by Extension

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """As transformers makes it: templates are written for that one."""
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
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    # Local time, as transformers has it.
    return datetime.now().astimezone().strftime(form)
