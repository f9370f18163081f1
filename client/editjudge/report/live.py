"""A run while it goes on: live on a terminal, lines elsewhere, or events as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ..app.events import Again, Counted, Line, Noted, Progressed, RunEvent
from ..base.console import console, styled
from ..base.screen import say_json, tell
from ..base.strict import text_of
from ..base.words import counted
from .numbers import usage_text

_SELDOM = 0.1
"""Share of the time gone by that passes between two lines: an hour has about 50 of them."""
_ENDPOINTS = 3
"""Whose calls a terminal shows."""


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
    """A line now and then, on standard error: the longer it takes, the more seldom."""

    every = 5.0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told = self._began

    def progressed(self, event: Progressed) -> None:
        """One line, where the last one is a while ago: how far, how fast, and what is in flight."""
        now = time.monotonic()
        if now - self._told >= (now - self._began) * _SELDOM:
            self._told = now
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
        """Draw how far it is, on no more lines than there are."""
        size = self._console.size
        self._live.update(drawn(event, size.width, size.height), refresh=True)

    def say(self, line: str) -> None:
        """Above the table."""
        self._console.print(line)


def display(*, as_json: bool) -> Display:
    """What suits where the output goes."""
    if as_json:
        return Events()
    return Terminal() if sys.stderr.isatty() else Lines()


def summary(counts: Counted) -> str:
    """How far a run is, in one line: what is done of all that was asked for, by all sessions."""
    parts = [_edits(counts), _verdicts(counts), *_without_number(counts), *_speed(counts)]
    if isinstance(counts, Progressed):
        parts += _in_flight(counts)
        if counts.usage:
            parts.append(usage_text(counts.usage))
    return "; ".join([f"{parts[0]}, {parts[1]}", *parts[2:]])


def _edits(counts: Counted) -> str:
    before = counts.judged_before
    earlier = f" ({before:,} judged before)" if before else ""
    return f"{before + counts.judged:,}/{before + counts.edits:,} edits{earlier}"


def _verdicts(counts: Counted) -> str:
    lines = counts.verdicts.values()
    return f"{sum(map(_done, lines)):,}/{sum(line.total for line in lines):,} verdicts"


def _done(line: Line) -> int:
    return line.scored + line.unscored + line.failed


def _without_number(counts: Counted) -> Iterator[str]:
    for status in ("unscored", "failed"):
        if count := sum(getattr(line, status) for line in counts.verdicts.values()):
            yield f"{count:,} {status}"


def _speed(counts: Counted) -> Iterator[str]:
    if counts.edits_per_second:
        yield f"{counts.edits_per_second:.3g} edits/s"
    if counts.seconds_left:
        yield f"{clock(counts.seconds_left)} left"


def _in_flight(event: Progressed) -> list[str]:
    parts = []
    for url, endpoint in event.endpoints.items():
        waiting = f"+{endpoint.waiting}" if endpoint.waiting else ""
        again = f", {counted(endpoint.again, 'retry', 'retries')}" if endpoint.again else ""
        broken = ", unreachable" if endpoint.open else ""
        waits = f", waits for {endpoint.waits_for}" if endpoint.waits_for else ""
        parts.append(
            f"{url} {endpoint.in_flight}{waiting} of {endpoint.limit} in flight"
            f"{again}{broken}{waits}"
        )
    return parts


def clock(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def drawn(event: Progressed, width: int, height: int) -> Group:
    """How far a run is, on a terminal of so many columns and rows.

    A bar over all edits, which moves with every call that is done; speed and time left; what is in
    flight at each endpoint, and what it took; then the dimensions, as many as there is room for.
    """
    before = event.judged_before
    bar = ProgressBar(total=max(before + event.edits, 1), completed=before + event.done, width=24)
    head = Table.grid(padding=(0, 2))
    head.add_column(width=24)
    head.add_column(no_wrap=True, overflow="ellipsis")
    head.add_row(bar, "; ".join([_edits(event), *_speed(event)]))
    facts = "; ".join([_verdicts(event), *_without_number(event)])
    taken = "; ".join(_taken(event.usage))
    lines = [line for line in (facts, taken) if line]
    lines += _few(_in_flight(event), _ENDPOINTS)
    texts = [styled(line[:1000], "dim" if place else "") for place, line in enumerate(lines)]
    for text in texts:
        text.truncate(width, overflow="ellipsis")
    # Beside these lines: the bar, an empty line, the head of the table, and the cursor's.
    room = height - len(lines) - 4
    if room <= 1:
        return Group(head, *texts)
    return Group(head, *texts, "", _table(event, width, room))


def _taken(usage: Mapping[str, float]) -> Iterator[str]:
    """What generalists took in this session, in few words; at the end there are more."""
    if usage:
        known = f" and {usage['known']:,.0f} known" if usage.get("known") else ""
        yield counted(round(usage["calls"]), "call") + known
        yield f"{usage['prompt_tokens'] + usage['completion_tokens']:,.0f} tokens"
    if "cost" in usage:
        yield f"cost {usage['cost']:.4g}"


def _few(lines: list[str], most: int) -> list[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more endpoints"] if more > 0 else [])]


def _table(counts: Counted, width: int, room: int) -> Table:
    """The dimensions, or what is least far of them and the sum of the others."""
    wide = width >= 100
    table = Table(box=None, pad_edge=False, width=min(width, 120))
    table.add_column("dimension", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("", no_wrap=True)
    table.add_column("verdicts", justify="right", no_wrap=True)
    table.add_column("unscored", justify="right", style="yellow", no_wrap=True)
    table.add_column("failed", justify="right", style="bold red", no_wrap=True)
    for name, line in _fitting(counts.verdicts, room).items():
        done = _done(line)
        table.add_row(
            _short(name, width - (56 if wide else 44)),
            ProgressBar(total=max(line.total, 1), completed=done, width=24 if wide else 12),
            f"{done:,}/{line.total:,}",
            f"{line.unscored:,}" if line.unscored else "",
            f"{line.failed:,}" if line.failed else "",
        )
    return table


def _short(name: str, width: int) -> str:
    """A name without its middle, where it is too long: ids differ at their ends."""
    width = max(width, 8)
    return name if len(name) <= width else f"{name[: width // 3]}…{name[width // 3 - width + 1 :]}"


def _fitting(verdicts: Mapping[str, Line], room: int) -> dict[str, Line]:
    """As many dimensions as there is room for, those with trouble and the least done first."""
    if len(verdicts) <= room:
        return dict(verdicts)

    def urgency(name: str) -> tuple[bool, float]:
        line = verdicts[name]
        return not (line.failed or line.unscored), _done(line) / max(line.total, 1)

    chosen = {*sorted(verdicts, key=urgency)[: room - 1]}
    others = [line for name, line in verdicts.items() if name not in chosen]
    shown = {name: line for name, line in verdicts.items() if name in chosen}
    return {
        **shown,
        f"{len(others)} others": Line(
            total=sum(line.total for line in others),
            scored=sum(line.scored for line in others),
            unscored=sum(line.unscored for line in others),
            failed=sum(line.failed for line in others),
        ),
    }
