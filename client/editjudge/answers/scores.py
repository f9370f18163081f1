"""Scores in a JSON object, the reasons before them, in it or as free text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .contract import INSTRUCTIONS, OutputContract, abbreviate, list_schema, object_schema
from .json_object import normalise_key, read_last_object, read_object
from .lenient_json import Value, parse_number, to_json
from .reply import ReplyText, Unparsable

LIST = "score"


@dataclass(frozen=True, slots=True)
class ScoreField:
    """One score.

    Attributes:
        name: Its key in the reply, or what it is called in an ordered list.
        low: The lowest score, itself allowed.
        high: The highest score, itself allowed.
        integer: Whole numbers only; `4.0` is one.
        description: What it rates, for the instruction; template text.
    """

    name: str
    low: float
    high: float
    integer: bool = True
    description: str = ""

    def __post_init__(self) -> None:
        if not normalise_key(self.name) or not (
            math.isfinite(self.low) and math.isfinite(self.high)
        ):
            raise ValueError(f"a score needs a name and a finite scale: {self}")
        if self.low >= self.high:
            raise ValueError(f"the scale of {self.name} is empty: {self.low:g} to {self.high:g}")
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise ValueError(f"the scale of {self.name} is of integers, its ends are not")

    @property
    def scale(self) -> str:
        """In words."""
        kind = "an integer" if self.integer else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    @property
    def schema(self) -> dict[str, Any]:
        """Of one score."""
        if self.integer:
            return {"type": "integer", "minimum": int(self.low), "maximum": int(self.high)}
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def read(self, value: Value) -> float:
        """A score from its JSON value.

        A string that holds a JSON number and nothing else counts as that number: it can mean
        nothing else.

        Raises:
            Unparsable: not a number, not finite, not on the scale.
        """
        read = parse_number(value) if isinstance(value, str) else value
        # bool first: to Python, true is the number 1.
        if isinstance(read, bool) or not isinstance(read, float):
            raise Unparsable(f'"{self.name}" is {_describe_kind(value)}, not a number')
        if not math.isfinite(read):
            raise Unparsable(f'"{self.name}" is not finite')
        if self.integer and not read.is_integer():
            raise Unparsable(f'"{self.name}" is {_format_number(read)}, not an integer')
        if not self.low <= read <= self.high:
            scale = f"{self.low:g} to {self.high:g}"
            raise Unparsable(f'"{self.name}" is {_format_number(read)}, outside {scale}')
        return read + 0.0  # -0.0 becomes 0.0


@dataclass(frozen=True, slots=True)
class ScoresAnswer:
    """What a judge gave.

    Attributes:
        scores: By field, in the contract's order, each on its field's scale.
        reasoning: The judge's words, as JSON where they are no text; empty where the contract asks
            for none.
        without: By field why there is no score; only where an official script reads the reply.
        steps: By field which step of the official script found the score.
    """

    scores: dict[str, float]
    reasoning: str = ""
    without: dict[str, str] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores(OutputContract[ScoresAnswer]):
    """One JSON object: reasons first, so that the scores follow from them, then the scores.

    Source: KRIS-Bench asks for 1 to 5 with a reason, one score a call, and two in the joint
    call for instruction and knowledge, each with a reason of its own (figures 28 to 36);
    I2I-Bench for 1 to 5 on the style of text (appendix F, dimension 12); Co-EditBench for
    four scores of 0 to 10 in one list (tables 4 and 5).

    Attributes:
        fields: The scores, in order.
        reasoning: True for one text under `reasoning`, False for none, or the keys of several
            texts; the answer holds them joined by empty lines. `before`: free text before the
            object, for an examination in steps; a decoder that is held to JSON from its first
            token could not write it, so there is no schema.
        as_list: The scores stand in one list under `score`, in the order of the fields, which
            then share one scale.
    """

    name: ClassVar[str] = "scores"
    is_averaged: ClassVar[bool] = True
    parser: ClassVar[int] = 4

    fields: tuple[ScoreField, ...]
    reasoning: bool | tuple[str, ...] | Literal["before"] = True
    as_list: bool = False

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("a contract of scores needs a score")
        if self.as_list and len({str(field.schema) for field in self.fields}) > 1:
            raise ValueError("scores in one list share one scale")
        keys = [normalise_key(key) for key in (*self.texts, *(f.name for f in self.fields))]
        if len(set(keys)) < len(keys) or not all(keys) or (self.as_list and "score" in keys[:-1]):
            raise ValueError(f"keys that a reply cannot tell apart: {keys}")

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys of the reasons."""
        if isinstance(self.reasoning, bool):
            return ("reasoning",) if self.reasoning else ()
        return () if self.reasoning == "before" else self.reasoning

    @property
    def instruction(self) -> str:
        """Each key with its scale, in order."""
        texts = INSTRUCTIONS["scores"]
        lines = [texts["reason"].format(key=key) for key in self.texts]
        if self.as_list:
            order = "; ".join(f"{i}. {_describe_field(f)}" for i, f in enumerate(self.fields, 1))
            count, scale = len(self.fields), self.fields[0].scale
            lines.append(texts["list"].format(key=LIST, count=count, scale=scale, order=order))
        else:
            for field in self.fields:
                scale = ", ".join(filter(None, (field.scale, field.description)))
                lines.append(texts["score"].format(key=field.name, scale=scale))
        keys = "only key" if len(lines) == 1 else "keys, in this order"
        begin = texts["before" if self.reasoning == "before" else "object"].format(keys=keys)
        return "".join((begin, *lines, texts["end"]))

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """An object with these keys and no others, in this order; None where text precedes it."""
        if self.reasoning == "before":
            return None
        properties: dict[str, Any] = {key: {"type": "string"} for key in self.texts}
        if self.as_list:
            count = len(self.fields)
            properties[LIST] = list_schema(self.fields[0].schema, count, count)
        else:
            properties |= {field.name: field.schema for field in self.fields}
        return object_schema(properties)

    def _read(self, reply: ReplyText) -> ScoresAnswer:
        names = (LIST,) if self.as_list else tuple(field.name for field in self.fields)
        if self.reasoning == "before":
            before, values = read_last_object(reply, names, also_allowed=("reasoning",))
            reasons = [before]
        else:
            values = read_object(reply, (*self.texts, *names))
            reasons = [_reason(values[key]) for key in self.texts]
        if self.as_list:
            due = self._list_values(values[LIST])
        else:
            due = [values[field.name] for field in self.fields]
        scores = {f.name: f.read(value) for f, value in zip(self.fields, due, strict=True)}
        return ScoresAnswer(scores, "\n\n".join(reasons))

    def _list_values(self, value: Value) -> list[Value]:
        if not isinstance(value, list):
            raise Unparsable(f'"{LIST}" is {_describe_kind(value)}, not a list')
        if len(value) != len(self.fields):
            raise Unparsable(f'"{LIST}" has {len(value)} values where {len(self.fields)} are due')
        return value


def _format_number(number: float) -> str:
    """A number, with all its digits where fewer would make it a whole one."""
    short = f"{number:g}"
    near = abs(number - round(number)) < 1e-12 * max(1.0, abs(number))
    return repr(number) if near and not number.is_integer() else short


def _describe_field(field: ScoreField) -> str:
    return f"{field.name} ({field.description})" if field.description else field.name


def _reason(value: Value) -> str:
    """A reason as text. No score depends on it, so a list of steps will do as well as a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value)


def _describe_kind(value: Value) -> str:
    if isinstance(value, tuple):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return f"{value:g}" if type(value) is float else abbreviate(value)
