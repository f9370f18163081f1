"""Official prompts: nothing of ours is added to them."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..answers import OutputContract
from ..base import official as releases
from ..base.digest import content_digest
from ..base.official import escaped
from ..panel.prompt import Part, Prompt, Text
from . import Template, Value, _add


@dataclass(frozen=True, slots=True)
class Labels:
    """What stands before each image, as official code has it.

    Attributes:
        source: Of a source; `{n}` is its number.
        edited: Of the edited image.
        target: Of the ground truth.
        given: Of a frame that the editor was given; `{n}` is its place in time.
        made: Of the frame that it made.
    """

    source: str = ""
    edited: str = ""
    target: str = ""
    given: str = ""
    made: str = ""


@dataclass(frozen=True)
class OfficialTemplate(Template):
    """An official prompt, which says itself how the answer must look.

    Attributes:
        labels: Of its images.
    """

    labels: Labels = Labels()

    @property
    def answer(self) -> str:
        """Nothing: the prompt's own words say it."""
        return ""

    @property
    def digest(self) -> str:
        """As of any template; labels shape the question too."""
        return content_digest(f"{super().digest} {self.labels}".encode())

    def prompt(self, values: Mapping[str, Value]) -> Prompt:
        """The prompt for one edit: the official text, and each image after its label."""
        parts: list[Part] = []
        for literal, name, _, _ in string.Formatter().parse(self.user):
            _add(parts, literal)
            value = values[name] if name else ()
            if isinstance(value, str):
                parts.append(Text(value, data=True))
                continue
            for image in value:
                _add(parts, image.label)
                parts.append(image.picture)
        return Prompt(self.system, tuple(parts))


@dataclass(frozen=True, slots=True)
class OfficialPrompt:
    """How one official text is asked.

    Attributes:
        name: As templates are called, `<release>/<name>`.
        release: Name of the release that holds it; see `official_prompts`.
        file: The name that its text is kept under.
        asks: The question in one line.
        source: Paper and figure.
        images: Our fields for the images after the text, in order.
        labels: Of these images.
        contract: The form that the text asks for; what reads a reply strictly.
        fields: Ours by the names of its own fields in braces; None where the official code
            sends the text as it stands, with doubled braces.
        system: The name that the text of the system turn is kept under; empty for none.
        images_first: The images stand before the text.
    """

    name: str
    release: str
    file: str
    asks: str
    source: str
    images: tuple[str, ...]
    labels: Labels
    contract: OutputContract[Any]
    fields: tuple[tuple[str, str], ...] | None = ()
    system: str = ""
    images_first: bool = False

    @property
    def template(self) -> OfficialTemplate:
        """As a template.

        Raises:
            ConfigError: a text was not imported.
        """
        texts = releases.official_prompts()[self.release]
        system = texts.text(self.system) if self.system else ""
        return _template(self, texts.text(self.file), system)

    def with_our_fields(self, text: str) -> str:
        """The text in the form of our templates, without its images."""
        if self.fields is None:
            return escaped(text)
        ours = dict(self.fields)
        return "".join(
            escaped(literal) + ("" if name is None else f"{{{ours[name]}}}")
            for literal, name, _, _ in string.Formatter().parse(text)
        )


@lru_cache(256)
def _template(prompt: OfficialPrompt, text: str, system: str) -> OfficialTemplate:
    turn = [prompt.with_our_fields(text), *(f"{{{images}}}" for images in prompt.images)]
    if prompt.images_first:
        turn = [*turn[1:], turn[0]]
    return OfficialTemplate(
        name=prompt.name,
        asks=prompt.asks,
        source=prompt.source,
        system=system,
        user="".join(turn),
        contract=prompt.contract,
        origin="original",
        labels=prompt.labels,
    )
