"""Displays the progress of a run: a live table, lines of text, or events as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ..base.console import make_console, style_text
from ..base.strict import to_json
from ..base.terminal import print_json_text, print_notice
from ..base.text import cut_middle, format_count
from ..engine.events import CountsEvent, NoteEvent, ProgressEvent, RunEvent
from ..engine.progress import DimensionProgress
from .numbers import format_usage

_SELDOM = 0.1
"""Share of the elapsed time that passes between two lines; an hour has about 50 lines."""
_ENDPOINTS = 3
"""Number of endpoints that a terminal shows."""


class Display(AbstractContextManager["Display"]):
    """Shows the events of a run; used as a context manager and as the run's `progress`.

    Attributes:
        seconds_between: Seconds between two events of kind `progress`.
    """

    seconds_between = 1.0

    def __exit__(self, *_: object) -> None:
        """End the display; the base class has nothing to end."""

    def __call__(self, event: RunEvent) -> None:
        """Show an event."""
        match event:
            case NoteEvent():
                self.show_message(event.text)
            case ProgressEvent():
                self.show_progress(event)

    def show_message(self, line: str) -> None:
        """Show a message to the user."""
        print_notice(line)

    def show_progress(self, event: ProgressEvent) -> None:
        """Show how far the run is."""


class LineDisplay(Display):
    """Writes lines to standard error, at intervals that grow with the elapsed time."""

    seconds_between = 5.0

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._last_line_at = self._began_at

    def show_progress(self, event: ProgressEvent) -> None:
        """Write one line, unless the last one is too recent."""
        now = time.monotonic()
        if now - self._last_line_at >= (now - self._began_at) * _SELDOM:
            self._last_line_at = now
            print_notice(format_progress(event))


class EventDisplay(Display):
    """Writes one JSON object per line to standard output."""

    seconds_between = 2.0

    def __call__(self, event: RunEvent) -> None:
        """Write the event."""
        print_json_text(to_json(event, indent=None))

    def show_message(self, line: str) -> None:
        """Write the message as an event of kind `note`."""
        self(NoteEvent(text=line))


class TerminalDisplay(Display):
    """Redraws a table on standard error at every event, without a thread of its own."""

    seconds_between = 0.25

    def __init__(self) -> None:
        self._console = make_console(err=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show_progress(self, event: ProgressEvent) -> None:
        """Redraw the table within the size of the terminal."""
        size = self._console.size
        self._live.update(draw_progress(event, size.width, size.height), refresh=True)

    def show_message(self, line: str) -> None:
        """Print the message above the table."""
        self._console.print(line)


def make_display(*, as_json: bool) -> Display:
    """Return events for JSON, a table for a terminal, and lines for any other output."""
    if as_json:
        return EventDisplay()
    return TerminalDisplay() if sys.stderr.isatty() else LineDisplay()


def format_progress(counts: CountsEvent) -> str:
    """Describe in one line how much of a run all its sessions have done."""
    parts = [_edit_text(counts), _verdict_text(counts), *_missing_texts(counts)]
    parts += _speed_texts(counts)
    if isinstance(counts, ProgressEvent):
        parts += _endpoint_texts(counts)
        if counts.usage:
            parts.append(format_usage(counts.usage))
    return "; ".join([f"{parts[0]}, {parts[1]}", *parts[2:]])


def _edit_text(counts: CountsEvent) -> str:
    before = counts.judged_before
    earlier = f" ({before:,} judged before)" if before else ""
    return f"{before + counts.judged:,}/{before + counts.edits:,} edits{earlier}"


def _verdict_text(counts: CountsEvent) -> str:
    lines = counts.verdicts.values()
    verdicts = sum(line.verdict_count for line in lines)
    return f"{verdicts:,}/{sum(line.total for line in lines):,} verdicts"


def _missing_texts(counts: CountsEvent) -> Iterator[str]:
    for status in ("unscored", "failed"):
        if count := sum(getattr(line, status) for line in counts.verdicts.values()):
            yield f"{count:,} {status}"


def _speed_texts(counts: CountsEvent) -> Iterator[str]:
    if counts.edits_per_second:
        yield f"{counts.edits_per_second:.3g} edits/s"
    if counts.seconds_left:
        yield f"{format_duration(counts.seconds_left)} left"


def _endpoint_texts(event: ProgressEvent) -> list[str]:
    parts = []
    for url, endpoint in event.endpoints.items():
        queue_note = f"+{endpoint.waiting}" if endpoint.waiting else ""
        retries = format_count(endpoint.again, "retry", "retries")
        retry_note = f", {retries}" if endpoint.again else ""
        lost_time, end = map(format_duration, (endpoint.lost_seconds, endpoint.seconds_to_end))
        open_note = f", lost {lost_time} ago, calls fail in {end}" if endpoint.open else ""
        wait_note = f", waits for {endpoint.waits_for}" if endpoint.waits_for else ""
        parts.append(
            f"{url} {endpoint.in_flight}{queue_note} of {endpoint.limit} in flight"
            f"{retry_note}{open_note}{wait_note}"
        )
    return parts


def format_duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def draw_progress(event: ProgressEvent, width: int, height: int) -> Group:
    """Draw the progress of a run for a terminal of `width` columns and `height` rows.

    A bar over all edits advances with every call; beside it stand the speed and the time left,
    below it the calls in flight at each endpoint, the usage, and as many dimensions as fit.
    """
    before = event.judged_before
    bar = ProgressBar(total=max(before + event.edits, 1), completed=before + event.done, width=24)
    head = Table.grid(padding=(0, 2))
    head.add_column(width=24)
    head.add_column(no_wrap=True, overflow="ellipsis")
    head.add_row(bar, "; ".join([_edit_text(event), *_speed_texts(event)]))
    calls = _endpoint_texts(event)
    lines = ["; ".join([_verdict_text(event), *_missing_texts(event)])]
    lines += [format_usage(event.usage)] if event.usage else []
    lines += calls[:_ENDPOINTS]
    if more := len(calls[_ENDPOINTS:]):
        lines.append(f"and {more} more endpoints")
    texts = [style_text(line[:1000], "dim" if place else "") for place, line in enumerate(lines)]
    for text in texts:
        text.truncate(width, overflow="ellipsis")
    # Four more lines are taken by the bar, an empty line, the head of the table and the cursor.
    room = height - len(lines) - 4
    if room <= 1:
        return Group(head, *texts)
    return Group(head, *texts, "", _build_table(event, width, room))


def _build_table(counts: CountsEvent, width: int, room: int) -> Table:
    """List the dimensions; if too many, those with failures and the least progress."""
    wide = width >= 100
    table = Table(box=None, pad_edge=False, width=min(width, 120))
    table.add_column("dimension", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("")
    for title, style in (("verdicts", ""), ("unscored", "yellow"), ("failed", "bold red")):
        table.add_column(title, justify="right", style=style, no_wrap=True)
    names = list(counts.verdicts)
    if len(names) > room:
        urgent = {*sorted(names, key=lambda name: _urgency(counts.verdicts[name]))[: room - 1]}
        names = [name for name in names if name in urgent]
    for name in names:
        line = counts.verdicts[name]
        table.add_row(
            cut_middle(name, max(8, width - (56 if wide else 44))),
            ProgressBar(max(line.total, 1), line.verdict_count, width=24 if wide else 12),
            f"{line.verdict_count:,}/{line.total:,}",
            *(f"{count:,}" if count else "" for count in (line.unscored, line.failed)),
        )
    if others := len(counts.verdicts) - len(names):
        table.add_row(f"and {others} others")
    return table


def _urgency(line: DimensionProgress) -> tuple[bool, float]:
    return not (line.failed or line.unscored), line.verdict_count / max(line.total, 1)
