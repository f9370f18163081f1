"""Contract for scores in a JSON object, with the judge's reasons before or inside it."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from .contract import INSTRUCTIONS, OutputContract, abbreviate, list_schema, object_schema
from .json_object import normalise_key, read_last_object, read_object
from .lenient_json import Value, parse_number, to_json
from .reply import Refusal, ReplyText, Unparsable
from .words import is_refusal

LIST = "score"
"""The key of the list of scores, where they stand in one."""


@dataclass(frozen=True, slots=True)
class ScoreField:
    """One score that a reply holds.

    Attributes:
        name: Key of the score in the reply; in a list, its name in the instruction.
        low: The lowest allowed score.
        high: The highest allowed score.
        integer: Whether only whole numbers are allowed; `4.0` is one.
        description: What the score rates; it is shown to the judge.
    """

    name: str
    low: float
    high: float
    integer: bool = True
    description: str = ""

    def __post_init__(self) -> None:
        if not normalise_key(self.name) or not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"a score needs a name and finite ends of its scale: {self}")
        if self.low >= self.high:
            raise ValueError(f"the scale of {self.name} is empty: {self.low:g} to {self.high:g}")
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise ValueError(f"the integer scale of {self.name} needs whole numbers as its ends")

    @property
    def scale(self) -> str:
        """The scale in words, such as "an integer from 1 to 5"."""
        kind = "an integer" if self.integer else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the score."""
        if self.integer:
            return {"type": "integer", "minimum": int(self.low), "maximum": int(self.high)}
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def read(self, value: Value) -> float:
        """Check a JSON value against the scale, and return it as a number.

        A string that holds a JSON number and nothing else counts as that number.

        Raises:
            Unparsable: The value is not a number, not finite, or not on the scale.
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
    """The scores of one reply.

    Attributes:
        scores: The score of each field, in the contract's order and on the field's scale.
        reasoning: The judge's reasons: text as it is, any other value as JSON. Empty if the
            contract asks for none.
        without: Why a field has no score. Only official scripts that read a reply fill it.
        steps: Which step of the official script found each field's score.
    """

    scores: dict[str, float]
    reasoning: str = ""
    without: dict[str, str] = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores(OutputContract[ScoresAnswer]):
    """One JSON object that holds reasons, then scores, so that the scores follow from the reasons.

    Source: KRIS-Bench asks for 1 to 5 with a reason, one score a call, and two in the joint
    call for instruction and knowledge, each with a reason of its own (figures 28 to 36);
    I2I-Bench for 1 to 5 on the style of text (appendix F, dimension 12); Co-EditBench for
    four scores of 0 to 10 in one list (tables 4 and 5).

    Attributes:
        fields: The scores, in order.
        reasoning: Where the reasons stand. True: one text under the key `reasoning`. False: no
            reasons. A tuple: the keys of several texts, which the answer joins with empty lines.
            `before`: free text before the object, for an examination in steps. There is no schema
            then, because a decoder restricted to JSON could not write that text.
        as_list: Whether the scores stand in one list under `score`, in the order of the fields.
            All fields must then share one scale.
    """

    name: ClassVar[str] = "scores"
    is_averaged: ClassVar[bool] = True
    parser: ClassVar[int] = 4

    fields: tuple[ScoreField, ...]
    reasoning: bool | tuple[str, ...] | Literal["before"] = True
    as_list: bool = False

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("the contract `scores` needs at least one field")
        if self.as_list and len({str(field.schema) for field in self.fields}) > 1:
            raise ValueError("scores in one list must share one scale")
        keys = [normalise_key(key) for key in (*self.texts, *(f.name for f in self.fields))]
        if len(set(keys)) < len(keys) or not all(keys) or (self.as_list and "score" in keys[:-1]):
            raise ValueError(f"keys must differ in letters or digits, and not be empty: {keys}")

    @property
    def texts(self) -> tuple[str, ...]:
        """Keys of the reasons inside the object."""
        if isinstance(self.reasoning, bool):
            return ("reasoning",) if self.reasoning else ()
        return () if self.reasoning == "before" else self.reasoning

    @cached_property
    def instruction(self) -> str:
        """The part of the prompt that names each key and its scale, in order."""
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

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON schema of the object; None where text precedes it.

        It allows these keys only, in this order.
        """
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
            for reason in reasons:  # a judge that is held to the form cannot decline elsewhere
                if is_refusal(re.split(r"[.!?。\n]", reason, maxsplit=1)[0]):
                    raise Refusal(reason)
        due = self._list_values(values[LIST]) if self.as_list else [values[field.name] for field in self.fields]
        scores = {f.name: f.read(value) for f, value in zip(self.fields, due, strict=True)}
        return ScoresAnswer(scores, "\n\n".join(reasons))

    def _list_values(self, value: Value) -> list[Value]:
        if not isinstance(value, list):
            raise Unparsable(f'"{LIST}" is {_describe_kind(value)}, not a list')
        if len(value) != len(self.fields):
            raise Unparsable(f'"{LIST}" has {len(value)} values, not {len(self.fields)}')
        return value


def _format_number(number: float) -> str:
    """Format a number; a number just beside a whole one gets all its digits."""
    short = f"{number:g}"
    near = abs(number - round(number)) < 1e-12 * max(1.0, abs(number))
    return repr(number) if near and not number.is_integer() else short


def _describe_field(field: ScoreField) -> str:
    return f"{field.name} ({field.description})" if field.description else field.name


def _reason(value: Value) -> str:
    """Return a reason as text; a value that is not text, such as a list of steps, becomes JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value)


def _describe_kind(value: Value) -> str:
    if isinstance(value, tuple):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return f"{value:g}" if type(value) is float else abbreviate(value)
