"""`editjudge rescore`: judge a run again from its stored replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .options import json_option


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
    _show(changes)
    if not write and any(change.changed for change in changes.values()):
        click.echo("nothing was changed in the run; --write keeps the new verdicts", err=True)
    return 0


def _as_data(key: tuple[str, str], change: Any) -> dict[str, Any]:
    def side(one: Any) -> dict[str, Any]:
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


def _show(changes: Any) -> None:
    from rich.table import Table

    from ..report.table import console

    table = Table()
    for title in ("model", "dimension"):
        table.add_column(title, no_wrap=True)
    for title in ("before", "after", "changed"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("could not be judged again", overflow="fold")
    for (model, dimension), change in changes.items():
        kept = f"{change.kept:,}: {change.why}" if change.kept else ""
        cells = (_side(change.before), _side(change.after), f"{change.changed:,}", kept)
        table.add_row(model, dimension, *cells)
    console().print(table)


def _side(side: Any) -> str:
    mean = "-" if side.mean is None else f"{side.mean:.4g}"
    return f"{mean} ({side.counts['scored']}/{side.counts.total()})"
