"""Builds the page of runs: its data (leaderboard, figures, warnings) and its HTML.

A content security policy limits what the page may load and run.
"""

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from ..app.results import Results
from ..base.errors import MissingExtra
from ..base.identity import format_identities
from ..base.signature import Signature, package_version
from ..base.strict import pick_fields, to_plain
from ..base.templates import make_templates
from ..base.text import format_count, group_by_key
from ..benchmarks.benchmark import Benchmark
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from ..benchmarks.dimension import Dimension
from ..benchmarks.figures import load_figures
from .edits import CHUNK, Edits, JsonObject, PageRun
from .figures import MAX_LOOKS, draw_figure, extract_svg_element
from .numbers import explain_leads, format_interval, untrained_warning
from .summary import (
    describe_comparability,
    describe_judges,
    describe_size,
    drop_empty_columns,
    format_column,
    list_reasons,
)
from .table import Number

_Key: TypeAlias = tuple[int, str]
"""The index of a run and the name of a model."""
Mode: TypeAlias = Literal["file", "folder"]
"""Where a page finds its data: in the page itself, or in files beside it."""
_WEB = "web"
_JSON = "application/json"
# Characters that would end the script element, begin another, or break a line of JavaScript.
_ESCAPE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_FROM_FILES = {"file": "", "folder": " 'self' file:"}


@dataclass(frozen=True)
class PageOptions:
    """What a page shows besides the contents of its runs.

    Attributes:
        title: Title of the page; by default the benchmarks and names of its runs.
        mode: Where the page finds its data.
        introduction: Pairs of a heading ("" for none) and a paragraph.
        warnings: Additional warnings, a line each.
        data: Folder of the files that the page loads on demand.
        review: The decisions that people review on the page, if any; see `prepare.review`.
    """

    title: str = ""
    mode: Mode = "file"
    introduction: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    data: str = "data"
    review: JsonObject | None = None


def build_report(runs: Sequence[PageRun], edits: Edits, options: PageOptions) -> JsonObject:
    """Build the JSON that the page reads first; its scripts in `web` say who reads what.

    Args:
        runs: The runs, in the order in which their edits were added.
    """
    dimensions = {name: one for run in runs for name, one in run.view.resolved_spec.dimensions_by_id.items()}
    figures, why = _try_figures(runs)
    return {
        "title": options.title or make_title(runs),
        "mode": options.mode,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "editjudge": package_version("editjudge"),
        "introduction": [{"heading": h, "text": text} for h, text in options.introduction],
        "warnings": [*_warnings(runs), *_edit_warnings(edits), *options.warnings, *why],
        "runs": [_run_json(run) for run in runs],
        "models": [{"name": name, "run": run.number} for run in runs for name in run.models],
        "dimensions": [_dimension_json(dimensions[name]) for name in edits.dimensions],
        "tables": [_table_json(some, runs) for some in _group_runs(runs)],
        "figures": figures,
        "chunk": CHUNK,
        "chunks": edits.chunks,
        "is_part": edits.is_part,
        "data": options.data,
        "review": options.review,
    }


def make_title(runs: Sequence[PageRun]) -> str:
    """Return the default title of a page of these runs."""
    names = dict.fromkeys(run.results.benchmark.title for run in runs)
    return f"{', '.join(names)}: {', '.join(run.name for run in runs)}"


def _run_json(run: PageRun) -> JsonObject:
    results, header = run.results, run.header
    return {
        "name": run.name,
        "title": results.benchmark.title,
        "switches": sorted(results.switches),
        "judges": list(results.judge_rounds.judges),
        "services": format_identities(results.services),
        **pick_fields(results, "protocol", "items", "prompts", "rounds"),
        **pick_fields(header, "created", "editjudge", "data"),
    }


def _warnings(runs: Sequence[PageRun]) -> Iterator[str]:
    today = package_version("editjudge")
    for run in runs:
        before = f"{run.name}: " if len(runs) > 1 else ""
        lines = [*filter(None, [untrained_warning(run.results.untrained), run.results.checks])]
        if run.header.editjudge != today:
            lines.append(f"the run was last written by editjudge {run.header.editjudge}, this is {today}")
        lines += [run.view.data_note] if run.view.data_note else []
        if others := sorted(run.finder.others):
            count = format_count(len(others), "picture is", "pictures are")
            lines.append(f"{count} not what was judged, so not shown (first: {others[0]})")
        yield from (before + line for line in lines)


