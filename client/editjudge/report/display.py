"""Displays the progress of a run: a bar, lines of text, or events as JSON."""

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
from ..base.text import format_count
from ..engine.events import CountsEvent, NoteEvent, ProgressEvent, RunEvent
from .numbers import format_usage

_SELDOM = 0.1
"""Share of the elapsed time that passes between two lines; an hour has about 50 lines."""
_ENDPOINTS = 3
"""Number of endpoints that a terminal shows."""


class Display(AbstractContextManager["Display"]):
    """Shows the events of a run; used as a context manager and as the run's `progress`.

    It writes lines to standard error, at intervals that grow with the elapsed time.

    Attributes:
        seconds_between: Seconds between two events of kind `progress`.
    """

    seconds_between = 5.0

    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._last_line_at = self._began_at

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
        """Show how far the run is, unless the last line is too recent."""
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


class TerminalDisplay(Display):
    """Redraws a bar and some lines on standard error at every event, without its own thread."""

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
        """Redraw the lines within the width of the terminal."""
        self._live.update(draw_progress(event, self._console.size.width), refresh=True)

    def show_message(self, line: str) -> None:
        """Print the message above the bar."""
        self._console.print(line)


def make_display(*, as_json: bool) -> Display:
    """Return events for JSON, a bar for a terminal, and lines for any other output."""
    if as_json:
        return EventDisplay()
    return TerminalDisplay() if sys.stderr.isatty() else Display()


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
            f"{url} {endpoint.in_flight}{queue_note} of {endpoint.limit} in flight{retry_note}{open_note}{wait_note}"
        )
    return parts


def format_duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def draw_progress(event: ProgressEvent, width: int) -> Group:
    """Draw the progress of a run for a terminal of `width` columns.

    Beside a bar over all edits stand the speed and the time left, below it the verdicts, the
    usage, and the calls in flight at up to three endpoints.
    """
    before = event.judged_before
    bar = ProgressBar(total=max(before + event.edits, 1), completed=before + event.judged, width=24)
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
    return Group(head, *texts)
