"""A run's table and what is said around it: columns, spread over judges, agreement, notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from rich.cells import cell_len

from ..app.agreement import Statistic
from ..app.dimensions import models_needed, unserved_command
from ..app.judge_spread import Agreement, JudgeSpread
from ..app.results import Comparability, PublishedNumbers, Results
from ..base.console import WIDTH
from ..base.errors import ConfigError
from ..base.identity import untrained_services
from ..base.text import format_count, shorten_list
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from .numbers import (
    choose_decimals,
    direction_arrow,
    explain_signs,
    format_cell,
    format_decimals,
    format_pending_warning,
    rank_best_two,
)
from .table import Heading, Number, Row, Table, TextFormat

_Grid: TypeAlias = Mapping[tuple[str, str], Sequence[Number]]
"""By model and judge (none for all judges together), the number of each column."""
_NOTHING = Number("")
_FIGURES = {
    "agreement": ("equal", ".1%"),
    "kappa": ("kappa", ".3f"),
    "spearman": ("Spearman", ".3f"),
    "mean_absolute_difference": ("difference", ".3f"),
    "equal": ("always equal", ".1%"),
    "standard_deviation": ("deviation", ".3f"),
}
"""How people call figures of agreement, and the form of their numbers."""
_BETWEEN_CELLS = 3
_NAMED = 6
"""Columns that a line names at most."""
_WIDE = 6
"""Columns that fit on a page; more of them become rows where there are fewer models."""
_NUMBERS = (
    *("model", "column", "group", "title", "value", "deviation", "scored", "asked", "imputed"),
    *("low", "high", "error", "clusters", "method", "capped", "other_items"),
)


def select_columns(
    results: Results, columns: Collection[str] = (), models: Collection[str] = ()
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns and models that are meant.

    Args:
        columns: Globs of ids or titles, parts of ids, or words that stand in group, title and id;
            by default all that ask anything of any model.
        models: Names, in the order of the table; by default all.

    Raises:
        ConfigError: a name or glob matches none.
    """
    for model in models:
        if model not in results.models:
            raise ConfigError(f"no model {model}", f"models: {', '.join(results.models)}")
    for pattern in columns:
        if not any(_is_meant(column, [pattern]) for column in results.columns):
            titles = ", ".join(column.title for column in results.columns[:6])
            mend = f"give an id, a part of one, a title or a glob: {titles}"
            raise ConfigError(f"no column {pattern}", mend)
    names = tuple(models) or tuple(results.models)
    matches = (c for c in results.columns if not columns or _is_meant(c, columns))
    return tuple(c for c in matches if any(results.models[n][c.id].asked for n in names)), names


def _is_meant(column: Column, patterns: Iterable[str]) -> bool:
    names = (column.id.casefold(), column.title.casefold())
    parts = column.id.casefold().split(".")[1:]
    words = f"{column.group} {column.title} {column.id}".casefold()
    return any(
        pattern in parts
        or any(fnmatchcase(name, pattern) for name in names)
        or all(word in words for word in pattern.split())
        for pattern in map(str.casefold, patterns)
    )


def narrow_results(
    results: Results, columns: Collection[str] = (), models: Collection[str] = ()
) -> Results:
    """The table with these columns and models alone; with all where none are named.

    Raises:
        ConfigError: a name or glob matches none; see `chosen`.
    """
    if not columns and not models:
        return results
    selected_columns, names = select_columns(results, columns, models)
    ids = {column.id for column in selected_columns}

    def of_ids(row: Mapping[str, Cell]) -> dict[str, Cell]:
        return {name: cell for name, cell in row.items() if name in ids}

    dimension_ids = {name for column in selected_columns for name in column.dimensions}
    return replace(
        results,
        columns=selected_columns,
        models={name: of_ids(results.models[name]) for name in names},
        judges={
            name: {judge: of_ids(row) for judge, row in results.judges[name].items()}
            for name in names
            if name in results.judges
        },
        agreement=tuple(one for one in results.agreement if one.dimension in dimension_ids),
    )


def format_results(results: Results, form: TextFormat) -> str:
    """The table as text, best numbers bold and second ones underlined.

    Of each number that not all edits asked about have a part in, a footnote says how many have.

    Args:
        form: `latex` needs the package booktabs; `csv` has each number unrounded.
    """
    return (build_numbers_table if form == "csv" else build_paper_table)(results).to_text(form)


