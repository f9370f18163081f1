"""Scores as the official scripts of KRIS-Bench find them in a reply."""

import json
import re
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from .contract import OutputContract, abbreviate
from .scores import ScoresAnswer

_Values: TypeAlias = dict[str, int | None]
_FLAGS = re.IGNORECASE | re.DOTALL
_ANYWHERE = {
    "n/5": re.compile(r"([1-5])\s*/\s*5", _FLAGS),
    "n out of 5": re.compile(r"([1-5])\s+out\s+of\s+5", _FLAGS),
    "first digit": re.compile(r"\b([1-5])\b", _FLAGS),
}


@dataclass(frozen=True)
class FirstDigit(OutputContract[ScoresAnswer]):
    """Scores as the official KRIS-Bench scripts read them, defects included.

    The first `{…}` without inner braces that holds the first key is read as JSON, and its values
    pass through `int()`, so 4.9 becomes 4. If that fails, each key is searched in the text, then
    `n/5`, then `n out of 5`, then the first standalone digit from 1 to 5 anywhere, so the number of
    a list item may become the score. No reply is refused, so none is requested again. A key without
    a score has a reason. `steps` are `json`, `prefix`, `n/5`, `n out of 5`, `first digit`.

    One thing differs: a number in JSON that is not on the scale, which the official code accepts,
    is no score here.

    Source: KRIS-Bench, `metrics_common.py` and the four other `metrics_*.py`.

    Attributes:
        keys: Keys of the scores; the first one identifies the JSON object.
        colon: Whether a colon after a key in text is `required` or `optional`; None if keys are not
            searched in text.
        anywhere: Whether `n/5` and the later steps are tried.
        null_ends: Whether `null` in the JSON object means that there is no score; otherwise the
            search goes on in the text.
        low: The lowest score.
        high: The highest score.
    """

    name: ClassVar[str] = "first_digit"
    parser: ClassVar[int] = 2
    reads_words: ClassVar[bool] = False
    is_averaged: ClassVar[bool] = True

    keys: tuple[str, ...]
    colon: Literal["required", "optional"] | None = None
    anywhere: bool = True
    null_ends: bool = False
    low: int = 1
    high: int = 5

    def parse(self, reply: str, *, cut: bool = False) -> ScoresAnswer:
        """Read the scores that can be found; a reply without any raises no error."""
        json_values = self._read_json(reply)
        read = ScoresAnswer({})
        for key in self.keys:
            value, how = self._find_score(key, json_values, reply)
            if value is None:
                read.without[key] = f"the official reader finds no {key}"
            elif not self.low <= value <= self.high:
                read.without[key] = (
                    f"the official reader takes {abbreviate(value)} for {key}, which is not on the"
                    f" scale of {self.low} to {self.high}"
                )
            else:
                read.scores[key], read.steps[key] = float(value), how
        return read

    def _find_score(self, key: str, values: _Values | None, reply: str) -> tuple[int | None, str]:
        if values is not None and (values[key] is not None or self.null_ends):
            return values[key], "json"
        patterns = {"prefix": self._prefix(key)} if self.colon else {}
        for how, pattern in (patterns | (_ANYWHERE if self.anywhere else {})).items():
            if match := pattern.search(reply):
                return int(match[1]), how
        return None, ""

    def _read_json(self, reply: str) -> _Values | None:
        match = re.search(r"\{(?=[^{}]*+\})[^{}]*" + re.escape(self.keys[0]) + r"[^{}]*+\}", reply)
        if match is None:
            return None
        try:
            members = json.loads(match[0])
            values = {key: members.get(key) for key in self.keys}
            return {key: None if value is None else int(value) for key, value in values.items()}
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None

    def _prefix(self, key: str) -> re.Pattern[str]:
        colon = r"[:\uff1a]" if self.colon == "required" else r"[:\uff1a]?"
        stem = re.escape(key.removesuffix("_score"))
        return re.compile(rf"{stem}[_\s]*+score\s*+{colon}\s*+([1-5])", _FLAGS)
