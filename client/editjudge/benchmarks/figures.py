"""The figures of papers, and which columns each of them shows.

Each benchmark's `figures.toml` names them.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal, TypeAlias

from pydantic.dataclasses import dataclass as result

from ..base.parse import package_tables
from ..base.strict import STRICT
from .column import Column

Kind: TypeAlias = Literal["radar", "tasks", "lines", "turns", "scatter"]


@result(frozen=True, slots=True, config=STRICT)
class FigurePanel:
    """One plot in a figure.

    Attributes:
        title: Above it; empty for none.
        columns: Ids or globs of ids: the axes of a radar, the bars of tasks, the points of lines,
            the turns in order, x and y of a scatter.
    """

    title: str
    columns: tuple[str, ...]

    def select_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return the columns of a table that the plot shows, in its order."""
        return tuple(column for pattern in self.columns for column in columns if fnmatchcase(column.id, pattern))


@result(frozen=True, slots=True, config=STRICT)
class Figure:
    """A figure of a paper.

    Attributes:
        source: Which it is, or after which it is made.
        by_group: Columns are called by their group and not by their title.
        relative: Each column goes from the worst number to the best, of the paper's and those
            drawn: columns of different units share a plot. Otherwise all share a scale from 0.
        top: Where that scale ends; None for a little above the largest number.
    """

    kind: Kind
    source: str
    panels: tuple[FigurePanel, ...]
    by_group: bool = False
    relative: bool = False
    top: float | None = None

    def name(self, column: Column) -> str:
        """Return the label of a column in the figure."""
        return column.group if self.by_group else column.title


@cache
def load_figures(benchmark: str) -> tuple[Figure, ...]:
    """Load the figures of a benchmark's paper; empty if it has no paper."""
    try:
        tables = package_tables(__package__, f"{benchmark}/figures.toml")
    except FileNotFoundError:
        return ()
    return tuple(Figure(**figure) for figure in tables["figures"])