def build_paper_table(results: Results) -> Table:
    """Build the table as papers print it, with notes on coverage and intervals."""
    selected_columns, names = select_columns(results)
    by_column = [format_column(results, column, names) for column in selected_columns]
    rows = zip(*by_column, strict=True) if by_column else ((),) * len(names)
    grid = {(name, ""): row for name, row in zip(names, rows, strict=True)}
    has_groups = any(column.group for column in selected_columns)
    as_rows = has_groups or len(selected_columns) > max(_WIDE, len(names))
    table = (
        _by_column(selected_columns, grid, names) if as_rows else _by_model(selected_columns, grid)
    )
    notes, about = tuple(_notes(results, selected_columns, names)), tuple(_made_of(results))
    return replace(table, notes=notes, about=about)


def format_column(results: Results, column: Column, models: Sequence[str]) -> list[Number]:
    """The numbers of one column, with the best and the second."""
    cells = [results.models[model][column.id] for model in models]
    decimals = _decimals(results, column, cells)
    texts = ["-" if cell.value is None else format_decimals(cell.value, decimals) for cell in cells]
    values = [cell.value for cell in cells]
    places = rank_best_two(texts, values, higher_is_better=column.higher_is_better)
    return [format_cell(cell, decimals, place) for cell, place in zip(cells, places, strict=True)]


def _decimals(results: Results, column: Column, cells: Sequence[Cell]) -> int:
    """As the paper prints; where there is no such table, as many as the numbers carry."""
    if column.decimals is not None:
        return column.decimals
    return results.benchmark.decimals if results.benchmark.table else choose_decimals(cells)


def _made_of(results: Results) -> Iterator[str]:
    switches = f" with {', '.join(sorted(results.switches))}" if results.switches else ""
    title = ", ".join(filter(None, [results.benchmark.title, results.protocol]))
    yield f"{title}{switches}, {results.items:,} items"
    yield from (f"{role}: {identity}" for role, identity in results.services.items())


def _notes(results: Results, columns: Sequence[Column], models: Sequence[str]) -> Iterator[str]:
    cells = [results.models[model][column.id] for model in models for column in columns]
    if names := untrained_services(results.services):
        yield f"UNTRAINED weights, not a result: {', '.join(map(str, names))}"
    yield from explain_signs(cells, mend=False)
    if any(cell.sd is not None for cell in cells):
        yield "sd: standard deviation over rounds"
    yield from describe_counting(results)


def describe_counting(results: Results) -> Iterator[str]:
    """Which edits count otherwise than usual, or not yet."""
    rows = results.models.values()
    if pending := sum(
        max((c.counts.get("pending", 0) for c in r.values()), default=0) for r in rows
    ):
        yield format_pending_warning(pending)
    if results.count_missing:
        yield "missing outputs count as the worst value of each metric"
    if results.common:
        yield "each dimension counts the items alone on which all models have a number"


def build_numbers_table(results: Results) -> Table:
    """Build the table of unrounded numbers: a row for each model and column."""
    columns, models = select_columns(results)
    rows = []
    for model in models:
        for column in columns:
            cell = results.models[model][column.id]
            of = cell.interval
            interval = (of.low, of.high, of.error, of.clusters, of.method) if of else (None,) * 5
            names = (model, column.id, column.group, column.title)
            counts = (cell.scored, cell.asked, cell.imputed)
            further = (cell.capped, int(cell.other_items))
            rows.append(Row((*names, cell.value, cell.sd, *counts, *interval, *further)))
    return Table([Heading(name) for name in _NUMBERS], rows)


