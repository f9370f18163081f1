"""Data that is being prepared: `items.jsonl` of any benchmark, before it is complete."""

from __future__ import annotations

from functools import cache

from pydantic import ConfigDict, model_validator

from ..benchmarks.items import ItemsFile, Line
from ..benchmarks.registry import benchmarks


class Draft(Line):
    """One line, of whichever benchmark.

    Fields of a benchmark's own are kept as they are and not looked at, and neither is what a
    benchmark demands: a line may lack the very mask that is to be made.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="after")
    def _of_some_benchmark(self) -> Draft:
        known = _known()
        for name in self.model_extra or {}:
            if name not in known:
                raise ValueError(f"{name}: no such field (there are {', '.join(known)})")
        return self


class DraftData(ItemsFile):
    """Lines of whichever benchmark."""

    name = "draft"
    line = Draft


def why_no_mask(line: Line) -> str:
    """Why a line needs no mask by some benchmark; "" where one can be of use."""
    reasons = (kind.why_no_mask(dict(line)) for kind in _kinds())
    return next(filter(None, reasons), "")


def by_its_mask(line: Line, shows: str, phrase: str) -> dict[str, str]:
    """What some benchmark's line takes of the words for what is white in its mask."""
    fields = {**dict(line), "mask_shows": shows}
    taken: dict[str, str] = {}
    for kind in _kinds():
        taken.update(kind.by_its_mask(fields, phrase))
    return taken


@cache
def _kinds() -> tuple[type[Line], ...]:
    """The lines of every benchmark."""
    readers = [benchmark.data for benchmark in benchmarks().values()]
    return tuple(r.line for r in readers if isinstance(r, type) and issubclass(r, ItemsFile))


@cache
def _known() -> tuple[str, ...]:
    """Every field that a line of some benchmark has."""
    return tuple(dict.fromkeys(name for kind in _kinds() for name in kind.model_fields))
