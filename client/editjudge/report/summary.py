"""Builds the tables of a run's results, with spread over judges and notes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from ..app.dimensions import models_needed, unserved_command
from ..app.intervals import is_surely_best
from ..app.judge_spread import Cells
from ..app.results import PublishedNumbers, Results
from ..base.console import WIDTH
from ..base.errors import ConfigError
from ..base.identity import ServiceName
from ..base.text import format_count, group_by_key, shorten_list
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from ..stats.preferences import PairRanking
from .numbers import (
    choose_decimals,
    direction_arrow,
    explain_leads,
    explain_signs,
    find_best,
    format_cell,
    format_figure,
    format_number,
    format_pending_warning,
    untrained_warning,
)
from .table import Head, Lead, Number, Row, Table, TextFormat

_Grid: TypeAlias = Mapping[tuple[str, str], Sequence[Number]]
"""The numbers of all columns, by model and judge ("" for all judges together)."""
_NOTHING = Number("")
_MAX_COLUMNS = 6
"""Most columns that a line names."""
_WIDE = 6
"""Columns that fit on a page; if there are more of them than models, they become rows."""
_NUMBERS = (
    *("model", "column", "group", "title", "value", "deviation", "scored", "asked", "imputed"),
    *("low", "high", "error", "clusters", "method", "capped", "other_items"),
)


def select_columns(
    results: Results, columns: Collection[str] = (), models: Collection[str] = ()
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Select columns and models of a table.

    Args:
        columns: Globs of ids or titles, parts of ids, or words from group, title and id; by
            default all. Columns that ask nothing of these models are left out.
        models: Names of models; by default all, in the order of the table.

    Raises:
        ConfigError: a model does not exist, or a pattern matches no column.
    """
    for model in models:
        if model not in results.models:
            raise ConfigError(f"no model {model}", f"models: {', '.join(results.models)}")
    for pattern in columns:
        if not any(_matches(column, [pattern]) for column in results.columns):
            titles = ", ".join(column.title for column in results.columns[:6])
            fix = f"give an id, a part of one, a title or a glob: {titles}"
            raise ConfigError(f"no column {pattern}", fix)
    names = tuple(models) or tuple(results.models)
    matches = (c for c in results.columns if not columns or _matches(c, columns))
    return tuple(c for c in matches if any(results.models[n][c.id].asked for n in names)), names


def _matches(column: Column, patterns: Iterable[str]) -> bool:
    names = (column.id.casefold(), column.title.casefold())
    parts = column.id.casefold().split(".")[1:]
    words = f"{column.group} {column.title} {column.id}".casefold()
    return any(
        pattern in parts
        or any(fnmatchcase(name, pattern) for name in names)
        or all(word in words for word in pattern.split())
        for pattern in map(str.casefold, patterns)
    )


def narrow_results(results: Results, columns: Collection[str] = (), models: Collection[str] = ()) -> Results:
    """Reduce the table to these columns and models; unchanged where neither is given.

    Raises:
        ConfigError: a model does not exist, or a pattern matches no column; see `select_columns`.
    """
    if not columns and not models:
        return results
    selection, names = select_columns(results, columns, models)
    ids = {column.id for column in selection}

    def of_ids(row: Mapping[str, Cell]) -> dict[str, Cell]:
        return {name: cell for name, cell in row.items() if name in ids}

    of_columns = (results.roles.get(column.id, results.services.keys()) for column in selection)
    roles = frozenset[str]().union(*of_columns)
    return replace(
        results,
        columns=selection,
        services={role: of for role, of in results.services.items() if role in roles},
        models={name: of_ids(results.models[name]) for name in names},
        judges={
            name: {judge: of_ids(row) for judge, row in results.judges[name].items()}
            for name in names
            if name in results.judges
        },
    )


def format_results(results: Results, form: TextFormat) -> str:
    """Format the table for a paper: the best numbers bold if they are surely so, else italic.

    A number that does not cover all edits gets a footnote with its coverage.

    Args:
        form: `latex` needs the package booktabs; `csv` leaves numbers unrounded.
    """
    return (build_numbers_table if form == "csv" else build_paper_table)(results).to_text(form)


def build_paper_table(results: Results) -> Table:
    """Build the table as papers print it, with notes on coverage and intervals."""
    selection, names = select_columns(results)
    by_column = [format_column(results, column, names) for column in selection]
    rows = zip(*by_column, strict=True) if by_column else ((),) * len(names)
    grid = {(name, ""): [n for n, _ in row] for name, row in zip(names, rows, strict=True)}
    has_groups = any(column.group for column in selection)
    as_rows = has_groups or len(selection) > max(_WIDE, len(names))
    table = _by_column(selection, grid, names) if as_rows else _by_model(selection, grid)
    notes = (*explain_leads(chain(*by_column)), *_notes(results, selection, names))
    return replace(table, notes=notes, about=tuple(_describe_run(results)))


