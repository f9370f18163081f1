"""`editjudge rescore`: judge a run again from its stored replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import json_option

if TYPE_CHECKING:
    from rich.table import Table

    from ..run.rescore import Change, Changes, Side


@click.command("rescore")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Keep the new verdicts in the place of the old ones.")
@json_option
def command(run: Path, write: bool, as_json: bool) -> int:
    """Read the stored replies again with today's code and say what changed. Makes no call.

    The data and the outputs must be where they were.
    """
    from ..report.result import dumps
    from ..run.opened import order_of
    from ..run.rescore import rescored
    from ..run.store import RunStore

    with RunStore.open(run, read_only=not write) as store:
        order = order_of(store.header)
        changes = rescored(order, store, write=write)
    if as_json:
        click.echo(dumps([_as_data(key, change) for key, change in changes.items()]))
        return 0
    from ..report.table import console

    console().print(changes_table(changes))
    for line in reasons(changes):
        click.echo(line)
    if not write and any(change.changed for change in changes.values()):
        click.echo("nothing was changed in the run; --write keeps the new verdicts", err=True)
    return 0


def _as_data(key: tuple[str, str], change: Change) -> dict[str, Any]:
    def side(one: Side) -> dict[str, Any]:
        return {"mean": one.mean, "counts": dict(one.counts)}

    return {
        "model": key[0],
        "dimension": key[1],
        "before": side(change.before),
        "after": side(change.after),
        "changed": change.changed,
        "kept": change.kept,
        "why_kept": change.why,
    }


def changes_table(changes: Changes) -> Table:
    """A row for each model and dimension: how many verdicts, and their means before and after."""
    from rich.table import Table

    table = Table(caption="Means of the verdicts with a number; missing outputs are not judged.")
    for title in ("model", "dimension"):
        table.add_column(title, overflow="fold")
    for title in ("verdicts", "mean before", "mean after", "changed", "kept"):
        table.add_column(title, justify="right", no_wrap=True)
    for (model, dimension), change in changes.items():
        counts = (change.before.counts.total(), change.changed, change.kept)
        judged, changed, kept = (f"{count:,}" for count in counts)
        means = (_mean(change.before), _mean(change.after))
        table.add_row(model, dimension, judged, *means, changed, kept)
    return table


def _mean(side: Side) -> str:
    return "-" if side.mean is None else f"{side.mean:.4g} of {side.counts['scored']:,}"


def reasons(changes: Changes) -> Iterator[str]:
    """Why verdicts were kept as they are, a line for each reason."""
    kept: dict[str, list[str]] = {}
    for (model, dimension), change in changes.items():
        if change.kept:
            of = f"{dimension} of {model} ({change.kept:,})"
            kept.setdefault(change.why, []).append(of)
    for why, those in kept.items():
        yield f"- kept, not judged again: {', '.join(those)}: {why}"
