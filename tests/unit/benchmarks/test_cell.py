"""One tally counts and averages for tables, summaries and rescored runs."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.base.signature import Signature
from editjudge.base.verdict import CountedMissing, Failure, NoScore, NotApplicable, Outcome, Pending, Score
from editjudge.benchmarks.cell import Tally

NOTHING = NotApplicable(reason="?")
OUTCOMES: st.SearchStrategy[Outcome] = st.builds(
    Score, value=st.floats(-1e6, 1e6), imputed=st.booleans()
) | st.sampled_from([NoScore(kind="refused", reason="?"), Failure(error="?"), Pending(), NOTHING])


@given(st.lists(OUTCOMES))
@settings(deadline=None)
def test_every_outcome_is_counted_and_the_mean_is_exact(outcomes: list[Outcome]) -> None:
    tally = Tally()
    for outcome in outcomes:
        tally.add(outcome)
    values = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
    assert tally.mean() == (math.fsum(values) / len(values) if values else None)
    assert sum(tally.all_counts.values()) == len(outcomes)
    assert tally.not_applicable_count == outcomes.count(NOTHING)
    cell = tally.make_cell("nothing", Signature(()))
    assert (cell.scored, cell.asked) == (len(values), len(outcomes) - tally.not_applicable_count)
    assert cell.imputed == sum(o.imputed for o in outcomes if isinstance(o, Score))
    assert cell.reason == ("" if values else "nothing")
    assert bool(cell.open_statuses) == (not values and cell.asked > cell.counts.get("unscored", 0))


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 99) | st.none())))
@settings(deadline=None)
def test_values_have_weights(pairs: list[tuple[int, int | None]]) -> None:
    tally = Tally()
    for value, weight in pairs:
        said = Failure(error="?") if weight is None else Score(value=weight)
        tally.add(Score(value=value), said)
    known = [(value, weight) for value, weight in pairs if weight is not None]
    total = sum(weight for _, weight in known)
    exact = Fraction(sum(v * w for v, w in known), total) if total else None
    assert tally.mean() == (None if exact is None else float(exact))
    assert tally.counts["failed"] == len(pairs) - len(known)


@pytest.mark.parametrize("failing", [NoScore(kind="unparsable", reason="?"), Pending()])
def test_a_mean_of_what_is_missing_alone_is_none_where_the_judge_failed_the_rest(failing: Outcome) -> None:
    tally = Tally()
    tally.add(CountedMissing(value=0))
    cell = tally.make_cell("nothing scored", Signature(()))
    assert (cell.value, cell.imputed) == (0, 1), "a model that gave nothing at all"
    tally.add(failing)
    cell = tally.make_cell("nothing scored", Signature(()))
    assert (cell.value, cell.reason) == (None, "nothing scored")
    tally.add(Score(value=1))
    assert tally.make_cell("nothing scored", Signature(())).value == 0.5
