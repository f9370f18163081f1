"""A run's table for a terminal: its columns, the means of each judge, how far judges agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeAlias

from rich.console import Group, RenderableType
from rich.measure import Measurement
from rich.table import Table

from ..app.agreement import Figure
from ..app.published import Comparability, PublishedBeside
from ..app.spread import Agreement, JudgeSpread
from ..app.unserved import naming, need_models
from ..base.console import WIDTH, console
from ..base.words import counted
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from .table import arrow, cell_text

_Grid: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""By model and judge (none for all judges together), the text of each column."""

_FIGURES = {
    "agreement": "equal",
    "kappa": "kappa",
    "spearman": "Spearman",
    "mean_absolute_difference": "difference",
    "equal": "always equal",
    "standard_deviation": "deviation",
}
_SHARES = {"agreement", "equal"}
_BETWEEN_CELLS = 3
_NAMED = 6
"""Columns that a line names at most."""


def results_table(
    columns: Iterable[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    beside: JudgeSpread | None = None,
    width: int = WIDTH,
    decimals: int = 2,
    published: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    *,
    each_round: bool = False,
) -> RenderableType:
    """A benchmark's table, each number with its spread and its coverage.

    A row per model; where columns have groups, or that is too wide, a row per column, in as many
    tables as the models need. Where several judged, each has a row below the one of all. Grouped
    columns that ask nothing of any model are left out.

    Args:
        width: In characters.
        decimals: Of grouped columns that have none of their own.
        each_round: Show the number of every round too, as GIE-Bench's table 6 does.
        published: Rows of the paper, by name and column; they have no coverage.
    """
    columns, beside = tuple(columns), beside or JudgeSpread()
    grouped = any(column.group for column in columns)
    if grouped:
        columns = tuple(c for c in columns if any(row[c.id].asked for row in cells.values()))
    rows = _grid(columns, cells, beside, decimals if grouped else None, each_round=each_round)
    grid = dict(rows)
    for name, row in published.items():
        grid[name, ""] = [_printed(column, row.get(column.id), decimals) for column in columns]
    if not grouped:
        table = _by_model(columns, grid)
        wide = console(width=10_000)
        if Measurement.get(wide, wide.options, table).maximum <= width:
            return table
    # The paper's rows go on in further tables, the run's own stand in each.
    return _by_column(columns, grid, width, tuple(cells) if published else ())


@dataclass(frozen=True, slots=True)
class Parted:
    """The columns of a table by what there is to show of them.

    Attributes:
        told: With a number of any model, or with a reason of their own why there is none.
        unserved: They wait for models that nobody serves.
        unasked: They ask nothing of any item.
    """

    told: tuple[Column, ...]
    unserved: tuple[Column, ...]
    unasked: tuple[Column, ...]

    @classmethod
    def of(cls, columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]]) -> Self:
        """The columns, in their order."""
        told, unserved, unasked = [], [], []
        for column in columns:
            asked = [row[column.id] for row in cells.values() if row[column.id].asked]
            if not asked:
                unasked.append(column)
            elif all(_waits(cell) for cell in asked):
                unserved.append(column)
            else:
                told.append(column)
        return cls(tuple(told), tuple(unserved), tuple(unasked))

    def lines(self, run: Path) -> Iterator[str]:
        """What is left out of the table, and who names it."""
        if self.unserved:
            yield f"{need_models(len(self.unserved), 'number')}: {naming(run)}"
        # Of a paper's table what is about other tasks is not missed.
        if unasked := sum(not column.group for column in self.unasked):
            yield f"{counted(unasked, 'number asks', 'numbers ask')} nothing of any item"


def _waits(cell: Cell) -> bool:
    """Whether nothing but a service is lacking."""
    missing = {*cell.counts} <= {"not_served", "missing_output"} and "not_served" in cell.counts
    return cell.value is None and (missing or "not_served" in cell.awaits)


