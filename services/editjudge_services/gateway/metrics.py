"""Prometheus metrics of the service, counted from the start of the process."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from editjudge.base.parse import package_tables
from editjudge.rewards.schema import Summary

from .accounting import RequestAccount
from .usage import TeamUsage

CONTENT_TYPE = CONTENT_TYPE_LATEST
_TABLES = package_tables(__package__, "metrics.toml")
_COUNTERS: dict[str, tuple[str, ...]] = {
    "edits": ("edits",),
    "cost": ("cost",),
    "calls": ("calls", "made"),
    "cached": ("calls", "cached"),
    "failed": ("calls", "failed"),
    "prompt_tokens": ("tokens", "prompt"),
    "cached_tokens": ("tokens", "cached"),
    "completion_tokens": ("tokens", "completion"),
}
"""By field of `TeamUsage` its counter, and the kind where this has several."""


class Metrics:
    """Counters, a histogram and gauges.

    Args:
        gauges: The help text of each gauge, and a function that reads its value.

    Attributes:
        audit_lost: The counter of audit lines that could not be written.
    """

    def __init__(self, **gauges: tuple[str, Callable[[], float]]) -> None:
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"editjudge_{name}", row["help"], row["labels"], registry=self._registry)
            for name, row in _TABLES["counters"].items()
        }
        self._histograms = {
            name: Histogram(
                f"editjudge_{name}", row["help"], row["labels"], buckets=row["buckets"], registry=self._registry
            )
            for name, row in _TABLES["histograms"].items()
        }
        self._by_team: dict[str, list[tuple[str, Counter]]] = {}
        self.audit_lost = self._counters["audit_lost"]
        self._agreement = Gauge(
            "editjudge_reward_agreement",
            "Rank correlation of two parts in the latest batch.",
            ("team", "reward", "parts"),
            registry=self._registry,
        )
        for name, (description, read) in gauges.items():
            Gauge(f"editjudge_{name}", description, registry=self._registry).set_function(read)

    def add(self, team: str, usage: TeamUsage) -> None:
        """Count what a team used."""
        if team not in self._by_team:  # looked up once, since edits are many
            rows = _COUNTERS.items()
            self._by_team[team] = [(name, self._counters[of].labels(team, *kind)) for name, (of, *kind) in rows]
        for name, counter in self._by_team[team]:
            if number := getattr(usage, name):
                counter.inc(number)

    def add_rewards(self, team: str, name: str, summary: Summary, seconds: float) -> None:
        """Count what became of one reward in a batch."""
        for counter, counts in summary.counts().items():
            for label, count in counts.items():
                self._counters[f"reward_{counter}"].labels(team, name, label).inc(count)
        if summary.spread is not None:
            self._histograms["reward_spread"].labels(team, name).observe(summary.spread)
        self._histograms["reward_seconds"].labels(team, name).observe(seconds)
        for dimension, mean_seconds in summary.seconds.items():
            self._histograms["reward_part_seconds"].labels(team, name, dimension).observe(mean_seconds)
        for pair, number in summary.agreement.items():
            self._agreement.labels(team, name, pair).set(number)

    def count(self, account: RequestAccount) -> None:
        """Count a request that has ended."""
        self._counters["requests"].labels(account.caller.team, account.caller.method, account.code).inc()
        self._histograms["request_seconds"].labels(account.caller.method).observe(account.seconds)

    def text(self) -> bytes:
        """Render all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
