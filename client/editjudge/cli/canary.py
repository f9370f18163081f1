"""`editjudge canary`: are the judges what they were?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..app.canary import CanaryScore, Examined, checks_file, examine
from ..base.console import console
from ..base.screen import say, say_json
from ..base.strict import text_of
from ..report.table import Head, Row, Table
from .options import flag, settings_of, takes

_COLOURS = {"steady": "green", "shifted": "red", "disordered": "red", "unchecked": "yellow"}
_EXIT = {"steady": 0, "shifted": 3, "disordered": 3, "unchecked": 1}


@click.command("canary")
@takes(
    judge="A generalist, by its name. The default is every one that is configured.",
    rounds="How often each canary is asked; the first look asks three times at least.",
    anew=flag("Make this the first look, with which later ones are compared."),
)
@takes("generalist", "judge_model", "ledger", "json")
def command(judge: tuple[str, ...], rounds: int, *, anew: bool, json: bool, **asked: Any) -> int:
    """Ask judges about ten edits whose order is known, and compare with the first time.

    The first and the last result are remembered beside the ledger, or in the state folder where
    none is configured; run, summary, compare and the page show the last. Exit code 3 when a judge
    shifted beyond its own noise or cannot order the edits, 1 when it could not be asked.
    """
    settings = settings_of(asked)
    shown = examine(settings, judge, rounds, anew=anew)
    if json:
        say_json(text_of(shown))
    else:
        for examined in shown:
            _show(examined, checks_file(settings))
    codes = {_EXIT[examined.state] for examined in shown}
    return next((code for code in (3, 1) if code in codes), 0)


def _show(examined: Examined, file: Path) -> None:
    """A table of the canaries, and the verdict in one line."""
    if any(canary.now is not None or canary.failure for canary in examined.canaries):
        console().print(_table(examined).terminal())
    cost = "" if examined.cost is None else f", cost {examined.cost:.4g}"
    took = f" ({examined.calls:,} calls{cost})"
    why = examined.why
    if examined.first and examined.state == "steady":
        why = f"seen for the first time: later looks are compared with this one, kept in {file}"
    tau = "" if examined.tau is None else f"; order: tau {examined.tau:.2f}"
    say(f"{examined.service}: {why}{tau}{took}", fg=_COLOURS[examined.state])


def _table(examined: Examined) -> Table:
    figures = ("place", "first", "now", "difference")
    heads = (Head("canary"), *(Head(name, right=True) for name in figures))
    since = f"1 to 5; now against the first look, {examined.since or 'none'}"
    return Table(heads, [*map(_row, examined.canaries)], notes=[since])


def _row(canary: CanaryScore) -> Row:
    before = by = "-"
    if canary.before is not None:
        before = f"{canary.before:.2f}" + ("" if canary.sd is None else f" ± {canary.sd:.2f}")
    if canary.now is None:
        cells = (canary.canary, canary.place, before, canary.failure or "-", by)
        return Row(cells, style="yellow")
    if canary.before is not None:
        by = f"{canary.now - canary.before:+.2f}"
    return Row((canary.canary, canary.place, before, f"{canary.now:.2f}", by))
