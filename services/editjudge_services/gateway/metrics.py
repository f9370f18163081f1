"""What the service counts since it began, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .accounting import RequestAccount
from .usage import TeamUsage

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
_COUNTERS = {
    "requests": (
        "Requests, each edit of its own, by what became of them.",
        *("team", "method", "status"),
    ),
    "edits": ("Edits that were judged.", "team"),
    "calls": ("Calls to judges and specialists.", "team", "kind"),
    "tokens": (
        "Tokens that judges took; cached ones are among those of prompts.",
        *("team", "kind"),
    ),
    "cost": ("What calls have cost, in the currency of the prices.", "team"),
    "audit_lost": ("Lines of the audit that could not be written.",),
}
"""What each counter says of itself, and its labels."""
_CALLS = {"made": "calls", "cached": "cached", "failed": "failed"}
_TOKENS = {"prompt": "prompt_tokens", "cached": "cached_tokens", "completion": "completion_tokens"}


class Metrics:
    """Counters and gauges.

    Args:
        gauges: What is now, each with what it says and how to read it.

    Attributes:
        audit_lost: Lines of the audit that could not be written.
    """

    def __init__(self, **gauges: tuple[str, Callable[[], float]]) -> None:
        self._registry = CollectorRegistry()
        counters = {
            name: Counter(f"editjudge_{name}", says, labels, registry=self._registry)
            for name, (says, *labels) in _COUNTERS.items()
        }
        self._requests, self._edits = counters["requests"], counters["edits"]
        self._calls, self._tokens = counters["calls"], counters["tokens"]
        self._cost, self.audit_lost = counters["cost"], counters["audit_lost"]
        self._seconds = Histogram(
            "editjudge_request_seconds",
            "From a request's arrival to its answer.",
            ("method",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        for name, (says, now) in gauges.items():
            Gauge(f"editjudge_{name}", says, registry=self._registry).set_function(now)

    def add(self, team: str, used: TeamUsage) -> None:
        """Count what a team has used."""
        self._edits.labels(team).inc(used.edits)
        self._cost.labels(team).inc(used.cost)
        for counter, kinds in ((self._calls, _CALLS), (self._tokens, _TOKENS)):
            for kind, name in kinds.items():
                counter.labels(team, kind).inc(getattr(used, name))

    def count(self, account: RequestAccount) -> None:
        """Count a request that is over."""
        caller = account.caller
        self._requests.labels(caller.team, caller.method, account.code).inc()
        self._seconds.labels(caller.method).observe(account.seconds)

    def text(self) -> bytes:
        """All of it in Prometheus's form."""
        return generate_latest(self._registry)
