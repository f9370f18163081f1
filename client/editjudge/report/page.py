"""A page as data and as HTML: the leaderboard, the figures, and what a reader has to know.

The page is whole in itself, and strict about what it may load and run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..app.results import Results
from ..base.errors import MissingExtra
from ..base.identity import format_identities
from ..base.signature import Signature, package_version
from ..base.strict import to_plain
from ..base.text import format_count
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.cell import Interval
from ..benchmarks.column import Column
from ..benchmarks.dimension import Dimension
from ..benchmarks.figures import load_figures
from .edits import CHUNK, Edits, JsonObject, PageRun
from .figures import MAX_LOOKS, draw_figure, drawable_panels, extract_svg_element
from .numbers import format_interval, format_untrained_warning
from .summary import describe_comparability, drop_empty_columns, format_column, list_missing_reasons

Mode: TypeAlias = Literal["file", "folder", "view"]
"""How a page comes to what it shows: it is all in it, in files beside it, or at a server."""
_WEB = "web"
_JSON = "application/json"
# What would end the element, begin another or be no line of JavaScript.
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_MORE_PICTURES = {"file": "", "folder": " 'self' file:", "view": " 'self'"}
_MORE_SCRIPTS = {"file": "", "folder": " 'self' file:", "view": ""}
_CONNECTS = {"file": "'none'", "folder": "'none'", "view": "'self'"}


@dataclass(frozen=True)
class PageOptions:
    """What a page says besides what its runs hold.

    Attributes:
        title: Of the page; by default the benchmarks and names of its runs.
        mode: How it comes to what it shows.
        version: Another one where anything on the page is another.
        introduction: Paragraphs, by heading; "" for none.
        figures: Further figures, SVG by title.
        warnings: Further lines that a reader has to see.
        data: Folder of what is loaded when it is needed.
        review: What people decide about, where they do; see `prepare.review`.
    """

    title: str = ""
    mode: Mode = "file"
    version: str = ""
    introduction: Sequence[tuple[str, str]] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    data: str = "data"
    review: JsonObject | None = None


def build_report(runs: Sequence[PageRun], edits: Edits, about: PageOptions) -> JsonObject:
    """What the page needs first, as JSON; see the page's scripts for who reads what.

    Args:
        runs: In the order in which their edits were added.
    """
    places = {key: n for n, key in enumerate(_models(runs))}
    dimensions = {
        name: one for run in runs for name, one in run.view.resolved_spec.dimensions_by_id.items()
    }
    further = [{"title": title, "note": "", "svg": svg} for title, svg in about.figures.items()]
    paper_figures, why = _figures_of(runs)
    return {
        "version": about.version,
        "title": about.title or make_title(runs),
        "mode": about.mode,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "editjudge": package_version("editjudge"),
        "introduction": [{"heading": h, "text": text} for h, text in about.introduction],
        "warnings": [*_warnings(runs), *_pending_warnings(edits), *about.warnings, *why],
        "runs": [_run(run) for run in runs],
        "models": [{"name": name, "run": number} for number, name in places],
        "dimensions": [_dimension(dimensions[name]) for name in edits.dimensions],
        "tables": [_table(some, runs, places) for some in _alike(runs)],
        "figures": [*further, *paper_figures],
        "chunk": CHUNK,
        "chunks": edits.chunks,
        "data": about.data,
        "review": about.review,
    }


def make_title(runs: Sequence[PageRun]) -> str:
    """What a page of these runs is called."""
    names = dict.fromkeys(run.results.benchmark.title for run in runs)
    return f"{', '.join(names)}: {', '.join(run.name for run in runs)}"


def _models(runs: Sequence[PageRun]) -> Iterator[tuple[int, str]]:
    """Number of the run and name of each model on the page."""
    return ((number, name) for number, run in enumerate(runs) for name in run.header.outputs)


def _run(run: PageRun) -> JsonObject:
    results, header = run.results, run.header
    return {
        "name": run.name,
        "title": results.benchmark.title,
        "protocol": results.protocol,
        "switches": sorted(results.switches),
        "items": results.items,
        "prompts": results.prompts,
        "created": header.created,
        "editjudge": header.editjudge,
        "judges": list(results.judge_rounds.judges),
        "rounds": results.rounds,
        "services": format_identities(results.services),
        "data": header.data,
    }


def _warnings(runs: Sequence[PageRun]) -> Iterator[str]:
    today = package_version("editjudge")
    for run in runs:
        before = f"{run.name}: " if len(runs) > 1 else ""
        untrained_warning = format_untrained_warning(run.results.services)
        lines = [untrained_warning] if untrained_warning else []
        lines += [*filter(None, [run.checks])]
        if run.header.editjudge != today:
            by = run.header.editjudge
            lines.append(f"the run was last written by editjudge {by}, this is {today}")
        yield from (before + line for line in lines)


def _pending_warnings(edits: Edits) -> Iterator[str]:
    """What the numbers do not rest on, for it is still to be judged."""
    if pending := edits.count - edits.count_finished():
        are = format_count(pending, "edit is", "edits are")
        yield f"{are} pending (not judged yet, or changed since): the numbers are of the others"


def _dimension(dimension: Dimension) -> JsonObject:
    return {
        "id": dimension.id,
        "title": dimension.id.partition(".")[2] or dimension.id,
        "asks": dimension.asks,
        "range": [end if math.isfinite(end) else None for end in dimension.range],
        "higher_is_better": dimension.higher_is_better,
        "unit": dimension.unit,
    }


def _alike(runs: Sequence[PageRun]) -> list[list[int]]:
    """The runs that have the same table, by number."""
    tables: dict[tuple[Any, ...], list[int]] = {}
    for number, run in enumerate(runs):
        results = run.results
        columns = tuple(column.id for column in results.columns)
        rules = (results.benchmark.name, results.protocol, results.switches, results.prompts)
        tables.setdefault((*rules, columns), []).append(number)
    return list(tables.values())


def _table(
    numbers: Sequence[int], runs: Sequence[PageRun], places: Mapping[tuple[int, str], int]
) -> JsonObject:
    """One table of runs that have the same columns."""
    first = runs[numbers[0]]
    keys = [key for key in places if key[0] in numbers]
    results = _together(first.results, keys, runs)
    columns, left_out = drop_empty_columns(results.columns, results.models, Path(first.name))
    by_column = [_cells(results, column) for column in columns]
    notes = [*list_missing_reasons(columns, results.models), *left_out]
    if any(row[c.id].imputed for row in results.models.values() for c in columns):
        notes.append("* imputed: a rule put some of these numbers in, no judge did")
    if first.published_beside is not None:
        notes += describe_comparability(first.published_beside)
    return {
        "title": ", ".join(filter(None, [results.benchmark.title, results.benchmark.table])),
        "columns": [_column(column, results.benchmark) for column in columns],
        "rows": [
            {"model": places[key], "cells": [cells[row] for cells in by_column]}
            for row, key in enumerate(keys)
        ],
        "published": to_plain(first.published_beside.tables) if first.published_beside else [],
        "notes": notes,
    }


def _together(
    results: Results, keys: Sequence[tuple[int, str]], runs: Sequence[PageRun]
) -> Results:
    """The table of the first run, with the rows of all; names that come twice have their run's."""
    names = [model for _, model in keys]
    labels = [m if names.count(m) == 1 else f"{m} ({runs[n].name}, {n + 1})" for n, m in keys]
    cells = {label: runs[n].results.models[m] for (n, m), label in zip(keys, labels, strict=True)}
    return replace(results, models=cells)


