"""Events of a run, as a callback gets them and as `run --json` prints them, one in a line."""

import time
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field

from ..base.identity import format_identities
from ..base.strict import Number, Strict
from ..benchmarks.cell import Cell
from ..panel import Panel
from ..panel.replica import ServerLoad
from .progress import DimensionProgress, Progress, UnscoredCount, summarise_usage

RunEndReason: TypeAlias = Literal["done", "cost", "failures", "judge", "interrupted"]


class Event(Strict):
    """An event of a run.

    Attributes:
        event: The kind of the event.
        time: Seconds since the epoch.
    """

    event: str
    time: float = Field(default_factory=lambda: round(time.time(), 3))


class CountsEvent(Event):
    """An event with counts of how far the run is.

    Attributes:
        edits: How many edits this session has to judge.
        judged: How many of these it has judged.
        judged_before: How many edits earlier sessions finished.
        missing_outputs: How many outputs are missing.
        edits_per_second: The rate over the last minute.
        seconds_left: How long the rest takes at this rate; null before there is a rate, while a
            server that was lost is waited for, and where nothing is judged any more.
        verdicts: Counts of verdicts by dimension, of all sessions.
    """

    edits: int
    judged: int
    judged_before: int
    missing_outputs: int
    edits_per_second: float
    seconds_left: float | None
    verdicts: dict[str, DimensionProgress]

    @classmethod
    def of(cls, progress: Progress, **more: object) -> Self:
        """Make an event of a session's counts and the further fields of its kind."""
        left = progress.seconds_left
        counts = {
            "edits": progress.edits,
            "judged": progress.judged_edits,
            "judged_before": progress.judged_before,
            "missing_outputs": progress.missing,
            "edits_per_second": round(progress.rate, 3),
            "seconds_left": None if left is None else round(left, 1),
            "verdicts": {name: replace(line) for name, line in progress.lines.items()},
        }
        return cls.model_validate(counts | more)


class StartEvent(CountsEvent):
    """Judging begins.

    Attributes:
        services: Identities of the services, by role.
    """

    event: Literal["started"] = "started"
    services: dict[str, str]

    @classmethod
    def by(cls, progress: Progress, panel: Panel) -> Self:
        """Make the event with the services of a panel."""
        return cls.of(progress, services=format_identities(panel.identities()))


class ProgressEvent(CountsEvent):
    """Sent at regular intervals while edits are judged.

    Attributes:
        endpoints: The load of each endpoint, by address.
        usage: What judges used in this session: calls, tokens, cost.
    """

    event: Literal["progress"] = "progress"
    endpoints: dict[str, ServerLoad]
    usage: dict[str, Number]

    @classmethod
    def by(cls, progress: Progress, panel: Panel) -> Self:
        """Make the event with the load of a panel's endpoints."""
        endpoints = panel.measure_loads()
        usage = summarise_usage(panel, progress)
        more: dict[str, object] = {"endpoints": endpoints, "usage": usage}
        if any(one.open and one.in_flight + one.waiting for one in endpoints.values()):
            more["seconds_left"] = None  # while a server is waited for, nothing is known
        return cls.of(progress, **more)


class NoteEvent(Event):
    """A message for people.

    Attributes:
        text: The message.
    """

    event: Literal["note"] = "note"
    text: str


class FinishEvent(CountsEvent):
    """The session is over.

    Attributes:
        ended: Why it ended: `done`, or early: `interrupted`, `failures` (too many verdicts
            failed), `cost` (the budget is spent) or `judge` (a judge cannot be used).
        exit_code: The exit code of the command.
        usage: What judges used in this session: calls, tokens, cost.
        unscored: Verdicts of this session without a number, by kind.
        first_failure: The error of the first failed verdict.
        not_served: The dimensions that were not judged for lack of a service, by reason.
        columns: Means by model and dimension.
    """

    event: Literal["finished"] = "finished"
    ended: RunEndReason
    exit_code: int
    usage: dict[str, Number]
    unscored: dict[str, UnscoredCount]
    first_failure: str | None
    not_served: dict[str, list[str]]
    columns: dict[str, dict[str, Cell]]


RunEvent: TypeAlias = Annotated[StartEvent | ProgressEvent | NoteEvent | FinishEvent, Field(discriminator="event")]