def build_results_tables(
    columns: Iterable[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    beside: JudgeSpread | None = None,
    width: int = WIDTH,
    decimals: int = 2,
    published_rows: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    *,
    each_round: bool = False,
) -> tuple[Table, ...]:
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
    has_groups = any(column.group for column in columns)
    if has_groups:
        columns = tuple(c for c in columns if any(row[c.id].asked for row in cells.values()))
    usual = decimals if has_groups or published_rows else None
    grid = _grid(columns, cells, beside, published_rows, usual, each_round=each_round)
    if not has_groups:
        table = _by_model(columns, grid)
        if _width(table) <= width:
            return (table,)
    # The paper's rows go on in further tables, the run's own stand in each.
    always = tuple(cells) if published_rows else ()
    names = _width(_by_column(columns, grid, ()))
    split = _that_fit(grid, width - names, always)
    return tuple(_by_column(columns, grid, models) for models in split)


def drop_empty_columns(
    columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]], run: Path
) -> tuple[tuple[Column, ...], list[str]]:
    """The columns that have a number of any model, or a reason of their own why there is none.

    Returns:
        With them what is left out, and who names it, a line each.
    """
    filled_columns, without_services, without_items = [], 0, 0
    for column in columns:
        asked_cells = [row[column.id] for row in cells.values() if row[column.id].asked]
        if not asked_cells:
            # Of a paper's table what is about other tasks is not missed.
            without_items += not column.group
        elif all(_waits(cell) for cell in asked_cells):
            without_services += 1
        else:
            filled_columns.append(column)
    lines = (
        [f"{models_needed(without_services, 'number')}: {unserved_command(run)}"]
        if without_services
        else []
    )
    if without_items:
        lines.append(
            f"{format_count(without_items, 'number asks', 'numbers ask')} nothing of any item"
        )
    return tuple(filled_columns), lines


def _waits(cell: Cell) -> bool:
    """Whether nothing but a service is lacking."""
    missing = {*cell.counts} <= {"not_served", "missing_output"} and "not_served" in cell.counts
    return cell.value is None and (missing or "not_served" in cell.open_statuses)


def _grid(
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    beside: JudgeSpread,
    published_rows: Mapping[str, Mapping[str, float]],
    decimals: int | None,
    *,
    each_round: bool,
) -> dict[tuple[str, str], list[Number]]:
    """The numbers, as papers print them where there are decimals."""
    grid: dict[tuple[str, str], list[Number]] = {}
    places = {
        c.id: decimals if decimals is None or c.decimals is None else c.decimals for c in columns
    }

    def whole(row: Mapping[str, Cell]) -> list[Number]:
        return [
            format_cell(row[name], n) if name in row else _NOTHING for name, n in places.items()
        ]

    def bare(row: Mapping[str, float | None]) -> list[Number]:
        values = ((row.get(name), n) for name, n in places.items())
        return [
            _NOTHING if value is None else Number(format_decimals(value, n)) for value, n in values
        ]

    for model, row in cells.items():
        grid[model, ""] = whole(row)
        judges = beside.judges.get(model, {})
        several = len(judges) > 1
        if several:  # a single judge is all of them
            grid |= {(model, judge): whole(of) for judge, of in judges.items()}
        for judge, of in judges.items() if each_round else ():
            for n in range(beside.rounds):
                label = f"{judge}, round {n + 1}" if several else f"run {n + 1}"
                judged_rounds = {name: cell for name, cell in of.items() if n < len(cell.rounds)}
                grid[model, label] = bare(
                    {name: cell.rounds[n] for name, cell in judged_rounds.items()}
                )
    return grid | {(name, ""): bare(numbers) for name, numbers in published_rows.items()}


def describe_comparability(beside: PublishedNumbers) -> Iterator[str]:
    """Which columns can be compared with the printed ones, and why, a line for each reason."""
    if not beside.shared_columns:
        yield f"{beside.title} prints nothing of what was asked for"
    titles_by_verdict: dict[Comparability, list[str]] = {}
    for column in beside.shared_columns:
        titles = titles_by_verdict.setdefault(beside.columns[column.id], [])
        if column.title not in titles:
            titles.append(column.title)
    for verdict, titles in titles_by_verdict.items():
        can = "can be compared" if verdict.comparable else "cannot be compared"
        yield f"- {can} with what is printed: {', '.join(titles)} ({verdict.why})"


def _by_model(columns: Sequence[Column], grid: _Grid) -> Table:
    """A row for each model and judge."""
    heads = (
        Heading("model"),
        *(Heading(_title_with_arrow(column), right=True) for column in columns),
    )
    rows = [
        Row((_label(model, judge), *numbers), "dim" if judge else "")
        for (model, judge), numbers in grid.items()
    ]
    return Table(heads, rows)


def _by_column(columns: Sequence[Column], grid: _Grid, models: Sequence[str]) -> Table:
    """A row for each column and judge; the groups of columns first, where they have any."""
    judges = list(dict.fromkeys(judge for _, judge in grid))
    has_groups = any(column.group for column in columns)
    rows = []
    for place, column in enumerate(columns):
        group = [column.group] if has_groups else []
        for judge in judges:
            of = (grid.get((model, judge)) for model in models)
            numbers = [_NOTHING if row is None else row[place] for row in of]
            if not models or any(one.text for one in numbers):
                label = _label(_title_with_arrow(column), judge)
                rows.append(Row((*group, label, *numbers), "dim" if judge else ""))
    names = [Heading("")] if has_groups else []
    heads = (*names, Heading("metric"), *(Heading(model, right=True) for model in models))
    return Table(heads, rows, has_groups=has_groups)