def format_column(results: Results, column: Column, models: Sequence[str]) -> list[tuple[Number, Cell]]:
    """Format the numbers of one column, mark the best, and return each with its cell."""
    cells = [results.models[model][column.id] for model in models]
    decimals = _decimals(results, column, cells)
    texts = ["-" if cell.value is None else format_number(cell.value, decimals) for cell in cells]
    values = [cell.value for cell in cells]
    higher = column.higher_is_better
    best = find_best(texts, values, higher_is_better=higher)
    lead: Lead = "best"
    if len(best) == 1 and (of := results.values.get(column.id)):
        models_here = [m for m, cell in zip(models, cells, strict=True) if cell.value is not None]
        if is_surely_best(of, models[best[0]], models_here, higher_is_better=higher):
            lead = "sure"
    leads = (lead if place in best else "" for place in range(len(cells)))
    return [(format_cell(c, decimals, one), c) for c, one in zip(cells, leads, strict=True)]


def _decimals(results: Results, column: Column, cells: Sequence[Cell]) -> int:
    """Return the decimals of the paper's table, or of the numbers if it has none."""
    if column.decimals is not None:
        return column.decimals
    return results.benchmark.decimals if results.benchmark.table else choose_decimals(cells)


def describe_judges(results: Results) -> str:
    """Say which models judged, by their names in the run, how often, and when the run began."""
    judges = [f"{m.name} ({r.variant})" for r, m in results.services.items() if r.is_judge]
    by = "judged by " if len(judges) == 1 else "mean of the judges " if judges else "no judge"
    rounds = results.judge_rounds.rounds if judges else 1
    each = f", {rounds} rounds each" if rounds > 1 else ""
    day = results.start_time.partition("T")[0] or "an unknown date"
    return f"{by}{', '.join(judges)}{each}; run of {day}"


def _describe_run(results: Results) -> Iterator[str]:
    switches = f" with {', '.join(sorted(results.switches))}" if results.switches else ""
    title = ", ".join(filter(None, [results.benchmark.title, results.protocol]))
    yield f"{title}{switches}, {format_count(results.items, 'item')}"
    yield describe_judges(results)
    yield from (f"{role}: {identity}" for role, identity in results.services.items())


def _notes(results: Results, columns: Sequence[Column], models: Sequence[str]) -> Iterator[str]:
    cells = [results.models[model][column.id] for model in models for column in columns]
    if warning := untrained_warning(results.untrained):
        yield warning
    yield from explain_signs(cells, fix=False)
    yield from describe_counting(results)
    if results.checks:
        yield results.checks


def describe_size(results: Results) -> Iterator[str]:
    """Say that the data is of another size than the paper's."""
    if results.benchmark.paper_items not in {0, results.items}:
        yield f"{format_count(results.items, 'item')} here; the paper has {results.benchmark.paper_items:,}"


def describe_counting(results: Results) -> Iterator[str]:
    """Yield notes on data of another size than the paper's, pending edits, special rules and silent judges."""
    yield from describe_size(results)
    rows = results.models.values()
    counts = (max((c.counts.get("pending", 0) for c in r.values()), default=0) for r in rows)
    if pending := sum(counts):
        yield format_pending_warning(pending)
    if results.count_missing:
        yield "missing outputs count as the worst value of each metric"
    if results.common:
        yield "each dimension counts only the items on which all models have a number"
    for judge in results.judge_rounds.judges:
        own = (results.judges.get(name, {}).get(judge, row) for name, row in results.models.items())
        role = ServiceName.judge(judge)
        cells = [c for row in own for i, c in row.items() if role in results.roles.get(i, ())]
        if any(c.counts.get("unscored") for c in cells) and not any(c.scored for c in cells):
            yield f"no number rests on a reply of {role}"


def build_numbers_table(results: Results) -> Table:
    """Build the table of unrounded numbers, with a row for each model and column."""
    columns, models = select_columns(results)
    rows = []
    for model in models:
        for column in columns:
            cell = results.models[model][column.id]
            ends = cell.interval
            interval = (ends.low, ends.high, ends.error, ends.clusters, ends.method) if ends else (None,) * 5
            names = (model, column.id, column.group, column.title)
            counts = (cell.scored, cell.asked, cell.imputed)
            further = (cell.capped, int(cell.other_items))
            rows.append(Row((*names, cell.value, cell.sd, *counts, *interval, *further)))
    return Table([Head(name) for name in _NUMBERS], rows)


