"""A run while it goes on: live on a terminal, lines elsewhere, or events as JSON."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..run.progress import Progress, as_event, took
from .table import usage_text

if TYPE_CHECKING:
    from ..panel import Panel


class Display:
    """Says nothing; what the others build on. Use as a context manager.

    Attributes:
        every: Seconds between two calls of `tick`.
    """

    every = 1.0

    def __init__(self) -> None:
        self.progress = Progress()
        self.panel: Panel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def started(self, progress: Progress, panel: Panel | None) -> None:
        """Judging begins."""
        self.progress, self.panel = progress, panel

    def tick(self) -> None:
        """Some time has gone by."""

    def say(self, line: str) -> None:
        """Something people should know."""
        click.echo(line, err=True)


class Lines(Display):
    """A line now and then, on standard error."""

    every = 5.0

    def tick(self) -> None:
        """One line: how far, how fast, and what is in flight."""
        click.echo(summary(self.progress, self.panel), err=True)


class Events(Display):
    """One JSON object per line, on standard output."""

    every = 2.0

    def started(self, progress: Progress, panel: Panel | None) -> None:
        """The event `started`."""
        super().started(progress, panel)
        emit("started", as_event(progress) | {"services": panel.identities() if panel else {}})

    def tick(self) -> None:
        """The event `progress`."""
        emit("progress", as_event(self.progress) | now(self.panel, self.progress))

    def say(self, line: str) -> None:
        """The event `note`."""
        emit("note", {"text": line})


class Terminal(Display):
    """A table that is drawn anew, on standard error.

    Drawn when it is told to, not by a thread of its own: what it shows belongs to the event loop.
    """

    every = 0.25

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def tick(self) -> None:
        """Draw how far it is."""
        line = Text(summary(self.progress, self.panel), "dim")
        self._live.update(Group(_table(self.progress), line), refresh=True)

    def say(self, line: str) -> None:
        """Above the table."""
        self._console.print(Text(line))


def display(*, as_json: bool) -> Display:
    """What suits where the output goes."""
    if as_json:
        return Events()
    return Terminal() if sys.stderr.isatty() else Lines()


def emit(event: str, data: dict[str, Any]) -> None:
    """Print one event."""
    shown = {"event": event, "time": round(time.time(), 3), **data}
    click.echo(json.dumps(shown, allow_nan=False, ensure_ascii=False))


def now(panel: Panel | None, progress: Progress) -> dict[str, Any]:
    """What is in flight at each endpoint, and what generalists took."""
    return {
        "endpoints": {
            url: {"limit": g.limit, "in_flight": g.in_flight, "waiting": g.waiting, "open": g.open}
            for url, g in (panel.gauges() if panel else {}).items()
        },
        "usage": took(panel, progress),
    }


def summary(progress: Progress, panel: Panel | None) -> str:
    """How far a run is, in one line."""
    done = sum(line.done for line in progress.lines.values())
    total = sum(line.total for line in progress.lines.values())
    parts = [f"{progress.judged:,}/{progress.edits:,} edits, {done:,}/{total:,} verdicts"]
    counts = {
        status: sum(getattr(line, status) for line in progress.lines.values())
        for status in ("unscored", "failed")
    }
    parts += [f"{count:,} {status}" for status, count in counts.items() if count]
    if progress.rate:
        parts.append(f"{progress.rate:.3g} edits/s")
    if progress.seconds_left:
        parts.append(f"{clock(progress.seconds_left)} left")
    for url, gauge in (panel.gauges() if panel else {}).items():
        waiting = f"+{gauge.waiting}" if gauge.waiting else ""
        broken = ", unreachable" if gauge.open else ""
        parts.append(f"{url} {gauge.in_flight}{waiting} of {gauge.limit} in flight{broken}")
    if usage := took(panel, progress):
        parts.append(usage_text(usage))
    return "; ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _table(progress: Progress) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, side in (("dimension", "left"), ("", "left"), ("verdicts", "right")):
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    table.add_column("unscored", justify="right", style="yellow")
    table.add_column("failed", justify="right", style="bold red")
    for name, line in progress.lines.items():
        bar = ProgressBar(total=max(line.total, 1), completed=line.done, width=24)
        table.add_row(
            name,
            bar,
            f"{line.done:,}/{line.total:,}",
            f"{line.unscored:,}" if line.unscored else "",
            f"{line.failed:,}" if line.failed else "",
        )
    return table
