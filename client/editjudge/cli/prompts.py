"""`editjudge prompts`: bring official prompts here."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.wire.base import text_of
from ..app.wire.lists import Imported
from ..base.official import import_official_prompts, official_prompts
from ..base.screen import say, say_json
from .options import json_option


@click.group("prompts")
def command() -> None:
    """Import the official prompts of a benchmark.

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
    help="A copy of the official repository, or a file or folder with the texts.",
)
@json_option
def import_(name: str, source: Path, as_json: bool) -> None:
    """Find the prompts of BENCH by their digests and keep them.

    A text that differs in one byte is not taken.
    """
    files = import_official_prompts(name, source)
    folder = official_prompts()[name].folder
    if as_json:
        say_json(text_of(Imported(prompts=name, folder=folder, found=files)))
        return
    for file, path in files.items():
        say(f"{file} from {path}")
    say(f"kept in {folder}")