def _cells(results: Results, column: Column) -> list[JsonObject]:
    """One column, model by model: a cell as `summary --json` has it, and as it is printed."""
    cells = [row[column.id] for row in results.models.values()]
    numbers = format_column(results, column, [*results.models])
    return [
        {
            **to_plain(replace(cell, signature=Signature(()))),
            "text": number.text,
            "rank": number.rank,
            "ends": _ends(cell.interval),
        }
        for cell, number in zip(cells, numbers, strict=True)
    ]


def _ends(interval: Interval | None) -> str:
    """The ends of a 95 % interval; empty where there is none."""
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return format_interval(interval.low, interval.high)


def _column(column: Column, benchmark: Benchmark) -> JsonObject:
    decimals = benchmark.decimals if column.decimals is None else column.decimals
    return {
        "id": column.id,
        "group": column.group,
        "title": column.title,
        "higher_is_better": column.higher_is_better,
        "source": column.source,
        "decimals": decimals,
        "dimensions": column.dimensions,
    }


def _figures_of(runs: Sequence[PageRun]) -> tuple[list[JsonObject], list[str]]:
    """The figures of all runs, and why there are none."""
    try:
        return [figure for run in runs for figure in _figures(run)], []
    except MissingExtra as error:
        return [], [f"without figures: {error}"]


