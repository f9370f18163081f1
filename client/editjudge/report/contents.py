"""What a page says about runs: the leaderboard, the figures, and what a reader has to know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ..app.published import PublishedBeside
from ..app.results import Results
from ..app.unserved import need_models
from ..base.errors import MissingExtra
from ..base.identity import printed
from ..base.signature import package_version
from ..base.words import counted
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from ..benchmarks.dimension import Dimension
from ..benchmarks.figures import figures
from ..engine.header import RunHeader
from .figures import LOOKS, draw, drawn
from .gathered import CHUNK, Gathered, Plain
from .numbers import best_and_second, ends_text, rounded, untrained_line
from .pictures import SIDE
from .summary import comparability, reasons

FORMAT = 1
"""Raised where a page of one version cannot read the data of another."""
_HIGHLIGHTS = 4


@dataclass(frozen=True)
class ShownRun:
    """A run as a page shows it.

    Attributes:
        name: What it is called.
        header: What it is about; None of the demo, which is none.
        dimensions: Those that are known here, by id.
        models: A line about each model under test, empty for none.
        waiting: Why dimensions wait for a service, by id.
        checks: How its judges were when they were last checked, in one line; empty without judges.
        published: What the paper prints; None where nobody wants it.
        highlights: Dimensions shown beneath a picture; by default the first that have a number.
        plots: Further figures, SVG by title.
    """

    name: str
    results: Results
    header: RunHeader | None
    dimensions: Mapping[str, Dimension]
    models: Mapping[str, str]
    waiting: Mapping[str, str] = field(default_factory=dict)
    checks: str = ""
    published: PublishedBeside | None = None
    highlights: Sequence[str] = ()
    plots: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What a page says besides what its runs hold.

    Attributes:
        title: Of the page.
        version: Another one where anything on the page is another.
        introduction: Paragraphs, by heading; "" for none.
        warnings: Further lines that a reader has to see.
        data: Folder of what is loaded when it is needed.
        unshown: Pictures that cannot be shown.
    """

    title: str
    version: str = ""
    introduction: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    data: str = "data"
    unshown: int = 0


def _figures_of(runs: Sequence[ShownRun]) -> tuple[list[Plain], list[str]]:
    """The figures of all runs, and why there are none."""
    try:
        return [figure for run in runs for figure in _figures(run)], []
    except MissingExtra as error:
        return [], [f"without figures: {error}"]


def report_of(
    runs: Sequence[ShownRun], gathered: Gathered, about: About, mode: str, side: int = SIDE
) -> Plain:
    """What the page needs first, as JSON; see the page's scripts for who reads what.

    Args:
        runs: In the order in which their edits were gathered.
        mode: `file`, `folder` or `view`: how the page comes to what is not here.
        side: Pixels of the longer side of its pictures.
    """
    places = _places(runs)
    shown_figures, why = _figures_of(runs)
    return {
        "format": FORMAT,
        "version": about.version,
        "title": about.title,
        "mode": mode,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "editjudge": package_version("editjudge"),
        "introduction": [{"heading": h, "text": text} for h, text in about.introduction],
        "warnings": [*_warnings(runs), *_unfinished(gathered), *about.warnings, *why],
        "lacking": _lacking(runs, gathered),
        "runs": [_run(run) for run in runs],
        "models": [
            {"name": name, "run": number, "about": line}
            for number, run in enumerate(runs)
            for name, line in run.models.items()
        ],
        "dimensions": _dimensions(runs, gathered),
        "tables": [_table(some, runs, places) for some in _alike(runs)],
        "figures": shown_figures,
        "chunk": CHUNK,
        "chunks": gathered.chunks,
        "data": about.data,
        "missing_pictures": about.unshown,
        "pictures": {"size": side},
    }


def title_of(runs: Sequence[ShownRun]) -> str:
    """What a page of these runs is called."""
    names = dict.fromkeys(run.results.benchmark.title for run in runs)
    return f"{', '.join(names)}: {', '.join(run.name for run in runs)}"


def _places(runs: Sequence[ShownRun]) -> dict[tuple[int, str], int]:
    """The number of each model on the page, by run and name."""
    each = ((number, name) for number, run in enumerate(runs) for name in run.models)
    return {key: number for number, key in enumerate(each)}


