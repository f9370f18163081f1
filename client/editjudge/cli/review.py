"""`editjudge review`: what people decided on the page of `editjudge prepare`."""

from __future__ import annotations

from pathlib import Path

import click

from ..base.screen import say, say_json
from ..base.strict import text_of
from ..base.words import counted
from ..prepare.folder import Folder
from ..prepare.review import apply
from .options import PATH, takes


@click.command("review")
@click.argument("folder", type=PATH, metavar="DIR")
@click.argument("decisions", type=PATH, metavar="FILE")
@takes("json")
def command(folder: Path, decisions: Path, *, json: bool) -> None:
    """Apply what was decided on the page of DIR, and saved as FILE.

    Accepted items go to DIR/accepted.jsonl, together with those that nothing was made for;
    rejected ones to DIR/rejected.jsonl, without their questions or mask. Undecided ones go to
    neither.
    """
    reviewed = apply(Folder(folder), decisions)
    if json:
        say_json(text_of(reviewed))
        return
    for name, note in reviewed.rejected.items():
        say(f"rejected: {name}{f': {note}' if note else ''}")
    say(
        f"{reviewed.accepted:,} accepted, {len(reviewed.rejected):,} rejected,"
        f" {len(reviewed.undecided):,} not decided, {reviewed.untouched:,} untouched"
    )
    say(f"{reviewed.accepted_data}: {counted(reviewed.accepted + reviewed.untouched, 'item')}")
    say(f"{reviewed.rejected_data}: {counted(len(reviewed.rejected), 'item')}")
