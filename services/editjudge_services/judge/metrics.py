"""What the service counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from .accounts import Used
from .asking import Asking

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)
_USED = (
    ("edits", "Edits that were judged.", {"": "edits"}),
    (
        "calls",
        "Calls to generalists and specialists.",
        {"made": "calls", "cached": "cached", "failed": "failed"},
    ),
    (
        "tokens",
        "Tokens that generalists took; cached ones are among those of prompts.",
        {
            "prompt": "prompt_tokens",
            "cached": "cached_tokens",
            "completion": "completion_tokens",
        },
    ),
    ("cost", "What calls have cost, in the currency of the prices.", {"": "cost"}),
)


class Metrics:
    """Counters since the service began.

    Args:
        used: What each team has used.
        today: What each team has spent on generalists today, and may.
        lost: Lines of the audit that were.
        gauges: What is now, each with what it says and how to read it.
    """

    def __init__(
        self,
        used: Callable[[], Mapping[str, Used]],
        today: Callable[[], tuple[Mapping[str, float], float | None]],
        lost: Callable[[], int],
        gauges: Mapping[str, tuple[str, Callable[[], float]]],
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfTeams(used))
        self._registry.register(_Today(today))
        self._registry.register(_Lost(lost))
        self._registry.register(_Now(gauges))
        self._requests = Counter(
            "editjudge_requests",
            "Requests, each edit of its own, by what became of them.",
            ("team", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "editjudge_request_seconds",
            "From a request's arrival to its answer.",
            ("method",),
            buckets=_SECONDS,
            registry=self._registry,
        )

    def count(self, asking: Asking) -> None:
        """Count a request that is over."""
        caller = asking.caller
        self._requests.labels(caller.team, caller.method, asking.code).inc()
        self._seconds.labels(caller.method).observe(asking.seconds)

    def text(self) -> bytes:
        """All of it in Prometheus's form."""
        return generate_latest(self._registry)


class _OfTeams(Collector):
    def __init__(self, used: Callable[[], Mapping[str, Used]]) -> None:
        self._used = used

    def collect(self) -> Iterable[Metric]:
        for name, says, counts in _USED:
            kinds = ["kind"] if "" not in counts else []
            family = CounterMetricFamily(f"editjudge_{name}", says, labels=["team", *kinds])
            for team, used in self._used().items():
                for kind, count in counts.items():
                    family.add_metric([team, kind][: 1 + len(kinds)], getattr(used, count))
            yield family


class _Today(Collector):
    def __init__(self, today: Callable[[], tuple[Mapping[str, float], float | None]]) -> None:
        self._today = today

    def collect(self) -> Iterator[Metric]:
        spent, limit = self._today()
        says = "What generalists have cost today (UTC), in the currency of the prices."
        family = GaugeMetricFamily("editjudge_cost_today", says, labels=["team"])
        for team, cost in spent.items():
            family.add_metric([team], cost)
        yield family
        if limit is not None:
            says = "What a team may spend on generalists on a day."
            yield GaugeMetricFamily("editjudge_cost_limit", says, value=limit)


class _Lost(Collector):
    def __init__(self, lost: Callable[[], int]) -> None:
        self._lost = lost

    def collect(self) -> Iterator[Metric]:
        says = "Lines of the audit that could not be written."
        yield CounterMetricFamily("editjudge_audit_lost", says, value=self._lost())


class _Now(Collector):
    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for name, (says, now) in self._gauges.items():
            yield GaugeMetricFamily(f"editjudge_{name}", says, value=now())