def _edit_warnings(edits: Edits) -> Iterator[str]:
    """Warn of edits that are not listed, and of those that the numbers leave out."""
    if edits.step > 1:
        yield f"one item in {edits.step:,} is listed ({edits.count:,} edits); tables count all"
    elif edits.is_part:
        yield f"{format_count(edits.count, 'edit is', 'edits are')} listed; tables count all"
    if edits.pending_count:
        are = format_count(edits.pending_count, "edit is", "edits are")
        yield f"{are} pending (not judged yet, or changed since): the numbers leave them out"


def _dimension_json(dimension: Dimension) -> JsonObject:
    return {
        **pick_fields(dimension, "id", "asks", "higher_is_better", "unit"),
        "title": dimension.id.partition(".")[2] or dimension.id,
        "range": [end if math.isfinite(end) else None for end in dimension.range],
    }


def _group_runs(runs: Sequence[PageRun]) -> list[list[int]]:
    """Group the indices of runs whose tables have the same columns and rules."""

    def shape(results: Results) -> tuple[Any, ...]:
        columns = tuple(column.id for column in results.columns)
        rules = (results.benchmark.name, results.protocol, results.switches, results.prompts)
        return (*rules, columns)

    return [*group_by_key((shape(run.results), n) for n, run in enumerate(runs)).values()]


def _table_json(numbers: Sequence[int], runs: Sequence[PageRun]) -> JsonObject:
    """Build one table for runs that have the same columns."""
    first = runs[numbers[0]]
    # Several outputs of a model have one row.
    keys = [(n, model) for n in numbers for model in runs[n].models if model in runs[n].results.models]
    results = _merge_results(first.results, keys, runs)
    columns, left_out = drop_empty_columns(results.columns, results.models, Path(first.name))
    names = list(results.models)
    by_column = [format_column(results, column, names) for column in columns]
    notes = [*explain_leads(chain(*by_column))]
    notes += [*list_reasons(columns, results.models), *left_out]
    notes += describe_size(first.results)
    if any(row[c.id].imputed for row in results.models.values() for c in columns):
        notes.append("* imputed: a rule of the benchmark set some of these numbers, no judge did")
    if first.published_beside is not None:
        notes += describe_comparability(first.published_beside)
    return {
        "title": ", ".join(filter(None, [results.benchmark.title, results.benchmark.table])),
        "about": _describe_runs([runs[number] for number in numbers]),
        "columns": [_column_json(column, results.benchmark) for column in columns],
        "rows": [
            {"model": runs[n].models[model], "cells": [_cell_json(*of[row]) for of in by_column]}
            for row, (n, model) in enumerate(keys)
        ],
        "published": to_plain(first.published_beside.tables) if first.published_beside else [],
        "notes": notes,
    }


def _describe_runs(runs: Sequence[PageRun]) -> list[str]:
    """Say who judged each run and when; runs that say the same share a line."""
    names = group_by_key((describe_judges(run.results), run.name) for run in runs)
    return [f"{', '.join(of)}: {line}" if len(names) > 1 else line for line, of in names.items()]


def _merge_results(results: Results, keys: Sequence[_Key], runs: Sequence[PageRun]) -> Results:
    """Put the rows of all runs into one table; a model name that occurs twice gets its run's."""
    names = [model for _, model in keys]
    labels = [m if names.count(m) == 1 else f"{m} ({runs[n].name}, {n + 1})" for n, m in keys]
    cells = {label: runs[n].results.models[m] for (n, m), label in zip(keys, labels, strict=True)}
    return replace(results, models=cells)


def _cell_json(number: Number, cell: Cell) -> JsonObject:
    """Return a cell as in `summary --json`, with its printed form."""
    return {
        **to_plain(replace(cell, signature=Signature(()))),
        "text": number.text,
        "lead": number.lead,
        "ends": format_interval(cell.interval),
    }


