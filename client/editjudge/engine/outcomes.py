"""The outcome of each dimension on an edit: one class decides it, before and after the calls.

Planning, judging and tables all use `Circumstances`, so they agree on which edits need calls.
A reading is one field of a scorer's result. A dimension either is one reading, or a formula derives
it from its parts: readings of its own and other dimensions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..base.item import Item, Missing
from ..base.text import group_by_key
from ..base.verdict import (
    CountedMissing,
    Failure,
    MissingOutput,
    NoScore,
    NotApplicable,
    NotServed,
    Outcome,
    Pending,
    Score,
    Verdicts,
)
from ..benchmarks.dimension import Dimension, Formula, Reading
from ..scorers.scorer import Scorer

Readings: TypeAlias = Mapping[Scorer, Verdicts]
"""The verdicts of scorers on an edit, by scorer and field."""
_PENDING = Pending()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What decides the outcome of each dimension on one edit.

    The first of these cases that holds decides:

    1. The dimension has a valid verdict: that verdict.
    2. The item, or the dimension's parts, show that it does not apply (see `derive`).
    3. Its own readings need a field of the item that has a flaw: the outcome in `Item.flaws`.
    4. The output is missing, and no verdict on its parts shows otherwise: `MissingOutput`, or the
       value in `value_if_missing`.
    5. A service that its own readings need is not available: `NotServed`.
    6. Otherwise: the outcome of its reading, or what the formula derives from its parts.

    Attributes:
        item: The item; an outline (no decoded images) is enough.
        missing: Why there is no output; None where there is one.
        why_not_served: By dimension id, why its own readings cannot be computed now.
        verdicts: By dimension id, the valid verdicts.
        value_if_missing: The value that a missing output counts as, marked imputed.
        count_missing: Whether, without `value_if_missing`, a missing output counts as the worst
            value of the dimension, marked imputed.
        readings: The scorers' verdicts on this edit; None before any scorer was called. A value
            outside its dimension's range becomes a `Failure`.
    """

    item: Item = field(kw_only=False)
    missing: Missing | None = None
    why_not_served: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, Outcome] = field(default_factory=dict)
    value_if_missing: float | None = None
    count_missing: bool = False
    readings: Readings | None = None

    def decide(self, dimensions: Iterable[Dimension]) -> dict[str, Outcome]:
        """Decide the outcome of each dimension; `Pending` means that it must be judged.

        Args:
            dimensions: The dimensions; each stands after those that it derives from.
        """
        outcomes: dict[str, Outcome] = {}
        for dimension in dimensions:
            outcomes[dimension.id] = self.verdicts.get(dimension.id) or self._decide(dimension, outcomes)
        return outcomes

    def _decide(self, dimension: Dimension, outcomes: Mapping[str, Outcome]) -> Outcome:
        """Decide the outcome of a dimension without a valid verdict, given those of its parts."""
        reason = dimension.why_not_applicable(self.item)
        if reason is not None:
            return NotApplicable(reason=reason)
        readings = dimension.readings
        outcome = self._combine(dimension, outcomes)
        if isinstance(dimension.how, Formula) and isinstance(outcome, NotApplicable):
            return outcome
        if (spoilt := dimension.find_flaw(self.item)) is not None:
            return spoilt
        if self.missing is not None and (readings or isinstance(outcome, MissingOutput)):
            return self._decide_without_output(dimension, self.missing)
        if readings and dimension.id in self.why_not_served:
            return NotServed(reason=self.why_not_served[dimension.id])
        if self.readings is not None:
            return check_range(dimension, outcome)
        # Whether it is a failure or no score depends on its own readings, still to be computed.
        return _PENDING if readings and isinstance(outcome, Failure | NoScore) else outcome

    def _combine(self, dimension: Dimension, outcomes: Mapping[str, Outcome]) -> Outcome:
        if isinstance(dimension.how, Reading):
            return self._read(dimension.how)
        parts = {
            name: self._read(part) if isinstance(part, Reading) else outcomes[part]
            for name, part in dimension.how.of.items()
        }
        own_names = [name for name, part in dimension.how.of.items() if isinstance(part, Reading)]
        readings = {name: parts[name] for name in own_names}
        return _add_reading_evidence(derive(dimension.how, parts), readings)

    def _read(self, reading: Reading) -> Outcome:
        if self.readings is None:
            return _PENDING
        return self.readings.get(reading.scorer, {}).get(reading.field, _PENDING)

    def _decide_without_output(self, dimension: Dimension, why: Missing) -> Outcome:
        worst_value = dimension.worst_value if self.count_missing else None
        value = worst_value if self.value_if_missing is None else self.value_if_missing
        if value is not None:
            return CountedMissing(value=value)
        return MissingOutput(reason=str(why) or "the model gave no image")


