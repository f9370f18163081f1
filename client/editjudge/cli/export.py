"""`editjudge export`: a run's verdicts as a table in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.export import Format, export
from ..app.view import RunView
from ..base.screen import say, tell
from ..base.words import counted


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "form",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    required=True,
    help="The form of the file.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Instead of RUN/verdicts.<form> (edits, earlier).",
)
@click.option(
    "--earlier",
    is_flag=True,
    help="Those in whose place others came, with when and why; they count in nothing.",
)
@click.option(
    "--wide", is_flag=True, help="A row for each edit, with a column for each dimension's value."
)
def command(run: Path, form: Format, out: Path | None, earlier: bool, wide: bool) -> None:
    """Write the verdicts of a run to a file, one row each, missing outputs included.

    Works while the run goes on, and has what was judged until then.
    """
    name = "earlier" if earlier else "edits" if wide else "verdicts"
    file = out or run / f"{name}.{form}"
    with RunView(run) as view:
        count = export(view, file, form, earlier=earlier, wide=wide)
        if not earlier and (gone := view.without_data):
            tell(f"dimensions that the data spoilt are not in the file: {gone}")
        else:
            for line in view.changes().lines:
                tell(line)
    say(f"{file}: {counted(count, 'row')}")
