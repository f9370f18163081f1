"""`editjudge export`: a run's verdicts as a table in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.export import Asked, Format, export
from ..app.view import RunView
from ..base.screen import say, tell
from ..base.words import counted
from .options import dimension_option, pairs_of

_LABEL_STUDIO = "label-studio"


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "jsonl", _LABEL_STUDIO]),
    required=True,
    help="The form of the file; label-studio: tasks with the judges' numbers as predictions, and "
    "the labelling configuration beside them.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Instead of RUN/verdicts.<form> (edits, tasks).",
)
@click.option(
    "--wide", is_flag=True, help="A row for each edit, with a column for each dimension's value."
)
@click.option("--pictures", is_flag=True, help="Add the paths of each edit's pictures.")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="FOLDER=URL",
    help="What stands in the place of a folder in the paths of pictures; may be given several "
    "times.",
)
@dimension_option
def command(
    run: Path,
    form: Format,
    out: Path | None,
    wide: bool,
    pictures: bool,
    urls: tuple[str, ...],
    patterns: tuple[str, ...],
) -> None:
    """Write the verdicts of a run to a file, one row each, missing outputs included.

    Works while the run goes on, and has what was judged until then.
    """
    tasks = form == _LABEL_STUDIO
    name = "edits" if wide else "verdicts"
    file = out or run / ("tasks.json" if tasks else f"{name}.{form}")
    asked = Asked(wide, pictures, patterns, pairs_of("--url", urls))
    with RunView(run) as view:
        count = export(view, file, form, asked)
        if gone := view.without_data:
            tell(f"dimensions that the data spoilt are not in the file: {gone}")
    say(f"{file}: {counted(count, 'task' if tasks else 'row')}")
    if tasks:
        say(f"{file.with_suffix('.xml')}: the labelling configuration for them")
    if tasks and not urls:
        tell(
            "the pictures are named as files of the machine Label Studio runs on: start it with "
            "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=/, or give --url FOLDER=URL"
        )
