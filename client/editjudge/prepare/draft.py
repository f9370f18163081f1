"""Data that is being prepared: `items.jsonl` of any benchmark, before it is complete."""

from __future__ import annotations

from functools import cache

from pydantic import ConfigDict, model_validator

from ..benchmarks.items import ItemsFile, Line


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


@cache
def _known() -> tuple[str, ...]:
    """Every field that a line of some benchmark has."""
    from ..benchmarks.registry import benchmarks

    reads = [one.data for one in benchmarks().values()]
    lines = [one.line for one in reads if isinstance(one, type) and issubclass(one, ItemsFile)]
    return tuple(dict.fromkeys(name for line in lines for name in line.model_fields))