def _grid(
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    beside: JudgeSpread,
    decimals: int | None,
    *,
    each_round: bool,
) -> _Grid:
    grid: dict[tuple[str, str], list[str]] = {}
    ways = [_way(column, decimals) for column in columns]
    for model, row in cells.items():
        judges = beside.judges.get(model, {})
        grid[model, ""] = [w(row[c.id]) for w, c in zip(ways, columns, strict=True)]
        # A single judge is all of them.
        for judge, of in judges.items() if len(judges) > 1 else ():
            grid[model, judge] = [
                w(of[c.id]) if c.id in of else "" for w, c in zip(ways, columns, strict=True)
            ]
        for judge, of in judges.items() if each_round else ():
            many = len(judges) > 1
            for number in range(beside.rounds):
                values = (_of_round(of.get(c.id), number) for c in columns)
                label = f"{judge}, round {number + 1}" if many else f"run {number + 1}"
                grid[model, label] = [
                    _number(value, column, decimals)
                    for value, column in zip(values, columns, strict=True)
                ]
    return grid


def _of_round(cell: Cell | None, number: int) -> float | None:
    return cell.rounds[number] if cell and number < len(cell.rounds) else None


def _number(value: float | None, column: Column, decimals: int | None) -> str:
    """A value as its column's cells have it, without coverage; "" for none."""
    if value is None:
        return ""
    own = decimals if column.decimals is None else column.decimals
    return f"{value:.4g}" if own is None or decimals is None else f"{value + 0.0:.{own}f}"


def _way(column: Column, decimals: int | None) -> Callable[[Cell], str]:
    """The function that writes a column's cells: as papers print where columns have groups."""
    if decimals is None:
        return cell_text
    own = decimals if column.decimals is None else column.decimals
    return partial(cell_text, decimals=own)


def _printed(column: Column, number: float | None, decimals: int) -> str:
    """A number as the paper prints it."""
    places = decimals if column.decimals is None else column.decimals
    return "" if number is None else f"{number:.{places}f}"


def comparability(beside: PublishedBeside) -> Iterator[str]:
    """Which columns can be compared with the printed ones, and why, a line for each reason."""
    if not beside.shown:
        yield f"{beside.title} prints nothing of what was asked for"
    said: dict[Comparability, list[str]] = {}
    for column in beside.shown:
        titles = said.setdefault(beside.columns[column.id], [])
        if column.title not in titles:
            titles.append(column.title)
    for verdict, titles in said.items():
        can = "can be compared" if verdict.comparable else "cannot be compared"
        yield f"- {can} with what is printed: {', '.join(titles)} ({verdict.why})"


def _by_model(columns: Sequence[Column], grid: _Grid) -> Table:
    table = _headed(["model"], [_titled(column) for column in columns])
    for (model, judge), texts in grid.items():
        table.add_row(_label(model, judge), *texts, style="dim" if judge else "")
    return table


def _by_column(
    columns: Sequence[Column], grid: _Grid, width: int, always: Collection[str]
) -> Group:
    """The groups of columns, or nothing where they have none, then their titles, then models.

    Args:
        always: Models that stand in every table, where half of it is enough for them.
    """
    judges = list(dict.fromkeys(judge for _, judge in grid))
    titles = [_label(_titled(column), judge) for column in columns for judge in judges]
    groups = [column.group for column in columns]
    grouped = any(groups)
    names = ["", "metric"] if grouped else ["metric"]
    taken = sum(max(map(len, texts)) + _BETWEEN_CELLS for texts in (titles, groups) if any(texts))
    tables = []
    for models in _that_fit(grid, width - taken - 1, always):
        table = _headed(names, models)
        above: str | None = None
        for i, column in enumerate(columns):
            for judge in judges:
                texts = [_text(grid, model, judge, i) for model in models]
                if not any(texts):
                    continue
                first = groups[i] != above
                if first and above is not None:
                    table.add_section()
                above = groups[i]
                label = _label(_titled(column), judge)
                group = [column.group if first else ""] if grouped else []
                table.add_row(*group, label, *texts, style="dim" if judge else "")
        tables.append(table)
    return Group(*tables)


def _text(grid: _Grid, model: str, judge: str, i: int) -> str:
    """Of a column; empty where a model has no row of that judge."""
    return grid[model, judge][i] if (model, judge) in grid else ""


