"""Items of a preparation: lines of any benchmark, and the result for each."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, model_validator

from ..answers.json_object import normalise_key
from ..answers.questions import ChoiceQuestion, QuestionAnswer
from ..base.identity import ServiceName
from ..base.parse import package_tables
from ..benchmarks.dataset import ItemRef, Problem
from ..benchmarks.items import ItemsFile, Line
from ..benchmarks.registry import load_benchmarks
from ..benchmarks.texts import is_blank

JUDGE = ServiceName.judge("judge")
What: TypeAlias = Literal["instructions", "choice", "facts", "masks"]
Status: TypeAlias = Literal["made", "not_found", "had", "unsuited", "failed", "left"]
_TABLES = package_tables(__package__, "tables.toml")
STATUSES: Mapping[Status, str] = _TABLES["statuses"]
"""Descriptions of the statuses, in the order of a summary."""
CANDIDATE, ORIGIN, WHOLE = "candidate", "candidate_of", "candidate_type"
"""The fields of a line's `extra` that say which of several instructions for an item it has, from 1, and of which type
the item is that has parts."""
_TYPES = package_tables(__package__, "edit_types.toml")
TASKS: Mapping[str, str] = {normalise_key(name): kind for kind, of in _TYPES.items() for name in of["names"]}
"""The edit types by task name, in the form of `normalise_key`."""
TO_REVIEW = frozenset[Status]({"made", "not_found"})
"""The statuses of items that a reviewer must accept or reject."""
FIELDS: Mapping[What, Sequence[str]] = _TABLES["fields"]
"""The fields of `items.jsonl` that are filled; the first is the generated one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of a preparation for one item.

    Attributes:
        status: `made`; `not_found` (no target object in the image, so there is no mask); `had`
            (it came with them); `unsuited` (no mask is defined for several sources, and none is
            needed for an edit of the whole image); `failed` (asked again by the next call);
            `left` (beyond `--limit`).
        reason: Why nothing was generated, in one line.
        instruction: The generated instruction.
        questions: The generated questions.
        mask: A PNG at the source's size, white on what the judge named.
        mask_shows: Whether white is what is `edited` or what is `kept`.
        phrases: What is white in the mask, as the judge named it; several things may be.
        notes: Notes for reviewers, as (label, text).
    """

    status: Status
    reason: str = ""
    instruction: str = ""
    questions: tuple[ChoiceQuestion | QuestionAnswer, ...] = ()
    mask: bytes | None = None
    mask_shows: Literal["edited", "kept"] = "edited"
    phrases: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class Draft(Line):
    """A line of `items.jsonl` of any benchmark.

    A benchmark's own fields are passed on unchecked. Fields that a benchmark requires may be
    missing, for example the mask that is to be generated.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="after")
    def _of_some_benchmark(self) -> Self:
        fields = _fields()
        for name in self.model_extra or {}:
            if name not in fields:
                raise ValueError(f"{name}: no such field (there are {', '.join(fields)})")
        return self


class DraftData(ItemsFile):
    """An items file of any benchmark.

    Args:
        candidates: How many items an item without an instruction becomes; by default one, or one for each part of
            its type.
    """

    name = "draft"
    line = Draft

    def __init__(self, path: Path, roots: Mapping[str, str] | None = None, candidates: int = 1) -> None:
        super().__init__(path, roots)
        self._candidates = candidates

    def _read(self, only: Container[int] | None = None, problems: list[Problem] | None = None) -> Iterator[ItemRef]:
        lines = ((ref, line) for ref in super()._read(None, problems) for line in self._split(ref.data))
        for index, (ref, line) in enumerate(lines):
            if only is None or index in only:
                yield replace(ref, id=line.id, index=index, texts=line.texts, data=line)

    def _split(self, line: Line) -> Sequence[Line]:
        parts = find_type(line.task).get("parts", ())
        count = max(self._candidates, len(parts))
        if count == 1 or not is_blank(line.instruction):
            return [line]
        extra = {**(line.extra or {}), ORIGIN: line.id} | ({WHOLE: line.task} if parts else {})
        tasks = islice(cycle(parts or [line.task]), count)
        return [
            line.model_copy(update={"id": f"{line.id}--{n}", "task": task, "extra": extra | {CANDIDATE: n}})
            for n, task in enumerate(tasks, 1)
        ]


def find_type(task: str) -> Mapping[str, Any]:
    """Find the row of an edit type; one that nobody declared says its own name."""
    row: Mapping[str, Any] | None = _TYPES.get(TASKS.get(normalise_key(task), ""))
    return row or {"is": task.strip() or "Any that suits the picture."}


def why_no_mask(line: Line) -> str:
    """Say why a line needs no mask in some benchmark; "" where a mask can be of use."""
    reasons = (kind.why_no_mask(dict(line)) for kind in _kinds())
    return next(filter(None, reasons), "")


@cache
def _kinds() -> tuple[type[Line], ...]:
    """The lines of every benchmark."""
    readers = [benchmark.data for benchmark in load_benchmarks().values()]
    return tuple(r.line for r in readers if isinstance(r, type) and issubclass(r, ItemsFile))


@cache
def _fields() -> tuple[str, ...]:
    """Every field that a line of some benchmark has."""
    return tuple(dict.fromkeys(name for kind in _kinds() for name in kind.model_fields))
