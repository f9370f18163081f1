"""A run while it goes on: live on a terminal, lines elsewhere, or events as JSON."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ..app.wire.base import text_of
from ..app.wire.run import Again, Counted, Noted, Progressed, RunEvent
from ..base.console import console, styled
from ..base.screen import say_json, tell
from .table import usage_text


class Display:
    """Shows events; use as a context manager, and give it as a run's `progress`.

    Attributes:
        every: Seconds between two events `progress`.
    """

    every = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __call__(self, event: RunEvent) -> None:
        """Show an event."""
        match event:
            case Noted():
                self.say(event.text)
            case Again():
                self.say(event.outdated.text)
            case Progressed():
                self.progressed(event)

    def say(self, line: str) -> None:
        """Something people should know."""
        tell(line)

    def progressed(self, event: Progressed) -> None:
        """How far it is."""


class Lines(Display):
    """A line now and then, on standard error."""

    every = 5.0

    def progressed(self, event: Progressed) -> None:
        """One line: how far, how fast, and what is in flight."""
        tell(summary(event))


class Events(Display):
    """One JSON object per line, on standard output."""

    every = 2.0

    def __call__(self, event: RunEvent) -> None:
        """As it is."""
        say_json(text_of(event, indent=None))

    def say(self, line: str) -> None:
        """The event `note`."""
        self(Noted(text=line))


class Terminal(Display):
    """A table that is drawn anew, on standard error.

    Drawn when it is told to, not by a thread of its own.
    """

    every = 0.25

    def __init__(self) -> None:
        self._console = console(err=True)
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

    def progressed(self, event: Progressed) -> None:
        """Draw how far it is."""
        self._live.update(Group(_table(event), styled(summary(event), "dim")), refresh=True)

    def say(self, line: str) -> None:
        """Above the table."""
        self._console.print(line)


def display(*, as_json: bool) -> Display:
    """What suits where the output goes."""
    if as_json:
        return Events()
    return Terminal() if sys.stderr.isatty() else Lines()


def summary(counts: Counted) -> str:
    """How far a run is, in one line."""
    lines = counts.verdicts.values()
    done = sum(line.scored + line.unscored + line.failed for line in lines)
    total = sum(line.total for line in lines)
    parts = [f"{counts.judged:,}/{counts.edits:,} edits, {done:,}/{total:,} verdicts"]
    without = {
        "unscored": sum(line.unscored for line in lines),
        "failed": sum(line.failed for line in lines),
    }
    parts += [f"{count:,} {status}" for status, count in without.items() if count]
    if counts.edits_per_second:
        parts.append(f"{counts.edits_per_second:.3g} edits/s")
    if counts.seconds_left:
        parts.append(f"{clock(counts.seconds_left)} left")
    if isinstance(counts, Progressed):
        parts += _in_flight(counts)
    return "; ".join(parts)


def _in_flight(event: Progressed) -> list[str]:
    parts = []
    for url, endpoint in event.endpoints.items():
        waiting = f"+{endpoint.waiting}" if endpoint.waiting else ""
        broken = ", unreachable" if endpoint.open else ""
        waits = f", waits for {endpoint.waits_for}" if endpoint.waits_for else ""
        parts.append(
            f"{url} {endpoint.in_flight}{waiting} of {endpoint.limit} in flight{broken}{waits}"
        )
    if event.usage:
        parts.append(usage_text(event.usage))
    return parts


def clock(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _table(counts: Counted) -> Table:
    table = Table(box=None, pad_edge=False)
    for name, side in (("dimension", "left"), ("", "left"), ("verdicts", "right")):
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    table.add_column("unscored", justify="right", style="yellow")
    table.add_column("failed", justify="right", style="bold red")
    for name, line in counts.verdicts.items():
        done = line.scored + line.unscored + line.failed
        bar = ProgressBar(total=max(line.total, 1), completed=done, width=24)
        table.add_row(
            name,
            bar,
            f"{done:,}/{line.total:,}",
            f"{line.unscored:,}" if line.unscored else "",
            f"{line.failed:,}" if line.failed else "",
        )
    return table
