"""`editjudge export`: a run's verdicts as a table in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.export import Asked, Format, export
from ..app.view import RunView
from ..base.screen import say, tell
from ..base.words import counted
from .options import PATH, choice, flag, pairs_of, path, takes, texts

_LABEL_STUDIO = "label-studio"


@click.command("export")
@click.argument("run", type=PATH)
@takes(
    "dimension",
    format_=choice(
        ["parquet", "csv", "jsonl", _LABEL_STUDIO],
        "The form of the file. label-studio: tasks with the judges' numbers as predictions, and"
        " the labelling configuration beside them.",
        required=True,
    ),
    out=path(
        "FILE",
        "Instead of RUN/verdicts.<form> (edits, tasks).",
        type=click.Path(path_type=Path, dir_okay=False),
    ),
    wide=flag("A row for each edit, with a column for each dimension's value."),
    pictures=flag("Add the paths of each edit's pictures."),
    url=texts("FOLDER=URL", "What stands in the place of a folder in the paths of pictures."),
)
def command(
    run: Path,
    format_: Format,
    out: Path | None,
    dimension: tuple[str, ...],
    url: tuple[str, ...],
    *,
    wide: bool,
    pictures: bool,
) -> None:
    """Write the verdicts of a run to a file, one row each, missing outputs included.

    Works while the run goes on, and has what was judged until then.
    """
    tasks = format_ == _LABEL_STUDIO
    file = out or run / ("tasks.json" if tasks else f"{'edits' if wide else 'verdicts'}.{format_}")
    asked = Asked(wide=wide, pictures=pictures, dimensions=dimension, urls=pairs_of("--url", url))
    with RunView(run) as view:
        count = export(view, file, format_, asked)
        if gone := view.without_data:
            tell(f"dimensions that the data spoilt are not in the file: {gone}")
    say(f"{file}: {counted(count, 'task' if tasks else 'row')}")
    if tasks:
        say(f"{file.with_suffix('.xml')}: the labelling configuration for them")
    if tasks and not url:
        tell(
            "the pictures are named as files of the machine Label Studio runs on: start it with "
            "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=/, or give --url FOLDER=URL"
        )
