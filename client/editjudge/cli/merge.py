"""`editjudge merge`: several runs become one."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ..app.merge import Prefer, merge
from ..app.view import RunView
from ..base.screen import say, tell
from ..base.verdict import Outcome, Pending
from ..base.words import counted
from .options import PATH, choice, takes


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@takes(
    out="Folder of the new run.",
    prefer=choice(
        ["first", "last"],
        "Which run counts where outputs or signatures differ; otherwise that is refused.",
    ),
)
def command(runs: tuple[Path, ...], out: Path, prefer: Prefer | None) -> None:
    """Put runs of the same benchmark, protocol and data together in a new one.

    These are the shards of a benchmark, for example, or models that were judged on different
    machines. The old runs stay as they are. What none of them has judged yet is told.
    """
    merged = merge(runs, out, prefer)
    decided = f", {merged.preferred:,} of them decided by --prefer" if merged.preferred else ""
    say(
        f"{out}: {counted(merged.verdicts, 'verdict')} on {counted(merged.edits, 'edit')}"
        f" ({merged.same:,} were in several runs{decided})"
    )
    _tell_pending(out)


def _tell_pending(run: Path) -> None:
    """That a shard is missing or was not done, which the numbers do not show."""
    with RunView(run) as view:
        if view.without_data:
            tell(f"whether everything was judged cannot be told: {view.without_data}")
            return
        pending = [any(map(_is_pending, row.outcomes.values())) for row in view.rows()]
    if count := sum(pending):
        are = counted(count, "edit is", "edits are")
        tell(
            f"{are} not judged yet, of {len(pending):,}: a run is missing, was not done or had a"
            f" --limit; the command of the run goes on with --out {shlex.quote(str(run))}"
        )


def _is_pending(outcome: Outcome) -> bool:
    return isinstance(outcome, Pending)
