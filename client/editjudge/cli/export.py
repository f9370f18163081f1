"""`editjudge export`: a run's verdicts as a table in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.export import Format, export
from ..app.view import RunView
from ..base.screen import say, tell


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
    help="Instead of RUN/verdicts.<form>.",
)
def command(run: Path, form: Format, out: Path | None) -> None:
    """Write the verdicts of a run to a file, one row each, missing outputs included.

    Works while the run goes on, and has what was judged until then.
    """
    file = out or run / f"verdicts.{form}"
    with RunView(run) as view:
        count = export(view, file, form)
        if gone := view.without_data:
            tell(f"dimensions that the data spoilt are not in the file: {gone}")
    say(f"{file}: {count:,} rows")
