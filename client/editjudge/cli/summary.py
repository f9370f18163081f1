"""`editjudge summary`: the table of the paper, from a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..app.canary import last_checks
from ..app.results import PublishedBeside, Results, published_beside
from ..app.view import RunView
from ..base.console import console
from ..base.errors import ConfigError
from ..base.screen import say, say_json
from ..base.strict import text_of
from ..base.words import counted
from ..benchmarks.rounds import JudgeRounds
from ..report.numbers import legend, untrained_line
from ..report.summary import (
    agreement_tables,
    comparability,
    counted_lines,
    narrowed,
    reasons,
    results_tables,
    typeset,
    with_something,
    without_intervals,
)
from ..report.table import Form, Table
from .options import PATH, choice, flag, rules_of, takes


@click.command("summary")
@click.argument("run", type=PATH)
@takes(
    "single_image",
    "protocol",
    "with_",
    "without",
    "dimension",
    "model",
    "published",
    count_missing=flag(
        "The second mean: a missing output counts as the worst value there is, and is marked."
    ),
    common=flag("Count in each dimension only items on which all models have a number."),
    each_round=flag("Show the number of every round beside their mean."),
    format_=choice(
        ["latex", "markdown", "csv", "json"],
        "For a paper: best bold, second underlined, coverage in footnotes.",
    ),
    unserved=flag("Name what waits for models that nobody serves, and why."),
)
@takes("json")
def command(
    run: Path,
    single_image: tuple[str, ...],
    dimension: tuple[str, ...],
    model: tuple[str, ...],
    format_: Form | None,
    *,
    published: bool,
    count_missing: bool,
    common: bool,
    each_round: bool,
    unserved: bool,
    json: bool,
    **asked: Any,
) -> int:
    """Show a run as the table of its benchmark's paper; nothing is called.

    Every number has its coverage: how many of the verdicts asked for have a number. Works while
    the run goes on. Other rules than the run's own (--protocol, --with, --without)
    make composites anew from the verdicts there are.
    """
    if format_ and (json or published or each_round or unserved):
        raise ConfigError(
            "--format goes with none of --json, --published, --each-round, --unserved", "leave one"
        )
    with RunView(run) as view:
        rules = rules_of(asked, view.spec)
        results = view.results(single_image, rules, count_missing=count_missing, common=common)
        waiting = _waiting(view, results) if unserved else None
    if format_:
        say(typeset(results, format_, dimension, model).rstrip("\n"))
        return 0
    results = narrowed(results, dimension, model)
    printed = published_beside(results) if published else None
    if json:
        say_json(text_of(replace(results, published=printed, unserved=waiting)))
    else:
        _show(results, printed, run, each_round=each_round)
        for reason, names in (waiting or {}).items():
            say(f"- {reason}: {', '.join(names)}")
        if checks := last_checks(results.identities):
            say(checks)
    return 0


def _waiting(view: RunView, results: Results) -> dict[str, list[str]]:
    """Why dimensions that ask anything wait for a model: each reason with them."""
    cells = results.cells.values()
    asking = {
        name
        for column in results.columns
        if any(row[column.id].asked for row in cells)
        for name in column.dimensions
    }
    reasons: dict[str, list[str]] = {}
    for name, reason in view.waiting().items():
        if name in asking:
            reasons.setdefault(reason, []).append(name)
    return reasons


def _show(
    results: Results, printed: PublishedBeside | None, run: Path, *, each_round: bool
) -> None:
    """The table, with what it is about above it and what has no number below."""
    _say_above(results)
    screen = console()
    show = partial(
        results_tables,
        cells=results.cells,
        beside=results,
        width=screen.width,
        decimals=results.benchmark.decimals,
        each_round=each_round,
    )
    told, left_out = with_something(results.columns, results.cells, run)
    if printed is not None:
        _show_published(printed, show, screen)
    elif told:
        _print(screen, show(told))
    columns = printed.shown if printed else told
    of_table = (row[column.id] for row in results.cells.values() for column in columns)
    for line in (
        *legend(of_table),
        *reasons(columns, results.cells),
        *without_intervals(columns, results.cells),
        *(() if printed else left_out),
        *counted_lines(results),
    ):
        say(line)
    if results.agreement:
        _print(screen, agreement_tables(results.agreement))


def _print(screen: Console, tables: Iterable[Table]) -> None:
    for table in tables:
        screen.print(table.terminal())


def _say_above(results: Results) -> None:
    about = [
        results.benchmark.title,
        results.benchmark.table,
        results.protocol,
        counted(results.items, "item"),
    ]
    if results.words:
        about.append(f"prompts: {results.words}")
    say(", ".join(filter(None, about)))
    for role, identity in results.identities.items():
        say(f"{role}: {identity}")
    if warning := untrained_line(results.identities):
        say(warning, fg="red", bold=True)
    if results.judge_rounds.each and any(role.is_generalist for role in results.identities):
        say(_judges(results.judge_rounds))


def _show_published(
    printed: PublishedBeside, show: Callable[..., Iterable[Table]], screen: Console
) -> None:
    """Each table of the paper beside the run's numbers, then what can be compared."""
    for table in printed.tables:
        note = f" ({table.note})" if table.note else ""
        say(f"† published: {printed.title}, {table.source}, judge: {table.judge}{note}")
        rows = {f"† {model}": row for model, row in table.models.items()}
        _print(screen, show(printed.columns_of(table), published=rows))
    for line in comparability(printed):
        say(line)


def _judges(judge_rounds: JudgeRounds) -> str:
    """Name the judges whose numbers these are."""
    names = ", ".join(judge_rounds.judges)
    text = f"judged by {names}" if len(judge_rounds.judges) == 1 else f"means of the judges {names}"
    if judge_rounds.rounds > 1:
        text += f", {judge_rounds.rounds} rounds each; sd is the standard deviation over rounds"
    return text
