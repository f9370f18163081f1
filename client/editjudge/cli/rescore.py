"""`editjudge rescore`: judge a run again from its stored replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ..app.rescore import Changes, Rescored, rescored_run
from ..base.console import console
from ..base.screen import say, say_json, tell
from ..base.strict import text_of
from ..benchmarks.cell import Tally
from ..report.table import Head, Row, Table
from .options import PATH, flag, takes


@click.command("rescore")
@click.argument("run", type=PATH)
@takes(
    "json",
    write=flag("Keep the new verdicts in the place of the old ones."),
)
def command(run: Path, *, write: bool, json: bool) -> int:
    """Read the stored replies again with today's code, and show what changed; nothing is called.

    The data and the outputs must be where they were.
    """
    changes = rescored_run(run, write=write)
    if json:
        say_json(text_of([Rescored.of(*key, change) for key, change in changes.items()]))
        return 0
    console().print(changes_table(changes).terminal())
    for line in reasons(changes):
        say(line)
    if not write and any(change.changed for change in changes.values()):
        tell("nothing was changed in the run; --write keeps the new verdicts")
    return 0


def changes_table(changes: Changes) -> Table:
    """A row for each model and dimension: how many verdicts, and their means before and after."""
    words = ("model", "dimension")
    figures = ("verdicts", "mean before", "mean after", "changed", "kept")
    rows = []
    for (model, dimension), change in changes.items():
        means = (_mean(change.before), _mean(change.after))
        count = sum(change.before.statuses.values())
        rows.append(Row((model, dimension, count, *means, change.changed, change.kept)))
    return Table(
        (*(Head(name, fold=True) for name in words), *(Head(name, right=True) for name in figures)),
        rows,
        notes=["Means of the verdicts with a number; missing outputs are not judged."],
    )


def _mean(tally: Tally) -> str:
    mean = tally.mean()
    return "-" if mean is None else f"{mean:.4g} of {tally.counts['scored']:,}"


def reasons(changes: Changes) -> Iterator[str]:
    """Why verdicts were kept as they are, a line for each reason."""
    kept: dict[str, list[str]] = {}
    for (model, dimension), change in changes.items():
        if change.kept:
            of = f"{dimension} of {model} ({change.kept:,})"
            kept.setdefault(change.why, []).append(of)
    for why, verdicts in kept.items():
        yield f"- kept, not judged again: {', '.join(verdicts)}: {why}"