def _run(run: ShownRun) -> Plain:
    results, header = run.results, run.header
    return {
        "name": run.name,
        "benchmark": results.benchmark.name,
        "title": results.benchmark.title,
        "protocol": results.protocol,
        "switches": sorted(results.switches),
        "items": results.items,
        "prompts": results.words,
        "created": header.created if header else None,
        "editjudge": header.editjudge if header else package_version("editjudge"),
        "judges": list(results.judge_rounds.judges),
        "rounds": results.rounds,
        "services": printed(results.identities),
        "data": header.data if header else None,
        "notes": [],
    }


def _warnings(runs: Sequence[ShownRun]) -> Iterator[str]:
    for run in runs:
        before = f"{run.name}: " if len(runs) > 1 else ""
        results = run.results
        untrained = untrained_line(results.identities)
        lines = [untrained] if untrained else []
        lines += [*filter(None, [run.checks]), *results.changes.lines]
        header = run.header
        if header and header.editjudge != (today := package_version("editjudge")):
            lines.append(
                f"the run was last written by editjudge {header.editjudge}, this is {today}"
            )
        yield from (before + line for line in lines)


def _unfinished(gathered: Gathered) -> Iterator[str]:
    """What the numbers do not rest on, for it is still to be judged."""
    if pending := gathered.count - gathered.judged():
        are = counted(pending, "edit is", "edits are")
        yield f"{are} pending (not judged yet, or changed since): the numbers are of the others"


def _lacking(runs: Sequence[ShownRun], gathered: Gathered) -> Plain | None:
    """What nobody serves, in one line and one by one."""
    waiting = {name: why for run in runs for name, why in run.waiting.items()}
    names = [name for name in gathered.unserved() if name in waiting]
    if not names:
        return None
    return {
        "line": need_models(len(names), "dimension"),
        "dimensions": [{"id": n, "title": _short(n), "reason": waiting[n]} for n in names],
    }


def _dimensions(runs: Sequence[ShownRun], gathered: Gathered) -> list[Plain]:
    chosen = {name for run in runs for name in run.highlights}
    if not chosen:
        lacking = set(gathered.unserved())
        usual = (
            name
            for run in runs
            for column in run.results.columns
            for name in column.dimensions
            if name in gathered.dimensions and name not in lacking
        )
        chosen = set(list(dict.fromkeys(usual))[:_HIGHLIGHTS])
    known = {name: one for run in runs for name, one in run.dimensions.items()}
    return [
        {
            **_dimension(name, known.get(name)),
            "highlight": name in chosen,
        }
        for name in gathered.dimensions
    ]


def _dimension(name: str, dimension: Dimension | None) -> Plain:
    told: Plain = {"id": name, "title": _short(name)}
    if dimension is None:
        nothing = {"asks": "not known to this editjudge", "range": [None, None], "higher": True}
        return {**told, **nothing, "unit": "", "source": "", "prompts": None}
    return {
        **told,
        "asks": dimension.asks,
        "range": [_finite(end) for end in dimension.range],
        "higher": dimension.higher_is_better,
        "unit": dimension.unit,
        "source": dimension.source,
        "prompts": dimension.words,
    }


def _short(name: str) -> str:
    """An id without its benchmark."""
    return name.partition(".")[2] or name


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _alike(runs: Sequence[ShownRun]) -> list[list[int]]:
    """The runs that have the same table, by number."""
    tables: dict[tuple[Any, ...], list[int]] = {}
    for number, run in enumerate(runs):
        results = run.results
        key = (
            results.benchmark.name,
            results.protocol,
            results.switches,
            results.words,
            tuple(column.id for column in results.columns),
        )
        tables.setdefault(key, []).append(number)
    return list(tables.values())


def _table(
    numbers: Sequence[int], runs: Sequence[ShownRun], places: Mapping[tuple[int, str], int]
) -> Plain:
    """One table of runs that have the same columns."""
    first = runs[numbers[0]]
    keys = [(number, model) for number in numbers for model in runs[number].models]
    labels = _labels(keys, runs)
    together = _together(first.results, keys, labels, runs)
    asked = (c for c in together.columns if any(r[c.id].asked for r in together.cells.values()))
    columns = tuple(asked)
    by_column = [_cells(together, column) for column in columns]
    notes = list(reasons(columns, together.cells))
    if any(row[c.id].imputed for row in together.cells.values() for c in columns):
        notes.append("* imputed: a rule put some of these numbers in, no judge did")
    if first.published is not None:
        notes += comparability(first.published)
    return {
        "title": ", ".join(filter(None, [together.benchmark.title, together.benchmark.table])),
        "runs": list(numbers),
        "decimals": together.benchmark.decimals,
        "columns": [_column(column, first) for column in columns],
        "rows": [
            {"model": places[key], "cells": [cells[row] for cells in by_column]}
            for row, key in enumerate(keys)
        ],
        "published": [] if first.published is None else _published(first.published, columns),
        "notes": notes,
    }


