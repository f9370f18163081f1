"""One model's value in one column, and the tally of outcomes that means are computed from."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, computed_field
from pydantic.dataclasses import dataclass as result

from ..base.signature import Signature
from ..base.strict import STRICT
from ..base.verdict import CountedMissing, NotApplicable, Outcome, Score, Status

_OPEN: frozenset[Status] = frozenset({"not_served", "failed", "pending"})
"""Statuses of edits that were not judged, and may be by a later run."""
_ROUNDING = 1e-13
"""The share of the largest value below which a spread of values is what rounding has left."""
Affine: TypeAlias = tuple[float, float]
NO_SCALING: Affine = (1.0, 0.0)
"""The affine map that leaves values on the scale on which they were judged."""


Method: TypeAlias = Literal["clustered", "korn-graubard", "bootstrap-t", "jackknife"]
"""How an interval is made; see `app.intervals`."""


@result(frozen=True, slots=True, config=STRICT)
class Interval:
    """A 95 % confidence interval: how much a value would vary with other source images.

    Attributes:
        low: Where the 95 % interval begins; None where there is none, and `reason` says why.
        high: Where it ends.
        error: The standard error; None likewise.
        clusters: Groups of edits that share no source picture with each other.
        method: `clustered` of means, `korn-graubard` of means of two values, `bootstrap-t` of means
            of skewed values; `jackknife`, over the same clusters, of what is made of means.
        reason: Why there is none; empty where there is one.
    """

    low: float | None
    high: float | None
    error: float | None
    clusters: int
    method: Method
    reason: str = ""

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width; None without an interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


@result(frozen=True, slots=True, config=STRICT)
class Cell:
    """One model's number in one column.

    Attributes:
        value: None where there is none; `reason` says why.
        counts: How many of the edits that the column asks about have each status, without those
            that it does not apply to. With `--common`, `left_out` are those on which another model
            has no number.
        imputed: How many of the scored values a rule of the benchmark set.
        signature: What the number depends on.
        open_statuses: If there is no value, the statuses of edits that a later run may still judge.
            Empty if all edits were judged without a score.
        interval: Of the value; None where nobody asked for one, or there is no value.
        capped: How many of the scored values are the largest that their metric can say; of
            differences, how many are of a pair with such a value.
        other_items: The value rests on items that not all models have, which have a value here.
        rounds: The number by each round alone, on the same edits; empty where there is one round,
            or where no judge has a part in it.
    """

    value: float | None
    counts: Mapping[Status, int]
    imputed: int = 0
    reason: str = ""
    signature: Signature = Signature(())
    open_statuses: Annotated[frozenset[Status], Field(exclude=True)] = frozenset()
    interval: Interval | None = None
    capped: int = 0
    other_items: bool = False
    rounds: tuple[float | None, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def scored(self) -> int:
        """How many edits have a value."""
        return self.counts.get("scored", 0)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def asked(self) -> int:
        """How many edits the column asks about (those that do not apply are not counted)."""
        return sum(self.counts.values())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sd(self) -> float | None:
        """The sample standard deviation over rounds; None where a round has no number."""
        values = [value for value in self.rounds if value is not None]
        return standard_deviation(values) if len(values) == len(self.rounds) else None


def standard_deviation(values: Collection[float]) -> float | None:
    """Compute the sample standard deviation (n - 1); None for fewer than two values.

    It is 0 where values differ by no more than rounding.
    """
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    sd = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (len(values) - 1))
    return sd if sd > _ROUNDING * max(map(abs, values)) else 0.0


@dataclass(slots=True)
class Tally:
    """Counts outcomes and collects their values; a value takes eight bytes, its item four.

    Attributes:
        counts: How many outcomes had each status, without those that do not apply.
        not_applicable_count: How many do not apply.
        imputed_count: How many of the scored values a rule of the benchmark set.
        missing_count: How many of the values stand for missing outputs.
        values: Of the scored ones, in the order in which they came.
        weights: Of the same, where they have any.
        items: Numbers of the items of the same, where they have any.
    """

    counts: Counter[Status] = field(default_factory=Counter)
    not_applicable_count: int = 0
    imputed_count: int = 0
    missing_count: int = 0
    values: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    items: array[int] = field(default_factory=lambda: array("I"))

    def add(self, outcome: Outcome, weight: Outcome | None = None, item: int | None = None) -> None:
        """Add an outcome.

        Args:
            weight: What its value weighs; a value counts as the weight's outcome where that is
                not scored. Each weighs the same without. Either all outcomes have one or none.
            item: The item's index. Either all outcomes have one or none.
        """
        if isinstance(outcome, NotApplicable):
            self.not_applicable_count += 1
            return
        if isinstance(outcome, Score) and weight is not None and not isinstance(weight, Score):
            outcome = weight
        self.counts[outcome.status] += 1
        if isinstance(outcome, Score):
            self.values.append(outcome.value)
            if item is not None:
                self.items.append(item)
            self.imputed_count += outcome.imputed
            self.missing_count += isinstance(outcome, CountedMissing)
            if isinstance(weight, Score):
                self.weights.append(weight.value)

    @property
    def all_counts(self) -> dict[Status, int]:
        """How many outcomes had each status, those that do not apply included."""
        count = self.not_applicable_count
        return {**self.counts, **({"not_applicable": count} if count else {})}

    @property
    def _has_only_missing(self) -> bool:
        """Whether every value stands for a missing output, though some edits have an output."""
        scored_count = self.counts["scored"]
        return 0 < scored_count == self.missing_count and scored_count < self.counts.total()

    def mean(self, affine: Affine = NO_SCALING) -> float | None:
        """The weighted mean of the values; None where there is none, or all weigh nothing.

        Args:
            affine: `(a, b)`: a mean of x is given as a*x + b.
        """
        total = math.fsum(self.weights) if self.weights else float(len(self.values))
        if not total:
            return None
        products = (v * w for v, w in zip(self.values, self.weights, strict=True))
        scale, offset = affine
        return scale * math.fsum(products if self.weights else self.values) / total + offset

    def make_cell(self, reason: str, signature: Signature, affine: Affine = NO_SCALING) -> Cell:
        """Return the tally as a cell.

        Args:
            reason: Why there is no mean, for where there is none.
        """
        value = None if self._has_only_missing else self.mean(affine)
        cell = Cell(value, dict(self.counts), self.imputed_count, "", signature)
        if value is not None:
            return cell
        return replace(cell, reason=reason, open_statuses=select_open_statuses(self.counts))


def select_open_statuses(counts: Mapping[Status, int]) -> frozenset[Status]:
    """Return those statuses whose edits a later run may still judge."""
    return _OPEN & counts.keys()