def _that_fit(grid: _Grid, width: int, always: Collection[str]) -> Iterator[list[str]]:
    """The models, as many at once as there is room for; at least one."""
    widths: dict[str, int] = {}
    for (model, _), texts in grid.items():
        longest = max(map(len, (model, *texts))) + _BETWEEN_CELLS
        widths[model] = max(widths.get(model, 0), longest)
    kept = [model for model in widths if model in always]
    if sum(widths[model] for model in kept) > width // 2:
        kept = []
    some = list(kept)
    for model, size in widths.items():
        if model in kept:
            continue
        if len(some) > len(kept) and sum(widths[name] for name in some) + size > width:
            yield some
            some = list(kept)
        some.append(model)
    if some:
        yield some


def reasons(columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]]) -> tuple[str, ...]:
    """Why cells have no number, one line for each reason with the columns and models it is of."""
    titles_by_reason: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for column in columns:
        by_reason: dict[str, list[str]] = {}
        for model, row in cells.items():
            cell = row[column.id]
            if cell.value is None and cell.asked:
                by_reason.setdefault(_why(cell), []).append(model)
        for why, models in by_reason.items():
            of_models = titles_by_reason.setdefault(why, {})
            of_models.setdefault(tuple(models), []).append(_full(column))
    return tuple(
        f"- {why}: {', '.join(titles)} ({', '.join(models)})"
        for why, of_models in titles_by_reason.items()
        for models, titles in of_models.items()
    )


def without_intervals(
    columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]]
) -> Iterator[str]:
    """Why numbers have no interval, one line for each reason with the columns it is of."""
    titles: dict[str, dict[str, None]] = {}
    for column in columns:
        for row in cells.values():
            interval = row[column.id].interval
            if interval and interval.half is None:
                titles.setdefault(interval.reason, {})[_full(column)] = None
    for reason, of in titles.items():
        yield f"- without interval: {reason}: {_some([*of])}"


def _some(titles: Sequence[str]) -> str:
    more = len(titles) - _NAMED
    return ", ".join(titles[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _full(column: Column) -> str:
    return f"{column.group}: {column.title}" if column.group else column.title


def _why(cell: Cell) -> str:
    counts = {status: n for status, n in cell.counts.items() if n and status != "scored"}
    if not counts:
        return cell.reason
    return f"{cell.reason} ({', '.join(f'{n:,} {s}'.replace('_', ' ') for s, n in counts.items())})"


def agreement_tables(agreements: Iterable[Agreement]) -> Group:
    """How far each two judges agree, and each over its rounds; reasons stand below."""
    agreements = tuple(agreements)
    kinds = {
        "Two judges, over the edits of all models that both gave a number": 2,
        "One judge, over its rounds": 1,
    }
    parts = ((title, [a for a in agreements if len(a.judges) == n]) for title, n in kinds.items())
    return Group(*(_agreement_table(title, some) for title, some in parts if some))


def _agreement_table(title: str, agreements: Sequence[Agreement]) -> Table:
    names = [name for name in _FIGURES if any(name in a.figures for a in agreements)]
    why = dict.fromkeys(f.reason for a in agreements for f in a.figures.values() if f.reason)
    marks = {reason: "*" * number for number, reason in enumerate(why, 1)}
    table = _headed(["dimension", "judged by"], ["edits", *(_FIGURES[name] for name in names)])
    above = ""
    for agreement in agreements:
        dimension = agreement.dimension if agreement.dimension != above else ""
        above = agreement.dimension
        texts = (_figure(name, agreement.figures.get(name), marks) for name in names)
        table.add_row(dimension, ", ".join(agreement.judges), f"{agreement.edits:,}", *texts)
    table.title, table.title_justify = title, "left"
    table.caption = "\n".join(f"{mark} {reason}" for reason, mark in marks.items()) or None
    table.caption_justify = "left"
    return table


def _figure(name: str, figure: Figure | None, marks: Mapping[str, str]) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return f"-{marks[figure.reason]}"
    return f"{figure.value:.1%}" if name in _SHARES else f"{figure.value:.3f}"


def _headed(names: Iterable[str], titles: Iterable[str]) -> Table:
    """A table of numbers, its first columns for names."""
    table = Table()
    for name in names:
        table.add_column(name, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right")
    return table


def _titled(column: Column) -> str:
    return f"{column.title} {arrow(column.higher_is_better)}"


def _label(text: str, judge: str) -> str:
    return f"  {judge}" if judge else text
