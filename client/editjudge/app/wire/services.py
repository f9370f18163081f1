"""Services as JSON: `doctor`."""

from __future__ import annotations

from ...base.strict import Strict


class Finding(Strict):
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