def derive(how: Formula, parts: Mapping[str, Outcome]) -> Outcome:
    """Compute a derived outcome from its parts.

    Parts that do not apply are left out. If other parts have no number, the outcome is that of one
    of them, with its name: the first of the kinds `NotServed`, `Failure`, `NoScore`,
    `MissingOutput`, `Pending`. If no part applies, or the formula needs all and one does not, the
    dimension does not apply.

    Args:
        parts: The outcomes of the parts, by name.
    """
    applying = {n: p for n, p in parts.items() if not isinstance(p, NotApplicable)}
    absent = [name for name in parts if name not in applying]
    if not applying or (how.complete and absent):
        return NotApplicable(reason=f"{', '.join(absent)} not applicable")
    for kind in (NotServed, Failure, NoScore, MissingOutput, Pending):
        for name, part in applying.items():
            if isinstance(part, kind):
                return _pass_on_outcome(name, part, applying.values())
    values = {n: p.value for n, p in applying.items() if isinstance(p, Score)}
    is_imputed = any(p.imputed for p in applying.values() if isinstance(p, Score))
    return Score(value=how.fn(values), evidence={"parts": dict(values)}, imputed=is_imputed)


def _pass_on_outcome(name: str, part: Outcome, parts: Iterable[Outcome]) -> Outcome:
    """Make the outcome of a derived dimension from a part without a number, naming the part.

    A `NoScore` lists the calls of all parts that are `NoScore`, since all must be repeated.
    """
    field_name = "error" if isinstance(part, Failure) else "reason"
    update: dict[str, object] = {field_name: f"{name}: {getattr(part, field_name)}"}
    if isinstance(part, NoScore):
        unscored_parts = (each for each in parts if isinstance(each, NoScore))
        update["calls"] = tuple(dict.fromkeys(key for each in unscored_parts for key in each.calls))
    return part.model_copy(update=update)


def _add_reading_evidence(outcome: Outcome, readings: Mapping[str, Outcome]) -> Outcome:
    """Add the evidence and calls of the dimension's own readings, which are stored nowhere else."""
    if not isinstance(outcome, Score):
        return outcome
    scores = {name: reading for name, reading in readings.items() if isinstance(reading, Score)}
    proofs = {name: reading.evidence for name, reading in scores.items() if reading.evidence}
    calls = dict.fromkeys(key for reading in scores.values() for key in reading.calls)
    evidence = {**outcome.evidence, "readings": proofs} if proofs else outcome.evidence
    return outcome.model_copy(update={"evidence": evidence, "calls": tuple(calls)})


def check_range(dimension: Dimension, outcome: Outcome) -> Outcome:
    """Replace a value outside the dimension's range by a `Failure`: it is a bug of editjudge."""
    low, high = dimension.range
    if isinstance(outcome, Score) and not low <= outcome.value <= high:
        return Failure(error=f"{dimension.id}: {outcome.value} is outside {low:g}..{high:g}")
    return outcome


def find_pending_fields(
    dimensions: Iterable[Dimension], outcomes: Mapping[str, Outcome]
) -> dict[Scorer, frozenset[str]]:
    """Find the fields that each scorer has to compute: those that pending dimensions read."""
    pending = (each for each in dimensions if isinstance(outcomes[each.id], Pending))
    fields = group_by_key((reading.scorer, reading.field) for each in pending for reading in each.readings)
    return {scorer: frozenset(names) for scorer, names in fields.items()}


def sort_by_dependency(
    dimensions: Iterable[Dimension], dimensions_by_id: Mapping[str, Dimension]
) -> tuple[Dimension, ...]:
    """Sort the dimensions and those that they derive from: each once, after its parts.

    Raises:
        KeyError: a dimension derives from one that is not in `dimensions_by_id`.
        ValueError: dimensions derive from each other in a circle.
    """
    result: dict[str, Dimension] = {}

    def add(dimension: Dimension, above: tuple[str, ...]) -> None:
        if dimension.id in above:
            raise ValueError(f"dimensions in a circle: {' -> '.join((*above, dimension.id))}")
        for operand in dimension.operands:
            add(dimensions_by_id[operand], (*above, dimension.id))
        result.setdefault(dimension.id, dimension)

    for dimension in dimensions:
        add(dimension, ())
    return tuple(result.values())