def _width(table: Table) -> int:
    """Of a table on a terminal, in characters."""
    columns = zip(
        [head.title for head in table.heads], *(row.cells for row in table.rows), strict=True
    )
    return 1 + sum(max(cell_len(str(one)) for one in c) + _BETWEEN_CELLS for c in columns)


def _that_fit(grid: _Grid, width: int, always: Collection[str]) -> Iterator[list[str]]:
    """The models, as many at once as there is room for; at least one.

    Args:
        always: Models that stand in every table, where half of it is enough for them.
    """
    widths: dict[str, int] = {}
    for (model, _), numbers in grid.items():
        longest = max(cell_len(str(text)) for text in (model, *numbers)) + _BETWEEN_CELLS
        widths[model] = max(widths.get(model, 0), longest)
    fixed_models = [model for model in widths if model in always]
    if sum(widths[model] for model in fixed_models) > width // 2:
        fixed_models = []
    some = list(fixed_models)
    for model in widths:
        if model in fixed_models:
            continue
        if len(some) > len(fixed_models) and sum(widths[name] for name in (*some, model)) > width:
            yield some
            some = list(fixed_models)
        some.append(model)
    if some:
        yield some


def list_missing_reasons(
    columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]]
) -> tuple[str, ...]:
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


def list_interval_reasons(
    columns: Iterable[Column], cells: Mapping[str, Mapping[str, Cell]]
) -> Iterator[str]:
    """Why numbers have no interval, one line for each reason with the columns it is of."""
    titles: dict[str, dict[str, None]] = {}
    for column in columns:
        for row in cells.values():
            interval = row[column.id].interval
            if interval and interval.half_width is None:
                titles.setdefault(interval.reason, {})[_full(column)] = None
    for reason, of in titles.items():
        yield f"- without interval: {reason}: {shorten_list([*of], _NAMED)}"


def _full(column: Column) -> str:
    return f"{column.group}: {column.title}" if column.group else column.title


def _why(cell: Cell) -> str:
    counts = {status: n for status, n in cell.counts.items() if n and status != "scored"}
    if not counts:
        return cell.reason
    return f"{cell.reason} ({', '.join(f'{n:,} {s}'.replace('_', ' ') for s, n in counts.items())})"


def build_agreement_tables(agreements: Iterable[Agreement]) -> tuple[Table, ...]:
    """How far each two judges agree, and each over its rounds; reasons stand below."""
    agreements = tuple(agreements)
    kinds = {
        "Two judges, over the edits of all models that both gave a number": 2,
        "One judge, over its rounds": 1,
    }
    parts = ((title, [a for a in agreements if len(a.judges) == n]) for title, n in kinds.items())
    return tuple(_agreement_table(title, some) for title, some in parts if some)


def _agreement_table(title: str, agreements: Sequence[Agreement]) -> Table:
    names = [name for name in _FIGURES if any(name in a.figures for a in agreements)]
    why = dict.fromkeys(f.reason for a in agreements for f in a.figures.values() if f.reason)
    marks = {reason: "*" * place for place, reason in enumerate(why, 1)}
    figures = [Heading(_FIGURES[name][0], right=True) for name in names]
    heads = (Heading("dimension"), Heading("judged by"), Heading("edits", right=True), *figures)
    rows = [
        Row(
            (
                agreement.dimension,
                ", ".join(agreement.judges),
                agreement.edits,
                *(_figure(name, agreement.figures.get(name), marks) for name in names),
            )
        )
        for agreement in agreements
    ]
    notes = [f"{mark} {reason}" for reason, mark in marks.items()]
    return Table(heads, rows, title, has_groups=True, notes=notes)


def _figure(name: str, figure: Statistic | None, marks: Mapping[str, str]) -> str:
    if figure is None:
        return ""
    if figure.value is None:
        return f"-{marks[figure.reason]}"
    return format(figure.value, _FIGURES[name][1])


def _title_with_arrow(column: Column) -> str:
    return f"{column.title} {direction_arrow(column.higher_is_better)}"


def _label(text: str, judge: str) -> str:
    return f"  {judge}" if judge else text
