"""Official prompts as templates; no text of ours is added to them."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from ..answers.contract import OutputContract
from ..base import prompt_releases as releases
from ..base.parse import package_tables
from ..base.prompt_releases import escape_braces
from . import ORIGINAL, Labels, Template, parse_form


@dataclass(frozen=True, slots=True)
class OfficialPrompt:
    """How one official text is sent and its reply is read.

    Attributes:
        name: Name of the template, `<release>/<name>`.
        release: Name of the release that holds it; see `base.prompt_releases`.
        file: Name of the file in which its text is stored.
        asks: The question in one line.
        source: Paper and figure.
        images: Our fields for the images after the text, in order.
        labels: Labels of these images.
        contract: The form of reply that the text asks for; it parses the reply strictly.
        fields: Pairs of the text's own field in braces and our field. None if the official code
            sends the text unchanged, with doubled braces.
        system: Name of the file with the text of the system turn; empty for none.
        images_first: Whether the images stand before the text.
    """

    name: str
    release: str
    file: str
    asks: str
    source: str
    images: tuple[str, ...]
    labels: Labels
    contract: OutputContract[Any]
    fields: tuple[tuple[str, str], ...] | None = None
    system: str = ""
    images_first: bool = False

    @property
    def template(self) -> Template:
        """The template made from the imported texts.

        Raises:
            ConfigError: A text was not imported.
        """
        texts = releases.prompt_releases()[self.release]
        system = texts.text(self.system) if self.system else ""
        return _template(self, texts.text(self.file), system)

    def with_our_fields(self, text: str) -> str:
        """Return the official text with our field names, without its images."""
        if self.fields is None:
            return escape_braces(text)
        ours = dict(self.fields)
        return "".join(
            escape_braces(literal) + ("" if name is None else f"{{{ours[name]}}}")
            for literal, name, _, _ in string.Formatter().parse(text)
        )


@cache
def load_official_prompts(package: str) -> Mapping[str, OfficialPrompt]:
    """Load the official prompts that `official.toml` of a benchmark declares, by our names.

    Each row names its labels and the form of its reply. The prompt has the name of its file unless
    the row gives another.
    """
    tables = package_tables(package, "official.toml")
    return {ours: _make_prompt(tables, row) for ours, row in tables["prompts"].items()}


def _make_prompt(tables: Mapping[str, Any], row: Mapping[str, Any]) -> OfficialPrompt:
    release, file = tables["release"], row["file"]
    values = {"name": f"{release}/{file.removesuffix('.txt')}", **row, "release": release}
    values["images"] = tuple(row["images"])
    values["labels"] = Labels(**tables["labels"][row["labels"]])
    _, values["contract"] = parse_form(dict(tables["answers"][values.pop("answer")]))
    values["fields"] = tuple(row["fields"].items()) if "fields" in row else None
    return OfficialPrompt(**values)


@lru_cache(256)
def _template(prompt: OfficialPrompt, text: str, system: str) -> Template:
    turn = [prompt.with_our_fields(text), *(f"{{{images}}}" for images in prompt.images)]
    if prompt.images_first:
        turn = [*turn[1:], turn[0]]
    return Template(
        name=prompt.name,
        asks=prompt.asks,
        source=prompt.source,
        system=system,
        user="".join(turn),
        contract=prompt.contract,
        origin=ORIGINAL,
        labels=prompt.labels,
        says_form=True,
    )