def _column_json(column: Column, benchmark: Benchmark) -> JsonObject:
    decimals = benchmark.decimals if column.decimals is None else column.decimals
    names = ("id", "group", "title", "higher_is_better", "source", "dimensions")
    return pick_fields(column, *names) | {"decimals": decimals}


def _try_figures(runs: Sequence[PageRun]) -> tuple[list[JsonObject], list[str]]:
    """Return the figures of all runs, or a warning why there are none."""
    try:
        return [figure for run in runs for figure in _draw_figures(run)], []
    except MissingExtra as error:
        return [], [f"without figures: {error}"]


def _draw_figures(run: PageRun) -> Iterator[JsonObject]:
    """Draw the figures of the benchmark's paper for which the run has numbers."""
    results = run.results
    numbers = {m: {c: cell.value for c, cell in row.items()} for m, row in results.models.items()}
    if len(numbers) > MAX_LOOKS:
        return
    warning = untrained_warning(results.untrained)
    for figure in load_figures(results.benchmark.name):
        if svg := draw_figure(figure, results.columns, numbers, "svg", warning, note=results.checks):
            title = f"{figure.kind}, {figure.source}"
            yield {"title": title, "note": run.name, "svg": extract_svg_element(svg)}


def render_page(
    report: Mapping[str, Any],
    edits: Mapping[str, Any],
    details: Mapping[str, Mapping[str, Any] | str] = {},
    pictures: Mapping[str, str] = {},
    mode: Mode = "file",
) -> str:
    """Render a page of results as HTML; text from data is escaped.

    Args:
        report: What `build_report` returns.
        edits: What `Edits.build_index` returns.
        details: Chunks of details by name, for a page that contains them all; as text from
            `dump_script_json` where there are many.
        pictures: Data URIs by name, for a page that contains its pictures.
    """
    template = make_templates(__package__).get_template(f"{_WEB}/page.html.j2")
    return template.render(
        title=report["title"],
        mode=mode,
        report=report,
        style=Markup(_join_sources(".css")),  # noqa: S704 - ours
        script=Markup(_join_sources(".js")),  # noqa: S704 - ours
        policy=build_security_policy(mode),
        blocks=list(_blocks(report, edits, details, pictures)),
        version=package_version("editjudge"),
    )


def _blocks(
    report: Mapping[str, Any], edits: Mapping[str, Any], details: Mapping[str, Any], pictures: Mapping[str, str]
) -> Iterator[tuple[str, str, Markup]]:
    """Yield the data blocks of the page as `(id, type, text)`."""
    for name, chunk in {"report": report, "edits": edits, **details}.items():
        text = chunk if isinstance(chunk, str) else dump_script_json(chunk)
        yield f"data-{name}", _JSON, Markup(text)  # noqa: S704 - escaped for this place
    for name, uri in pictures.items():
        yield f"picture-{name}", "text/plain", Markup(uri)  # noqa: S704 - base64


def build_security_policy(mode: Mode) -> str:
    """Build the content security policy: a page's own style, script and pictures, nothing else."""
    script, style = source_hash(_join_sources(".js")), source_hash(_join_sources(".css"))
    files = _FROM_FILES[mode]
    return (
        f"default-src 'none'; script-src {script}{files}; style-src {style}; img-src data: blob:{files};"
        " connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def dump_script_json(value: object) -> str:
    """Dump JSON that is safe in a script element and as an expression of a script.

    Lone surrogates from a judge's reply, which no file can hold, are escaped.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a service may return NaN or infinity, which become text
        value = json.loads(json.dumps(value), parse_constant=str)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_ESCAPE).encode("utf-8", "backslashreplace").decode()


@cache
def _join_sources(suffix: str) -> str:
    """Join all source files with this suffix, in the order of their names."""
    folder = files(__package__) / _WEB
    texts = {one.name: one for one in folder.iterdir() if one.name.endswith(suffix)}
    return "".join(texts[name].read_text("utf-8") for name in sorted(texts))


def source_hash(text: str) -> str:
    """Hash a script or a style sheet for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
