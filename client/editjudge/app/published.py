"""The rows of a paper's tables that belong beside a run's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as result

from ..base.strict import STRICT
from ..benchmarks.column import Column
from ..benchmarks.published import PublishedTable, published

if TYPE_CHECKING:
    from .results import Results


@result(frozen=True, slots=True, config=STRICT)
class Comparability:
    """Whether a column's number can be compared with the printed one.

    Attributes:
        comparable: By the switches that are on.
        why: What makes it comparable, or keeps it apart.
    """

    comparable: bool
    why: str


@result(frozen=True, slots=True, config=STRICT)
class PublishedBeside:
    """What a paper prints of a run's columns; it is in no number of the run.

    Attributes:
        title: Of the benchmark.
        shown: The run's own columns that the paper prints too.
        tables: With these columns alone; a table that has none is left out.
        columns: By column id.
    """

    title: Annotated[str, Field(exclude=True)]
    shown: Annotated[tuple[Column, ...], Field(exclude=True)]
    tables: tuple[PublishedTable, ...]
    columns: Mapping[str, Comparability]

    def columns_of(self, table: PublishedTable) -> tuple[Column, ...]:
        """The run's columns that a table has."""
        named = {name for row in table.models.values() for name in row}
        return tuple(column for column in self.shown if column.id in named)


def published_beside(results: Results) -> PublishedBeside:
    """What the paper prints of the columns of a run's table.

    Raises:
        ConfigError: nothing is kept of what it prints.
    """
    printed = published(results.benchmark.name)
    named = {name for table in printed.tables for row in table.models.values() for name in row}
    columns = tuple(column for column in results.columns if column.id in named)
    ids = {column.id for column in columns}
    tables = (
        replace(
            table,
            models={
                model: {name: number for name, number in row.items() if name in ids}
                for model, row in table.models.items()
            },
        )
        for table in printed.tables
    )
    said = {name: printed.comparison(name) for name in sorted(ids)}
    return PublishedBeside(
        printed.title,
        columns,
        tuple(table for table in tables if any(table.models.values())),
        {name: Comparability(one.holds(results.switches), one.why) for name, one in said.items()},
    )
