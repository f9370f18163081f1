"""How far a preparation is, on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.status import Status

from ..base.console import console
from ..base.screen import tell
from ..engine.progress import Progress, took
from ..panel import Panel
from ..report.live import clock
from ..report.numbers import usage_text

_EVERY = 5.0


class Live:
    """A line that is drawn anew on a terminal; elsewhere one now and then."""

    def __init__(self) -> None:
        self._console = console(err=True)
        self._status: Status | None = None
        self._progress = Progress()
        self._panel: Panel | None = None
        self._failed = 0
        self._shown_at = 0.0

    @contextmanager
    def showing(self, progress: Progress, panel: Panel) -> Iterator[None]:
        """Show how far it is while the block runs."""
        self._progress, self._panel, self._shown_at = progress, panel, time.monotonic()
        if not self._console.is_terminal:
            yield
            self.say(self.line())
            return
        with self._console.status(self.line()) as self._status:
            yield
        self._status = None

    def done(self, *, failed: bool) -> None:
        """Count one more item."""
        self._progress.judged_one({}, ())
        self._failed += failed
        if self._status is not None:
            self._status.update(self.line())
        elif time.monotonic() - self._shown_at >= _EVERY:
            self._shown_at = time.monotonic()
            self.say(self.line())

    def say(self, line: str) -> None:
        """Something people should know."""
        if self._status is not None:
            self._console.print(line)
        else:
            tell(line)

    def line(self) -> str:
        """How far it is."""
        progress = self._progress
        parts = [f"{progress.judged:,}/{progress.edits:,} items"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if progress.rate:
            parts.append(f"{progress.rate:.3g} items/s")
        if progress.seconds_left:
            parts.append(f"{clock(progress.seconds_left)} left")
        if usage := took(self._panel, progress):
            parts.append(usage_text(usage))
        return "; ".join(parts)