def build_results_tables(
    columns: Iterable[Column],
    cells: Cells,
    judges: Mapping[str, Cells] = MappingProxyType({}),
    width: int = WIDTH,
    decimals: int = 2,
    paper_rows: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    *,
    each_round: bool = False,
) -> tuple[Table, ...]:
    """Build a benchmark's table, each number with its spread and coverage.

    Each model is a row. Where columns have groups or the table is too wide, each column is a row,
    in as many tables as the models need. Several judges have a row each below the one for all.
    Grouped columns that ask nothing of any model are left out.

    Args:
        judges: Cells of each judge alone, by model, judge and column.
        width: Width of the terminal in characters.
        decimals: Decimals of grouped columns that have none of their own.
        each_round: Also show the number of every round, as table 6 of GIE-Bench does.
        paper_rows: Rows of the paper, by name and column id; they have no coverage.
    """
    columns = tuple(columns)
    has_groups = any(column.group for column in columns)
    if has_groups:
        columns = tuple(c for c in columns if any(row[c.id].asked for row in cells.values()))
    usual = decimals if has_groups or paper_rows else None
    grid = _build_grid(columns, cells, judges, paper_rows, usual, each_round=each_round)
    if not has_groups:
        table = _by_model(columns, grid)
        if table.least_width <= width:
            return (table,)
    table = _by_column(columns, grid, list(dict.fromkeys(model for model, _ in grid)))
    # The models of the run stand in each table, the rows of the paper follow one another.
    return tuple(table.fit(width, len(cells) if paper_rows else 0))


def drop_empty_columns(columns: Iterable[Column], cells: Cells, run: Path) -> tuple[tuple[Column, ...], list[str]]:
    """Drop the columns that ask nothing of any item, or only wait for a service.

    Returns:
        The remaining columns, and lines that count the others.
    """
    filled_columns, no_service, no_item = [], 0, 0
    for column in columns:
        asked_cells = [row[column.id] for row in cells.values() if row[column.id].asked]
        if not asked_cells:
            # Columns of a paper's table that concern other tasks are not reported.
            no_item += not column.group
        elif all(_only_lacks_service(cell) for cell in asked_cells):
            no_service += 1
        else:
            filled_columns.append(column)
    lines = []
    if no_service:
        lines.append(f"{models_needed(no_service, 'number')}: {unserved_command(run)}")
    if no_item:
        lines.append(f"{format_count(no_item, 'number applies', 'numbers apply')} to no item")
    return tuple(filled_columns), lines


def _only_lacks_service(cell: Cell) -> bool:
    """Whether only a missing service prevents a number."""
    missing = {*cell.counts} <= {"not_served", "missing_output"} and "not_served" in cell.counts
    return cell.value is None and (missing or "not_served" in cell.open_statuses)


def _build_grid(
    columns: Sequence[Column],
    cells: Cells,
    judges_by_model: Mapping[str, Cells],
    paper_rows: Mapping[str, Mapping[str, float]],
    decimals: int | None,
    *,
    each_round: bool,
) -> dict[tuple[str, str], list[Number]]:
    """Format all numbers, by model and judge; with `decimals` as papers print them."""
    grid: dict[tuple[str, str], list[Number]] = {}
    own = {c.id: decimals if c.decimals is None else c.decimals for c in columns}
    places = dict.fromkeys(own) if decimals is None else own

    def full(row: Mapping[str, Cell]) -> list[Number]:
        cells = ((row.get(name), n) for name, n in places.items())
        return [_NOTHING if cell is None else format_cell(cell, n) for cell, n in cells]

    def bare(row: Mapping[str, float | None]) -> list[Number]:
        values = ((row.get(name), n) for name, n in places.items())
        return [_NOTHING if v is None else Number(format_number(v, n)) for v, n in values]

    for model, row in cells.items():
        grid[model, ""] = full(row)
        judges = judges_by_model.get(model, {})
        several = len(judges) > 1
        if several:  # a single judge has the numbers of the row for all
            grid |= {(model, judge): full(of) for judge, of in judges.items()}
        for judge, of in judges.items() if each_round else ():
            for n in range(max((len(c.rounds) for c in of.values()), default=0)):
                label = f"{judge}, round {n + 1}" if several else f"run {n + 1}"
                values = {name: c.rounds[n] for name, c in of.items() if n < len(c.rounds)}
                grid[model, label] = bare(values)
    return grid | {(name, ""): bare(numbers) for name, numbers in paper_rows.items()}