def _labels(keys: Sequence[tuple[int, str]], runs: Sequence[ShownRun]) -> list[str]:
    """The names of models, with their runs where a name is there twice."""
    names = [model for _, model in keys]
    return [m if names.count(m) == 1 else f"{m} ({runs[n].name}, {n + 1})" for n, m in keys]


def _together(
    results: Results,
    keys: Sequence[tuple[int, str]],
    labels: Sequence[str],
    runs: Sequence[ShownRun],
) -> Results:
    """The table of the first run, with the rows of all."""
    cells = {label: runs[n].results.cells[m] for (n, m), label in zip(keys, labels, strict=True)}
    return replace(results, cells=cells)


def _cells(results: Results, column: Column) -> list[Plain]:
    """One column, model by model."""
    cells = [row[column.id] for row in results.cells.values()]
    decimals = _decimals(results, column)
    texts = [_number(cell.value, decimals) for cell in cells]
    values = [cell.value for cell in cells]
    places = best_and_second(texts, values, higher_is_better=column.higher_is_better)
    return [
        {
            "value": cell.value,
            "text": text,
            "place": place,
            **_sureness(cell, decimals),
            "deviation": cell.sd,
            "scored": cell.scored,
            "asked": cell.asked,
            "imputed": cell.imputed,
            "counts": dict(cell.counts),
            "reason": cell.reason,
            "signature": str(cell.signature),
        }
        for cell, text, place in zip(cells, texts, places, strict=True)
    ]


def _decimals(results: Results, column: Column) -> int | None:
    """To which the benchmark's paper prints a column; None where there is no such table."""
    benchmark = results.benchmark
    return benchmark.decimals if benchmark.table and column.decimals is None else column.decimals


def _number(value: float | None, decimals: int | None) -> str:
    """A number to so many decimals, else to four digits, also where the last are 0."""
    if value is None:
        return "-"
    if decimals is None:
        return f"{value:#.4g}".removesuffix(".")
    return rounded(value, decimals)


def _column(column: Column, run: ShownRun) -> Plain:
    said = run.published.columns.get(column.id) if run.published else None
    return {
        "id": column.id,
        "group": column.group,
        "title": column.title,
        "higher": column.higher_is_better,
        "source": column.source,
        "decimals": column.decimals,
        "dimensions": list(column.dimensions),
        "comparable": None if said is None else {"comparable": said.comparable, "why": said.why},
    }


def _sureness(cell: Cell, decimals: int | None) -> Plain:
    """The 95 % interval, and what else tells how far a number can be compared."""
    interval = cell.interval
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {
        "low": low,
        "high": high,
        "ends": "" if low is None or high is None else ends_text(low, high, decimals),
        "clusters": interval.clusters if interval else None,
        "capped": cell.capped,
        "different_items": cell.other_items,
    }


def _published(published: PublishedBeside, columns: Sequence[Column]) -> list[Plain]:
    return [
        {
            "source": table.source,
            "judge": table.judge,
            "note": table.note,
            "rows": [
                {"name": name, "values": [row.get(column.id) for column in columns]}
                for name, row in table.models.items()
            ],
        }
        for table in published.tables
    ]


def _figures(run: ShownRun) -> Iterator[Plain]:
    """The figures of the benchmark's paper, as far as there is something to show."""
    for title, svg in run.plots.items():
        yield {"title": title, "note": "", "svg": svg}
    results = run.results
    cells = {m: row for m, row in results.cells.items() if m in run.models}
    numbers = {m: {name: cell.value for name, cell in row.items()} for m, row in cells.items()}
    if len(numbers) > LOOKS:
        return
    warning = untrained_line(results.identities)
    for figure in figures(results.benchmark.name):
        if not drawn(figure, results.columns, numbers):
            continue
        svg = draw(figure, results.columns, numbers, "svg", warning).decode()
        yield {
            "title": f"{figure.kind}, {figure.source}",
            "note": run.name,
            "svg": svg[svg.index("<svg") :],
        }
