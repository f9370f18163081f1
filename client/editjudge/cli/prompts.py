"""`editjudge prompts`: bring the authors' own prompts here."""

from __future__ import annotations

from pathlib import Path

import click

from ..prompts.originals import import_originals, originals
from ..report.result import dumps
from .options import json_option


@click.group("prompts")
def command() -> None:
    """Import the authors' own prompts.

    They lie under EDITJUDGE_PROMPTS_DIR, or in the user's data folder. `editjudge list prompts`
    shows ours.
    """


@command.command("import")
@click.argument("name", metavar="BENCH")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    help="The authors' repository, or a file or folder with their texts.",
)
@json_option
def import_(name: str, source: Path, as_json: bool) -> None:
    """Find the prompts of BENCH by their digests and keep them.

    A text that differs in one byte is not taken.
    """
    found = import_originals(name, source)
    folder = originals()[name].folder
    if as_json:
        shown = {file: str(path) for file, path in found.items()}
        click.echo(dumps({"prompts": name, "folder": str(folder), "found": shown}))
        return
    for file, path in found.items():
        click.echo(f"{file} from {path}")
    click.echo(f"kept in {folder}")
