"""Answers that are one of a few given texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .contract import OutputContract, Unparsable, shown
from .found import answer

# Some chat templates open the block themselves, so a reply begins inside it. The tag ends a
# line there; one that a judge quotes from an image stands within one.
_THOUGHT = re.compile(r"</think(?:ing)?>[ \t]*\n")
_QUOTES = "\"'`“”\u2018\u2019«»"


COPY_ONE = (
    "Reply with exactly one of the options given above, copied word for word, and nothing else."
)
"""How to choose among options that the prompt lists."""


def _loose(text: str) -> str:
    """A text as it is compared: without case, quotes around it, a final full stop, extra space."""
    text = " ".join(text.split())
    for _ in range(2):  # the full stop stands inside the quotes or outside
        text = text.strip(_QUOTES).strip()
        text = text.removesuffix("。") if text.endswith("。") else text.removesuffix(".")
    return text.strip(_QUOTES).strip().casefold()


def _unquoted(text: str) -> str:
    """The text of a JSON string, which constrained decoding makes of an option."""
    try:
        value = json.loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _chosen(options: tuple[str, ...], reply: str, *, cut: bool) -> str:
    text, _ = answer(reply, cut=cut)
    if ends := list(_THOUGHT.finditer(text)):
        text = text[ends[-1].end() :]
    if cut:
        # The beginning of one option may be another: what is cut cannot be told.
        raise Unparsable("cut at the token limit")
    text = _unquoted(text.strip())
    if text in options:
        return text
    loose = _loose(text)
    found = [option for option in options if _loose(option) == loose]
    if len(found) > 1:
        raise Unparsable(f"{shown(text)} matches {len(found)} options")
    if not found:
        raise Unparsable(f"{shown(text)} is none of the options")
    return found[0]


@dataclass(frozen=True)
class Option(OutputContract[str]):
    """One of several given texts, as plain text.

    Case, quotes around the reply, its final full stop and repeated spaces do not count, unless
    options differ in nothing else. Text before or after an option is not cut away: `A car, not
    a bus` names two.

    Source: GIE-Bench, section 3.5: the judge picks one of up to five answers.

    Attributes:
        options: Letters or whole texts; they may come from data.
    """

    name: ClassVar[str] = "option"

    options: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.options) < 2 or len(set(self.options)) < len(self.options):
            raise ValueError(f"give at least two different options: {self.options}")
        if any(not option.strip() or option != option.strip() for option in self.options):
            raise ValueError(f"an option is empty or has space around it: {self.options}")

    @property
    def instruction(self) -> str:
        """Says how to choose. The prompt lists the options itself, marked as data."""
        return COPY_ONE

    @property
    def schema(self) -> Mapping[str, Any]:
        """One of the options as a JSON string.

        Some servers take objects only as the outermost value: they are asked without it.
        """
        return {"type": "string", "enum": list(self.options)}

    def parse(self, reply: str, *, cut: bool = False) -> str:
        """The option chosen, as given; see `OutputContract.parse`."""
        return _chosen(self.options, reply, cut=cut)


@dataclass(frozen=True)
class YesNoAnswer(OutputContract[bool]):
    """One of two words, read to whether it is the affirmative one.

    Only the two words asked for count. A judge asked whether an answer is true or false may
    write yes as the answer to the question itself, so the pairs are not interchangeable.

    Source: I2I-Bench, appendix F, the answers to generated questions (yes or no); Omni IIE
    Bench, section 5.1, step 2 (true or false).

    Attributes:
        yes: Reads to True.
        no: Reads to False.
    """

    name: ClassVar[str] = "yes_no"

    yes: str = "Yes"
    no: str = "No"

    def __post_init__(self) -> None:
        if _loose(self.yes) == _loose(self.no) or not _loose(self.yes) or not _loose(self.no):
            raise ValueError(f"not two words: {self.yes!r}, {self.no!r}")

    @property
    def instruction(self) -> str:
        """The two words."""
        return f"Reply with one word and nothing else: {self.yes} or {self.no}."

    @property
    def schema(self) -> Mapping[str, Any]:
        """One of the two words as a JSON string; see `Option.schema`."""
        return {"type": "string", "enum": [self.yes, self.no]}

    def parse(self, reply: str, *, cut: bool = False) -> bool:
        """Whether the reply is the affirmative word; see `OutputContract.parse`."""
        return _chosen((self.yes, self.no), reply, cut=cut) == self.yes
