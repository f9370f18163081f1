"""What a run says while it goes on: events, as a callback gets them and as `--json` prints them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field

from ..base.identity import format_identities
from ..base.strict import Number, Strict
from ..benchmarks.cell import Cell
from ..panel import Panel
from .progress import DimensionProgress, Progress, summarise_usage

RunEndReason: TypeAlias = Literal["done", "cost", "failures", "judge", "interrupted"]


class Endpoint(Strict):
    """Calls at one endpoint.

    Attributes:
        open: It cannot be reached.
        waits_for: Why calls wait, or are fewer than they could be; empty where nothing is wrong.
        again: How often a call was made again, since it failed.
    """

    limit: int
    in_flight: int
    waiting: int
    open: bool
    waits_for: str
    again: int


class NoScore(Strict):
    """How many verdicts have no number for one kind of reason, and the first reason."""

    count: int
    first: str


class Event(Strict):
    """Something that a run says.

    Attributes:
        time: Seconds since the epoch.
    """

    event: str
    time: float = Field(default_factory=lambda: round(time.time(), 3))


class CountsEvent(Event):
    """How far a run is.

    Attributes:
        edits: To be judged in this session.
        judged: Of these.
        judged_before: Edits that earlier sessions judged, on which nothing is left.
        missing_outputs: That are not there.
        edits_per_second: Over the last minute; of those in progress the share that is answered.
        seconds_left: At this rate; null before there is one, and where nothing is judged any more.
        verdicts: By dimension, of all sessions.
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
        """The counts of a session, and what this event has besides."""
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
        services: Their identities, by role.
    """

    event: Literal["started"] = "started"
    services: dict[str, str]

    @classmethod
    def by(cls, progress: Progress, panel: Panel | None) -> Self:
        """With the services of a panel."""
        return cls.of(progress, services=format_identities(panel.identities()) if panel else {})


class ProgressEvent(CountsEvent):
    """Some time has gone by.

    Attributes:
        done: Edits judged in this session, those in progress by the share that is answered.
        endpoints: By address.
        usage: What judges took in this session: calls, tokens, cost.
    """

    event: Literal["progress"] = "progress"
    done: float
    endpoints: dict[str, Endpoint]
    usage: dict[str, Number]

    @classmethod
    def by(cls, progress: Progress, panel: Panel | None) -> Self:
        """With what is in flight by a panel."""
        loads = panel.measure_loads() if panel else {}
        endpoints = {
            url: Endpoint(
                limit=load.limit,
                in_flight=load.in_flight,
                waiting=load.queue_length,
                open=load.is_lost,
                waits_for=load.wait_reason,
                again=load.retry_count,
            )
            for url, load in loads.items()
        }
        done_edits = round(progress.done_edits, 3)
        return cls.of(
            progress, done=done_edits, endpoints=endpoints, usage=summarise_usage(panel, progress)
        )


class NoteEvent(Event):
    """Something people should know."""

    event: Literal["note"] = "note"
    text: str


class FinishEvent(CountsEvent):
    """The session is over.

    Attributes:
        ended: `done`; `interrupted`; `failures` (too many), `cost` or `judge` (one cannot be
            used): it ended early.
        exit_code: Of the command line.
        usage: What judges took in this session.
        unscored: Verdicts of this session without a number, by kind.
        first_failure: What the first failed verdict says.
        not_served: Why dimensions were not judged, each reason with the dimensions.
        columns: Means by model and dimension.
    """

    event: Literal["finished"] = "finished"
    ended: RunEndReason
    exit_code: int
    usage: dict[str, Number]
    unscored: dict[str, NoScore]
    first_failure: str | None
    not_served: dict[str, list[str]]
    columns: dict[str, dict[str, Cell]]


RunEvent: TypeAlias = Annotated[
    StartEvent | ProgressEvent | NoteEvent | FinishEvent, Field(discriminator="event")
]


def unscored_of(progress: Progress) -> Mapping[str, NoScore]:
    """Verdicts without a number by kind."""
    return {
        kind: NoScore(count=count, first=progress.no_score_reasons[kind])
        for kind, count in progress.no_score_counts.items()
    }
