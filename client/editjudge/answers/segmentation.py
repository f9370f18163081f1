"""Contracts for what a segmenter finds: phrases, or the part that an instruction may change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

from .contract import INSTRUCTIONS, OutputContract, abbreviate, list_schema, object_schema
from .json_object import match_keys, normalise_key, read_list, read_object
from .lenient_json import Value
from .reply import ReplyText, Unparsable

LONGEST = 120
"""The largest number of characters of a command, which names one thing."""
_PHRASE = rf'^[^"\\\x00-\x1f]{{1,{LONGEST}}}$'
# How the paper has a command begin. Segmenters put such words around the phrase themselves.
_COMMAND_VERB = re.compile(r"^(?:please\s+)?segment\s+", re.IGNORECASE)


class Command(NamedTuple):
    """One thing for a segmenter to find.

    Attributes:
        phrase: A noun phrase that names it.
        source_index: Index of the source image that it comes from, from 0.
    """

    phrase: str
    source_index: int


@dataclass(frozen=True)
class Commands(OutputContract[tuple[Command, ...]]):
    """Things for a segmenter to find, each named by a noun phrase.

    Every command counts, so one invalid command makes the whole reply unparsable. A repeated
    command (apart from case and spaces) counts once. `Please segment` before a phrase is removed. A
    bare list is accepted as well.

    Source: I2I-Bench, appendix F: one command for the edited region, a list of them for the
    subjects of one source image, objects with `source_index` (from 0) for those of several.
    An empty list says that there is nothing to compare.

    Attributes:
        low: The smallest number of commands; 0 if an empty list is an answer.
        high: The largest number; a reply with more is refused as a whole.
        indexed: Whether each command gives the index of its source image.
        bare: Whether the reply is a bare list with the keys that the prompt gives. There is no
            schema then.
        sources: Number of source images, if known; a higher index in a reply is an error. Commands
            for one source image need no index.
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
            raise ValueError(f"the count of commands cannot be {self.low} to {self.high}")
        if self.sources is not None and self.sources < 1:
            raise ValueError("an edit has a source image")

    @property
    def instruction(self) -> str:
        """The part of the prompt that gives the key, the count and the form of a command."""
        texts = INSTRUCTIONS["commands"]
        what = "object" if self.indexed else "text"
        count = f"exactly one {what}" if self.high == 1 else f"at most {self.high} {what}s"
        begin = texts["alone" if self.bare else "keyed"].format(count=count, key=self.key)
        each = texts["indexed" if self.indexed else "plain"]
        phrase = texts["phrase"].format(longest=LONGEST)
        return f"{begin} {each}{phrase}{'' if self.low else texts['none']}"

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON schema of a list of phrases or objects; only `parse` checks that they differ."""
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
    """The part of the source that may change.

    Attributes:
        scope: `objects`: the things that the phrases name; `surroundings`: everything else;
            `whole`: the whole image, without a phrase.
        phrases: Phrases that each name something visible in the source.
    """

    scope: Scope
    phrases: tuple[str, ...]


@dataclass(frozen=True)
class Targets(OutputContract[TargetPhrases]):
    """The part of the source that an instruction allows to change.

    Phrases that differ only in case and spaces count once.

    Source: GIE-Bench, section 3.3 and appendix A.3 (concise phrases for what is to be edited,
    and a way to say that it is the whole image); Omni IIE Bench, section 3.2.2, stage 2 (entity
    nouns for Grounded SAM). `surroundings` is our addition: if a background is replaced, the
    segmenter finds the part that stays more easily than the part that goes.

    Attributes:
        high: The largest number of phrases.
    """

    name: ClassVar[str] = "targets"
    longest: ClassVar[int] = LONGEST_PHRASE

    high: int = 4

    def __post_init__(self) -> None:
        if self.high < 1:
            raise ValueError(f"the count of phrases cannot be {self.high}")

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of a scope and phrases; only `parse` checks that they go together."""
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
        phrases = {normalise_key(p): p for p in reversed([_target(value) for value in entries])}
        return TargetPhrases(cast("Scope", scope), tuple(reversed(phrases.values())))


def _target(value: Value) -> str:
    text = " ".join(value.split()).strip(" .") if isinstance(value, str) else ""
    if not 0 < len(text) <= LONGEST_PHRASE:
        raise Unparsable(f"{abbreviate(value)} is not a phrase")
    return text
