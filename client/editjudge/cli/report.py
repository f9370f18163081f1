"""`editjudge report`: a page of results, to be kept and passed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from rich.progress import track

from ..base.console import console
from ..base.screen import say, tell
from ..base.words import counted
from ..report.pictures import SIDE
from ..report.site import write_report

_SHOWN = 3


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE|DIR",
    help="One file where it ends in .html, for up to about 1,000 edits; else a folder.",
)
@click.option("--published", is_flag=True, help="Also the rows that the papers print.")
@click.option("--force", is_flag=True, help="Write over what is no page of editjudge.")
@click.option("--no-pictures", is_flag=True, help="Leave the pictures out.")
@click.option(
    "--size",
    "side",
    type=click.IntRange(64, 2048),
    default=SIDE,
    show_default=True,
    help="Pixels of the longer side of the pictures.",
)
def command(
    runs: tuple[Path, ...], out: Path, published: bool, force: bool, no_pictures: bool, side: int
) -> None:
    """Write runs as a page for the browser: leaderboard, figures, and every edit.

    The page loads nothing from a network. Nothing is called. Works while a run goes on; see also
    view.
    """
    written = write_report(
        runs,
        out,
        published=published,
        force=force,
        pictures=not no_pictures,
        side=side,
        progress=_progress,
    )
    for line in written.unshown[:_SHOWN]:
        tell(f"not shown: {line}")
    if len(written.unshown) > _SHOWN:
        tell(f"and {len(written.unshown) - _SHOWN:,} more pictures")
    say(f"wrote {written.page}: {counted(written.edits, 'edit')}")


def _progress(made: Iterable[str | None], total: int) -> Iterator[str | None]:
    """Draw a bar on a terminal's error output, and nothing elsewhere."""
    drawing = console(err=True)
    hidden = not drawing.is_terminal or not total
    return iter(track(made, "pictures", total=total, console=drawing, disable=hidden))
