"""`editjudge report`: serve runs as a page on this machine, or write the page to disk."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.progress import track

from ..base.console import make_console
from ..base.errors import ConfigError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count
from ..report.pictures import SIDE
from ..report.site import write_report
from ..report.view import LiveRuns, serve_page

_MAX_LISTED = 3
"""Number of omitted pictures that are listed by name."""


def report_command(
    runs: tuple[Path, ...], out: Path | None, size: int, port: int, *, published: bool
) -> None:
    """Serve runs as a page, or write the page to disk."""
    if out is not None and port:
        raise ConfigError("--port and --out exclude each other", "leave one out")
    if out is None:
        with LiveRuns(runs, with_published=published) as live:
            asyncio.run(_serve(live, port))
    else:
        _write(runs, out, paper=published, size=size)


def _write(runs: tuple[Path, ...], out: Path, *, paper: bool, size: int) -> None:
    side = size or SIDE
    report = write_report(
        runs, out, with_published=paper, pictures=size > 0, side=side, progress=_progress
    )
    for line in report.picture_problems[:_MAX_LISTED]:
        print_notice(f"not shown: {line}")
    if len(report.picture_problems) > _MAX_LISTED:
        print_notice(f"and {len(report.picture_problems) - _MAX_LISTED:,} more pictures")
    print_text(f"wrote {report.page}: {format_count(report.edits, 'edit')}")


def _progress(pictures: Iterable[str | None], total: int) -> Iterator[str | None]:
    """Show a progress bar on stderr if it is a terminal."""
    screen = make_console(err=True)
    is_disabled = not screen.is_terminal or not total
    return iter(track(pictures, "pictures", total=total, console=screen, disable=is_disabled))


async def _serve(live: LiveRuns, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with serve_page(live, port) as address:
        print_text(f"{live.snapshot.title}\n{address}\nCtrl-C stops it.")
        await stop.wait()
