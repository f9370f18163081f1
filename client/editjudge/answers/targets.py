"""What an instruction lets an editor change, as phrases for a segmenter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast, get_args

from .contract import OutputContract, Unparsable, shown
from .json_object import fields, plain
from .lenient import Value
from .spoken import Spoken

LONGEST_PHRASE = 80
Scope: TypeAlias = Literal["objects", "surroundings", "whole"]


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

    high: int = 4

    def __post_init__(self) -> None:
        if self.high < 1:
            raise ValueError(f"{self.high} is no count of phrases")

    @property
    def instruction(self) -> str:
        """The keys, and what makes a phrase."""
        return (
            'Reply with one JSON object and nothing around it. Its keys: "scope", one of '
            '"objects" (the named things may change), "surroundings" (everything but the named '
            'things may change) and "whole" (the whole image may change); "phrases", a list of 1 '
            f"to {self.high} texts, and an empty list for the whole image. A phrase names one "
            "thing, or all things of one sort, that can be seen in the source, in two to five "
            f"words and at most {LONGEST_PHRASE} characters, without verbs."
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """A scope and phrases; that these go together is checked on reading."""
        phrases = {"type": "array", "items": {"type": "string"}, "maxItems": self.high}
        return {
            "type": "object",
            "properties": {
                "scope": {"type": "string", "enum": list(get_args(Scope))},
                "phrases": phrases,
            },
            "required": ["scope", "phrases"],
            "additionalProperties": False,
        }

    def parse(self, reply: str, *, cut: bool = False) -> TargetPhrases:
        """Read the phrases, in order; see `OutputContract.parse`."""
        spoken = Spoken(reply, cut=cut)
        values = fields(spoken, ("scope", "phrases"))
        scope, listed = values["scope"], values["phrases"]
        if scope not in get_args(Scope):
            raise Unparsable(f'"scope" is {shown(scope)}, none of {", ".join(get_args(Scope))}')
        if not isinstance(listed, list):
            raise Unparsable('"phrases" is not a list')
        if len(listed) > self.high:
            raise Unparsable(f"{len(listed)} phrases, more than {self.high}")
        if (scope == "whole") == bool(listed):
            raise Unparsable(f'"scope" is "{scope}" with {len(listed)} phrases')
        phrases = {plain(one): one for one in reversed([_phrase(value) for value in listed])}
        return spoken.alone(TargetPhrases(cast("Scope", scope), tuple(reversed(phrases.values()))))


def _phrase(value: Value) -> str:
    text = " ".join(value.split()).strip(" .") if isinstance(value, str) else ""
    if not 0 < len(text) <= LONGEST_PHRASE:
        raise Unparsable(f"{shown(value)} is not a phrase")
    return text
