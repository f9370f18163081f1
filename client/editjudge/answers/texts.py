"""Contracts for replies of text: one of a few options, or the judge's own words."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .contract import OutputContract, abbreviate, object_schema
from .json_object import read_object, read_text
from .reply import ReplyText, Unparsable
from .words import LONGEST, is_reason

_QUOTES = "\"'`“”\u2018\u2019«»"
_AROUND = f"{_QUOTES} \t\r\n*"


def _normalise(text: str) -> str:
    """Return a text for comparison: no case, extra spaces, outer quotes or full stops at the end, in any order."""
    return " ".join(text.split()).lstrip(_QUOTES + " ").rstrip(_QUOTES + " .。").casefold()


def _unquote(text: str) -> str:
    """Return the text of a JSON string, which constrained decoding makes of an option."""
    try:
        value = json.loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return value if isinstance(value, str) else text


@dataclass(frozen=True)
class Option(OutputContract[str]):
    """One of several given options, as plain text.

    Case, quotes around the reply, full stops at its end and repeated spaces do not matter, unless
    options differ only in these. Text before or after an option is not removed: `A car, not a bus`
    names two.

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
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of one of the options as a string.

        Some servers accept only objects at the top level; they get no schema.
        """
        return {"type": "string", "enum": list(self.options)}

    def _read(self, reply: ReplyText) -> str:
        if reply.cut:
            # The beginning of one option may be another: what is cut cannot be told.
            raise Unparsable("cut at the token limit")
        text = _unquote(reply.last_line.strip())
        loose = _normalise(text)
        matches = [option for option in self.options if text == option] or [
            option for option in self.options if _normalise(option) == loose
        ]
        if len(matches) > 1:
            raise Unparsable(f"{abbreviate(text)} matches {len(matches)} options")
        if not matches:
            raise Unparsable(f"{abbreviate(text)} is none of the options")
        reply.words = ""  # they are copied from the prompt
        return matches[0]


@dataclass(frozen=True)
class FirstWord(Option):
    """One of several choices, at the start of a reply, and perhaps a reason for it.

    `Yes, the vase is gone` is Yes. A reason tells of the pictures: it names no other choice, asks
    nothing, holds no words about the judge itself or its rules, and has at most 8,192 characters. So
    neither an echo (`Yes or No? No`) nor `No, I cannot help with that` is a choice. `Not` is not No.
    A word that the token limit may have cut counts as no choice.

    Source: I2I-Bench, appendix F: a reply has to begin with one of five words, or is Yes or No.
    """

    name: ClassVar[str] = "first_word"

    def _read(self, reply: ReplyText) -> str:
        reply.words = reply.last[:LONGEST]
        start = reply.last.lstrip(_AROUND).casefold()
        for option in self.options:
            rest = start.removeprefix(option.casefold())
            if rest == start or rest[:1].isalnum() or (reply.cut and not rest):
                continue
            if is_reason(rest, (other for other in self.options if other != option)):
                return option
            raise Unparsable(f"{option} is followed by more than a reason for it")
        return super()._read(reply)


@dataclass(frozen=True)
class Verbatim(OutputContract[str]):
    """The reply as it is, without the space around it, for an exact comparison.

    Whether it is one of the texts that the prompt lists is not checked; the scorer compares it with
    the expected answer.

    Source: GIE-Bench's official evaluation.
    """

    name: ClassVar[str] = "verbatim"
    parser: ClassVar[int] = 2
    reads_words: ClassVar[bool] = False

    def parse(self, reply: str, *, cut: bool = False) -> str:
        """Return the reply itself; see `OutputContract.parse`."""
        text = reply.strip()
        if cut or not text:
            raise Unparsable("cut at the token limit" if cut else "the reply is empty")
        return text


@dataclass(frozen=True)
class OneText(OutputContract[str]):
    """One line of text under a key in a JSON object.

    Source: GIE-Bench, section 3.1 and figure 8: the instruction that a judge writes.

    Attributes:
        key: Key of the text.
        longest: The largest number of characters.
    """

    name: ClassVar[str] = "one_text"

    key: str = "text"
    longest: int = 300

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of an object with that text. Only `parse` checks the text's length."""
        return object_schema({self.key: {"type": "string"}})

    def _read(self, reply: ReplyText) -> str:
        return read_text(read_object(reply, (self.key,)), self.key, self.longest)