def describe_comparability(beside: PublishedNumbers) -> Iterator[str]:
    """Say which columns can be compared with the paper's, one line for each reason."""
    if not beside.shared_columns:
        yield f"{beside.title} prints none of these columns"
    titles_by_verdict = group_by_key((beside.columns[column.id], column.title) for column in beside.shared_columns)
    for verdict, titles in titles_by_verdict.items():
        can = "can be compared" if verdict.comparable else "cannot be compared"
        yield f"- {can} with what is printed: {', '.join(dict.fromkeys(titles))} ({verdict.why})"


def _by_model(columns: Sequence[Column], grid: _Grid) -> Table:
    """Build a table with a row for each model and judge."""
    heads = (Head("model"), *(Head(_title(column), right=True) for column in columns))
    rows = [Row((_row_label(*key), *grid[key]), "dim" if key[1] else "") for key in grid]
    return Table(heads, rows)


def _by_column(columns: Sequence[Column], grid: _Grid, models: Sequence[str]) -> Table:
    """Build a table with a row for each column and judge, under the groups of columns."""
    judges = list(dict.fromkeys(judge for _, judge in grid))
    has_groups = any(column.group for column in columns)
    rows = []
    for place, column in enumerate(columns):
        group = [column.group] if has_groups else []
        for judge in judges:
            judge_rows = (grid.get((model, judge)) for model in models)
            numbers = [_NOTHING if row is None else row[place] for row in judge_rows]
            if any(one.text for one in numbers):
                label = _row_label(_title(column), judge)
                rows.append(Row((*group, label, *numbers), "dim" if judge else ""))
    names = [Head("")] if has_groups else []
    heads = (*names, Head("metric"), *(Head(model, right=True) for model in models))
    return Table(heads, rows, has_groups=has_groups)


def list_reasons(columns: Iterable[Column], cells: Cells) -> tuple[str, ...]:
    """List why cells have no number: one line per reason, with its columns and models."""
    titles_by_reason: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for column in columns:
        column_cells = ((model, row[column.id]) for model, row in cells.items())
        by_reason = group_by_key(
            (_describe_reason(cell), model) for model, cell in column_cells if cell.value is None and cell.asked
        )
        for why, models in by_reason.items():
            of_models = titles_by_reason.setdefault(why, {})
            of_models.setdefault(tuple(models), []).append(_full_title(column))
    return tuple(
        f"- {why}: {', '.join(titles)} ({', '.join(models)})"
        for why, of_models in titles_by_reason.items()
        for models, titles in of_models.items()
    )


def list_interval_reasons(columns: Iterable[Column], cells: Cells) -> Iterator[str]:
    """List why numbers have no interval: one line per reason, with its columns."""
    intervals = ((row[column.id].interval, _full_title(column)) for column in columns for row in cells.values())
    titles = group_by_key((of.reason, title) for of, title in intervals if of and of.half_width is None)
    for reason, of_reason in titles.items():
        yield f"- without interval: {reason}: {shorten_list([*dict.fromkeys(of_reason)], _MAX_COLUMNS)}"


def _full_title(column: Column) -> str:
    return f"{column.group}: {column.title}" if column.group else column.title


def _describe_reason(cell: Cell) -> str:
    counts = {status: n for status, n in cell.counts.items() if n and status != "scored"}
    if not counts:
        return cell.reason
    return f"{cell.reason} ({', '.join(f'{n:,} {s}'.replace('_', ' ') for s, n in counts.items())})"


def _title(column: Column) -> str:
    return f"{column.title} {direction_arrow(column.higher_is_better)}"


def _row_label(text: str, judge: str) -> str:
    return f"  {judge}" if judge else text


def build_ranking_table(ranking: PairRanking) -> Table:
    """Build the table of the models that a run about pairs ranks."""
    heads = [
        Head("model", fold=True),
        *(Head(name, right=True) for name in ("wins of its pairs", "Bradley-Terry (Elo)")),
    ]
    rows = [
        Row((model, format_figure(wins), format_figure(ranking.strengths[model], ".0f")))
        for model, wins in ranking.wins.items()
    ]
    notes = [
        f"The edit shown first wins {format_figure(ranking.first_wins)}: .5 is no favour. Both orders count.",
        f"{ranking.ties:,} of {format_count(ranking.pairs, 'pair')} have no winner.",
        *{f"-, or no interval: {each.reason}" for each in ranking.strengths.values() if each.reason},
    ]
    return Table(heads, rows, f"{ranking.dimension}: models by pairs", notes=notes)
