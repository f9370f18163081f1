"""Progress of a session: counts that the scheduler updates and the displays read."""

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pydantic.dataclasses import dataclass as result

from ..base.strict import STRICT, list_fields
from ..base.verdict import Failure, NoScore, Outcome, Score
from ..panel import Panel
from ..panel.budget import Budget
from .run_plan import RunPlan

_WINDOW = 60.0
_STEP = 0.1
"""Least seconds between two points of the rate's window."""


@result(config=STRICT)
class DimensionProgress:
    """How many verdicts on one dimension there are.

    Attributes:
        total: How many there will be when the run is done.
        scored: Those with a number, valid ones of earlier sessions included.
        unscored: Those without a number, valid ones of earlier sessions included.
        failed: Those of this session that failed; the next session judges them again.
    """

    total: int = 0
    scored: int = 0
    unscored: int = 0
    failed: int = 0

    @property
    def verdict_count(self) -> int:
        """How many verdicts there are by now."""
        return self.scored + self.unscored + self.failed


@result(config=STRICT)
class UnscoredCount:
    """How many verdicts have no number for one kind of reason, and the first reason.

    Attributes:
        count: Number of verdicts.
        first: The first reason.
    """

    count: int
    first: str


@dataclass
class Progress:
    """How far a session is.

    Attributes:
        lines: The counts of each dimension.
        edits: How many edits this session has to judge.
        judged_edits: How many of these it has judged.
        judged_before: How many edits earlier sessions finished.
        missing: How many outputs are missing.
        verdicts: How many verdicts this session made, by status.
        first_failure: The error of the first failed verdict.
        unscored: The verdicts of this session without a number, by kind.
        first_unscored: The first verdict of this session without a number, by dimension.
        repeated_calls: How many calls of workers elsewhere another process had made meanwhile.
        budget: What this session may spend and has spent.
        start_time: When it began, by the monotonic clock.
    """

    lines: dict[str, DimensionProgress] = field(default_factory=dict)
    edits: int = 0
    judged_edits: int = 0
    judged_before: int = 0
    missing: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    first_failure: str = ""
    unscored: dict[str, UnscoredCount] = field(default_factory=dict)
    first_unscored: dict[str, NoScore] = field(default_factory=dict)
    repeated_calls: int = 0
    budget: Budget = field(default_factory=Budget)
    start_time: float = field(default_factory=time.monotonic)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    @classmethod
    def of(cls, plan: RunPlan, valid: Mapping[str, Mapping[str, int]], budget: Budget | None = None) -> Self:
        """Make the progress at the start of a session.

        Args:
            valid: By dimension, how many valid verdicts have each status, on items of
                the data; items that are not selected now count, too.
            budget: What the session may spend; None for no limit.
        """
        lines = {d.id: DimensionProgress() for d in plan.inputs.dimensions}
        for row in plan.counts.values():
            for name, count in row.items():
                lines[name].total += count["todo"]
        for name, counts in valid.items():
            line = lines[name]
            line.scored += counts.get("scored", 0)
            line.unscored += counts.get("unscored", 0)
            line.total += line.verdict_count
        missing = sum(number for number, _ in plan.missing.values())
        lines = {name: line for name, line in lines.items() if line.total}
        edits, before = plan.edit_count, plan.finished_edits
        return cls(lines, edits, 0, before, missing, budget=budget or Budget())

    def count_edit(self, outcomes: Mapping[str, Outcome], expected_names: Iterable[str]) -> None:
        """Count an edit's verdicts; an expected one that was not made leaves the total."""
        for name in expected_names:
            outcome, line = outcomes.get(name), self.lines[name]
            match outcome:
                case Score():
                    line.scored += 1
                case NoScore():
                    line.unscored += 1
                    first_reason = UnscoredCount(0, f"{name}: {outcome.reason}")
                    self.unscored.setdefault(outcome.kind, first_reason).count += 1
                    self.first_unscored.setdefault(name, outcome)
                case Failure():
                    line.failed += 1
                    self.first_failure = self.first_failure or f"{name}: {outcome.error}"
                case _:
                    line.total -= 1
                    continue
            self.verdicts[outcome.status] += 1
        self.judged_edits += 1
        self._record_point()

    def _record_point(self) -> None:
        now = time.monotonic()
        if self._recent and now - self._recent[-1][0] < _STEP:
            return
        self._recent.append((now, self.judged_edits))
        while now - self._recent[0][0] > _WINDOW:
            self._recent.popleft()

    @property
    def rate(self) -> float:
        """Edits per second over the last minute."""
        if not self._recent:
            return 0.0
        start, before = self._recent[0]
        if start - self.start_time < _WINDOW or len(self._recent) == 1:
            start, before = self.start_time, 0
        seconds = time.monotonic() - start
        return (self.judged_edits - before) / seconds if seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes at this rate; None before there is a rate."""
        rate = self.rate
        return (self.edits - self.judged_edits) / rate if rate else None


def summarise_usage(panel: Panel, progress: Progress) -> dict[str, float]:
    """Summarise what judges used in this session: calls, tokens, cost, replies from the ledger."""
    if not any(role.is_judge for role in panel.service_names):
        return {}
    budget = progress.budget
    total: dict[str, float] = {"calls": budget.calls, **list_fields(budget.usage)}
    if budget.stored_replies:
        total["known"] = budget.stored_replies
    return total | ({"cost": budget.cost - budget.earlier_cost} if panel.has_prices else {})
