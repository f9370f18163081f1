"""Services as JSON: `doctor` and `status`."""

from __future__ import annotations

from pathlib import Path

from ...base.local import LocalFront, LocalGeneralist, LocalJudge
from .base import Wire


class Finding(Wire):
    """An entry of `doctor --json`: one service or endpoint.

    Attributes:
        round_trip_ms: Median of calls that compute nothing; of a generalist, until it answered.
        answer: Whether its known answer is right, or that none is known; how a generalist's
            choices are scored.
        team: As whom a front door knows the caller; empty where none says.
        access: What a call without the key and headers of the settings met, or why none could be
            tried; empty where there are none.
        problem: Empty where all is well.
        mend: What to do about it.
    """

    service: str
    endpoint: str = ""
    server: str = ""
    identity: str = ""
    round_trip_ms: float | None = None
    answer: str = ""
    team: str = ""
    access: str = ""
    problem: str = ""
    mend: str = ""


class NoStack(Wire):
    """`status --json` where no local stack runs."""

    running: bool = False


class Stack(Wire):
    """`status --json`: the local stack.

    Attributes:
        grpc: Empty without Triton, like `http` and `metrics`.
        started: Seconds since the epoch.
        generalist: Null without one.
        judge: The Judge service over them; null without one.
        front: The front door before it; null without one.
        stop_seconds: That ending it may take, with what is in flight.
        services: Identities, by role.
        unloaded: Models that could not be loaded, and why.
        problem: Empty where all is well.
        unserved: With `--unserved`, by service that is not there, the dimensions that need it;
            null without.
    """

    running: bool = True
    pid: int
    grpc: str
    http: str
    metrics: str
    log: Path
    started: float
    generalist: LocalGeneralist | None
    judge: LocalJudge | None = None
    front: LocalFront | None = None
    stop_seconds: float = 0.0
    uptime_seconds: float
    services: dict[str, str]
    unloaded: dict[str, str]
    problem: str
    unserved: dict[str, tuple[str, ...]] | None = None