def _figures(run: PageRun) -> Iterator[JsonObject]:
    """The figures of the benchmark's paper, as far as there is something to show."""
    results = run.results
    numbers = {m: {c: cell.value for c, cell in row.items()} for m, row in results.models.items()}
    if len(numbers) > MAX_LOOKS:
        return
    warning = format_untrained_warning(results.services)
    for figure in load_figures(results.benchmark.name):
        if drawable_panels(figure, results.columns, numbers):
            svg = extract_svg_element(draw_figure(figure, results.columns, numbers, "svg", warning))
            yield {"title": f"{figure.kind}, {figure.source}", "note": run.name, "svg": svg}


def render_page(
    report: Mapping[str, Any],
    edits: Mapping[str, Any] | None = None,
    details: Mapping[str, Mapping[str, Any] | str] | None = None,
    pictures: Mapping[str, str] | None = None,
    mode: Mode = "file",
) -> str:
    """Write a page of results as HTML; every text from data stays text.

    Args:
        report: See `report_of`.
        edits: See `Edits.index`; None where the page asks for both.
        details: By name of the chunk, where the page holds all of them; as text that `script_json`
            has made where they are many.
        pictures: Data URIs by name of the picture, in the same case.
    """
    environment = Environment(
        loader=PackageLoader("editjudge.report", _WEB),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        title=report["title"],
        mode=mode,
        report=report,
        style=Markup(_join_sources(".css")),  # noqa: S704 - ours
        script=Markup(_join_sources(".js")),  # noqa: S704 - ours
        policy="" if mode == "view" else build_security_policy(mode),
        blocks=list(_blocks(report, edits, details or {}, pictures or {})),
        version=package_version("editjudge"),
    )


def _blocks(
    report: Mapping[str, Any],
    edits: Mapping[str, Any] | None,
    details: Mapping[str, Any],
    pictures: Mapping[str, str],
) -> Iterator[tuple[str, str, Markup]]:
    """What the page holds beside its own words, as `(id, type, text)`."""
    if edits is not None:
        details = {"report": report, "edits": edits, **details}
    for name, chunk in details.items():
        text = chunk if isinstance(chunk, str) else dump_script_json(chunk)
        yield f"data-{name}", _JSON, Markup(text)  # noqa: S704 - escaped for this place
    for name, uri in pictures.items():
        yield f"picture-{name}", "text/plain", Markup(uri)  # noqa: S704 - base64


def build_security_policy(mode: Mode) -> str:
    """What a page may do: its own style and script, its pictures, and nothing else.

    It is a header where a server sends the page, which none may frame then.
    """
    script, style = _digest(_join_sources(".js")), _digest(_join_sources(".css"))
    rules = [
        "default-src 'none'",
        f"script-src {script}{_MORE_SCRIPTS[mode]}",
        f"style-src {style}",
        f"img-src data: blob:{_MORE_PICTURES[mode]}",
        f"connect-src {_CONNECTS[mode]}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if mode == "view":
        rules.append("frame-ancestors 'none'")
    return "; ".join(rules)


def dump_script_json(value: object) -> str:
    """JSON that stays JSON within a script element, and as an expression of a script.

    Lone surrogates of a judge's reply, which no file can hold, are escaped.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # what a service returned may be no number
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode("utf-8", "backslashreplace").decode()


def _finite(value: Any) -> Any:
    """The same with words for what is no number in JSON."""
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


@cache
def _join_sources(suffix: str) -> str:
    """All files of the page of one kind, in the order of their names."""
    folder = files(__package__) / _WEB
    texts = {one.name: one for one in folder.iterdir() if one.name.endswith(suffix)}
    return "".join(texts[name].read_text("utf-8") for name in sorted(texts))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
