"""The rows of a paper's tables that belong beside a run's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..benchmarks.column import Column
from ..benchmarks.published import PublishedTable, published
from .results import Results


@dataclass(frozen=True, slots=True)
class Comparability:
    """Whether a column's number can be compared with the printed one.

    Attributes:
        comparable: By the switches that are on.
        why: What makes it comparable, or keeps it apart.
    """

    comparable: bool
    why: str


@dataclass(frozen=True, slots=True)
class PublishedBeside:
    """What a paper prints of a run's columns.

    Attributes:
        title: Of the benchmark.
        columns: The run's own that the paper prints too.
        tables: With these columns alone; a table that has none is left out.
        comparability: By column id.
    """

    title: str
    columns: tuple[Column, ...]
    tables: tuple[PublishedTable, ...]
    comparability: Mapping[str, Comparability]

    def columns_of(self, table: PublishedTable) -> tuple[Column, ...]:
        """The run's columns that a table has."""
        named = {name for row in table.models.values() for name in row}
        return tuple(column for column in self.columns if column.id in named)


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
