"""Services as JSON: `doctor` and `status`."""

from __future__ import annotations

from pathlib import Path

from ...base.local import LocalGeneralist
from .base import Wire


class Finding(Wire):
    """An entry of `doctor --json`: one service or endpoint.

    Attributes:
        round_trip_ms: Median of calls that compute nothing; of a generalist, until it answered.
        answer: Whether its known answer is right; how a generalist's choices are scored.
        problem: Empty where all is well.
        mend: What to do about it.
    """

    service: str
    endpoint: str = ""
    server: str = ""
    identity: str = ""
    round_trip_ms: float | None = None
    answer: str = ""
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
        services: Identities, by role.
        problem: Empty where all is well.
    """

    running: bool = True
    pid: int
    grpc: str
    http: str
    metrics: str
    log: Path
    started: float
    generalist: LocalGeneralist | None
    uptime_seconds: float
    services: dict[str, str]
    problem: str
