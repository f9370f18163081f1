"""What a judge has a segmenter outline: by command, or as what an instruction lets change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

from .contract import INSTRUCTIONS, OutputContract, abbreviate, list_schema, object_schema
from .json_object import match_keys, normalise_key, read_list, read_object
from .lenient_json import Value
from .reply import ReplyText, Unparsable

LONGEST = 120
"""Of a command, in characters: it names one thing."""
_PHRASE = rf'^[^"\\\x00-\x1f]{{1,{LONGEST}}}$'
# How the paper has a command begin. Segmenters put such words around the phrase themselves.
_COMMAND_VERB = re.compile(r"^(?:please\s+)?segment\s+", re.IGNORECASE)


class Command(NamedTuple):
    """One thing to outline.

    Attributes:
        phrase: What it is, as a noun phrase.
        source_index: The source image that it comes from, from 0.
    """

    phrase: str
    source_index: int


@dataclass(frozen=True)
class Commands(OutputContract[tuple[Command, ...]]):
    """Things to outline, each named by a noun phrase.

    Every command counts, so one that cannot be used makes the whole reply unparsable; one that
    is given twice (case and spaces apart) counts once. `Please segment` before a phrase is
    left out.

    A list by itself is read too.

    Source: I2I-Bench, appendix F: one command for the edited region, a list of them for the
    subjects of one source image, objects with `source_index` (from 0) for those of several.
    An empty list says that there is nothing to compare.

    Attributes:
        low: The fewest; 0 where an empty list is an answer.
        high: The most; a reply that lists more is refused as a whole.
        indexed: Whether each command says which source image it is about.
        bare: The reply is a list by itself, with keys as the prompt has them; no decoder is held to
            a form then.
        sources: How many source images there are, where that is known: a further one in a
            reply is a mistake. The commands of one source image need no index.
    """

    name: ClassVar[str] = "commands"
    parser: ClassVar[int] = 4
    key: ClassVar[str] = "commands"

    low: int = 1
    high: int = 6
    indexed: bool = False
    sources: int | None = None
    bare: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high or self.high < 1:
            raise ValueError(f"from {self.low} to {self.high} is no count of commands")
        if self.sources is not None and self.sources < 1:
            raise ValueError("an edit has a source image")

    @property
    def instruction(self) -> str:
        """The key, the count and what makes a command."""
        texts = INSTRUCTIONS["commands"]
        what = "object" if self.indexed else "text"
        count = f"exactly one {what}" if self.high == 1 else f"at most {self.high} {what}s"
        begin = texts["alone" if self.bare else "keyed"].format(count=count, key=self.key)
        each = texts["indexed" if self.indexed else "plain"]
        phrase = texts["phrase"].format(longest=LONGEST)
        return f"{begin} {each}{phrase}{'' if self.low else texts['none']}"

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """A list of phrases, or of objects; that they differ is checked on reading."""
        if self.bare:
            return None
        phrase = {"type": "string", "pattern": _PHRASE}
        index: dict[str, Any] = {"type": "integer", "minimum": 0}
        if self.sources is not None:
            index["maximum"] = self.sources - 1
        entry = object_schema({"source_index": index, "phrase": phrase}) if self.indexed else phrase
        return object_schema({self.key: list_schema(entry, self.low, self.high)})

    def _read(self, reply: ReplyText) -> tuple[Command, ...]:
        commands: dict[tuple[str, int], Command] = {}
        for value in read_list(reply, self.key, self.high):
            read = self._read_indexed(value) if self.indexed else Command(_phrase(value), 0)
            same = " ".join(read.phrase.casefold().split())
            commands.setdefault((same, read.source_index), read)
        if len(commands) < self.low:
            raise Unparsable(f"{len(commands)} different commands, {self.low} are due")
        return tuple(commands.values())

    def _read_indexed(self, value: Value) -> Command:
        if not isinstance(value, tuple):
            raise Unparsable("a command is not an object")
        members = match_keys(value, ("source_index", "phrase"))
        index = members["source_index"]
        # bool first: to Python, true is the number 1.
        if isinstance(index, bool) or not isinstance(index, float) or not index.is_integer():
            raise Unparsable('a "source_index" is not a whole number')
        if index < 0 or (self.sources is not None and index >= self.sources):
            images = f"0 to {self.sources - 1}" if self.sources else "0 and more"
            raise Unparsable(f'"source_index" is {index:g}, there is {images}')
        return Command(_phrase(members["phrase"]), int(index))


def _phrase(value: Value) -> str:
    if not isinstance(value, str):
        raise Unparsable("a command is not text")
    text = _COMMAND_VERB.sub("", " ".join(value.split())).strip(" .")
    if not any(map(str.isalnum, text)) or len(text) > LONGEST:
        raise Unparsable(f"{abbreviate(value)} does not name a thing in 1 to {LONGEST} characters")
    return text


LONGEST_PHRASE = 80
Scope: TypeAlias = Literal["objects", "surroundings", "whole"]
_SCOPES: tuple[str, ...] = get_args(Scope)


class TargetPhrases(NamedTuple):
    """Which part of the source may change.

    Attributes:
        scope: `objects`: what the phrases name; `surroundings`: everything but that; `whole`:
            the whole image, and there is no phrase.
        phrases: Each names something that can be seen in the source.
    """

    scope: Scope
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class Targets(OutputContract[TargetPhrases]):
    """The part of the source that an instruction lets change.

    Phrases that differ in case and spaces only count once.

    Source: GIE-Bench, section 3.3 and appendix A.3 (concise phrases for what is to be edited,
    and a way to say that it is the whole image); Omni IIE Bench, section 3.2.2, stage 2 (entity
    nouns for Grounded SAM). `surroundings` is ours: of a background that is replaced, the
    segmenter finds what stays more easily than what goes.

    Attributes:
        high: The most phrases.
    """

    name: ClassVar[str] = "targets"
    longest: ClassVar[int] = LONGEST_PHRASE

    high: int = 4

    def __post_init__(self) -> None:
        if self.high < 1:
            raise ValueError(f"{self.high} is no count of phrases")

    @property
    def schema(self) -> Mapping[str, Any]:
        """A scope and phrases; that these go together is checked on reading."""
        phrases = {"type": "array", "items": {"type": "string"}, "maxItems": self.high}
        return object_schema({"scope": {"type": "string", "enum": [*_SCOPES]}, "phrases": phrases})

    def _read(self, reply: ReplyText) -> TargetPhrases:
        values = read_object(reply, ("scope", "phrases"))
        scope, entries = values["scope"], values["phrases"]
        if scope not in _SCOPES:
            raise Unparsable(f'"scope" is {abbreviate(scope)}, none of {", ".join(_SCOPES)}')
        if not isinstance(entries, list):
            raise Unparsable('"phrases" is not a list')
        if len(entries) > self.high:
            raise Unparsable(f"{len(entries)} phrases, more than {self.high}")
        if (scope == "whole") == bool(entries):
            raise Unparsable(f'"scope" is "{scope}" with {len(entries)} phrases')
        phrases = {
            normalise_key(one): one for one in reversed([_target(value) for value in entries])
        }
        return TargetPhrases(cast("Scope", scope), tuple(reversed(phrases.values())))


def _target(value: Value) -> str:
    text = " ".join(value.split()).strip(" .") if isinstance(value, str) else ""
    if not 0 < len(text) <= LONGEST_PHRASE:
        raise Unparsable(f"{abbreviate(value)} is not a phrase")
    return text
