"""`editjudge merge`: several runs become one."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.merge import Prefer, merge
from ..base.screen import say
from ..base.words import counted


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Folder of the new run.",
)
@click.option(
    "--prefer",
    type=click.Choice(["first", "last"]),
    help="Which run counts where outputs or signatures differ; otherwise that is refused.",
)
def command(runs: tuple[Path, ...], out: Path, prefer: Prefer | None) -> None:
    """Put runs of the same benchmark, protocol and data together in a new one.

    These are the shards of a benchmark, for example, or models that were judged on different
    machines. The old runs stay as they are.
    """
    merged = merge(runs, out, prefer)
    decided = f", {merged.preferred:,} of them decided by --prefer" if merged.preferred else ""
    say(
        f"{out}: {counted(merged.verdicts, 'verdict')} on {counted(merged.edits, 'edit')}"
        f" ({merged.same:,} were in several runs{decided})"
    )
