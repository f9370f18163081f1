"""What becomes of dimensions on an edit: of any of them, any item and any verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit, Item, Missing
from editjudge.base.verdict import (
    CountedMissing,
    Failure,
    MissingOutput,
    NoScore,
    NotApplicable,
    NotServed,
    Outcome,
    Pending,
    Score,
)
from editjudge.benchmarks.dataset import placeholder, placeholder_mask
from editjudge.benchmarks.dimension import Dimension, Formula, Operand, Reading, make_formula
from editjudge.engine.outcomes import Circumstances, check_range, derive, find_pending_fields
from editjudge.scorers.scorer import Scorer

ROLES = ("x.one", "x.two")


@dataclass(frozen=True)
class Says(Scorer):
    """A scorer that is only named."""

    name: ClassVar[str] = "says"
    key: int = 0
    needs: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        return tuple(map(ServiceName.parse, self.needs))

    def spec(self) -> Mapping[str, object]:
        return {"key": self.key}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Any:
        raise AssertionError("never called")


def only_odd(item: Item) -> str | None:
    return None if item.task == "odd" else "even"


def total(values: Mapping[str, float]) -> float:
    return sum(values.values())


readings = st.builds(
    Reading,
    st.builds(Says, st.integers(0, 2), st.lists(st.sampled_from(ROLES), unique=True).map(tuple)),
    st.sampled_from("fg"),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Dimension, ...]:
    """Dimensions, parts first; `d0` reads."""
    made: list[Dimension] = []
    for number in range(draw(st.integers(1, 6))):
        how: Reading | Formula = draw(readings)
        if made and draw(st.booleans()):
            names = draw(st.lists(st.sampled_from([d.id for d in made]), unique=True, max_size=3))
            of: dict[str, Operand] = {name: name for name in names}
            own = draw(st.lists(readings, max_size=2, min_size=0 if names else 1))
            of.update({f"own {i}": reading for i, reading in enumerate(own)})
            how = Formula(total, of, draw(st.booleans()))
        more: dict[str, Any] = {"when": only_odd} if draw(st.booleans()) else {}
        high = draw(st.sampled_from([2.0, 100.0]))
        made.append(Dimension(f"d{number}", "?", "here", how, (0, high), **more))
    return tuple(made)


ITEM = Item("i", "x", (placeholder(),))
items = st.sampled_from(["odd", "even"]).map(lambda task: replace(ITEM, task=task))
served_sets = st.frozensets(st.sampled_from(ROLES))
missings = st.sampled_from([None, Missing("absent", ""), Missing("unreadable", "half a file")])
said = st.sampled_from(
    [
        Score(value=1.0),
        Score(value=2.0, evidence={"usage": {"calls": 1, "cost": 2}, "text": "t"}),
        Score(value=0.0, imputed=True),
        NoScore(kind="abstained", reason="?"),
        Failure(error="lost"),
        NotApplicable(reason="nothing to ask"),
    ]
)


def unserved_of(dimensions: tuple[Dimension, ...], served: frozenset[str]) -> dict[str, str]:
    return {
        d.id: f"not served: {', '.join(r for r in d.roles if r not in served)}"
        for d in dimensions
        if not served.issuperset(d.roles)
    }


def status_of(
    dimension: Dimension,
    dimensions: tuple[Dimension, ...],
    item: Item,
    missing: Missing | None,
    unserved: Mapping[str, str],
) -> str:
    """The rule said once more, from the dimension down to its parts; nothing is judged."""
    known = {d.id: d for d in dimensions}
    parts = [status_of(known[p], dimensions, item, missing, unserved) for p in dimension.operands]
    applying = [status for status in parts if status != "not_applicable"]
    whole = isinstance(dimension.how, Formula)
    complete = isinstance(dimension.how, Formula) and dimension.how.complete
    if dimension.why_not_applicable(item) is not None:
        return "not_applicable"
    if whole and not (applying or dimension.readings):
        return "not_applicable"
    if complete and len(applying) < len(parts):
        return "not_applicable"
    if missing is not None:
        return "missing_output"
    if "not_served" in applying or (dimension.readings and dimension.id in unserved):
        return "not_served"
    return "pending"


@given(graphs(), items, served_sets, missings)
@settings(max_examples=200, deadline=None)
def test_before_anything_is_judged(
    dimensions: tuple[Dimension, ...], item: Item, served: frozenset[str], missing: Missing | None
) -> None:
    unserved = unserved_of(dimensions, served)
    got = Circumstances(item, missing=missing, why_not_served=unserved).decide(dimensions)
    assert {name: outcome.status for name, outcome in got.items()} == {
        d.id: status_of(d, dimensions, item, missing, unserved) for d in dimensions
    }
    for outcome in got.values():
        if isinstance(outcome, MissingOutput):
            assert outcome.reason == (str(missing) or "the model gave no image")


@given(graphs(), items, served_sets, st.data())
@settings(max_examples=200, deadline=None)
def test_the_calls_of_what_is_pending_decide_it(
    dimensions: tuple[Dimension, ...], item: Item, served: frozenset[str], data: st.DataObject
) -> None:
    unserved = unserved_of(dimensions, served)
    before = Circumstances(item, why_not_served=unserved).decide(dimensions)
    calls = find_pending_fields(dimensions, before)
    assert all(served.issuperset(scorer.roles) for scorer in calls)
    replies = {scorer: {f: data.draw(said) for f in sorted(of)} for scorer, of in calls.items()}
    after = Circumstances(item, why_not_served=unserved, readings=replies).decide(dimensions)
    for dimension in dimensions:
        was, outcome = before[dimension.id], after[dimension.id]
        if isinstance(was, NotApplicable):
            assert isinstance(outcome, NotApplicable)
        elif isinstance(was, NotServed):
            # What a judge finds nothing to ask about needs no service any more.
            freed = any(
                isinstance(before[part], NotServed) and not isinstance(after[part], NotServed)
                for part in dimension.operands
            )
            assert freed or isinstance(outcome, NotServed | NotApplicable)
        else:
            assert isinstance(outcome, Score | NoScore | Failure | NotApplicable)
        if isinstance(outcome, Score):
            assert outcome.value <= dimension.range[1]


stored = st.dictionaries(st.sampled_from([f"d{i}" for i in range(6)]), said, max_size=4)


@given(graphs(), items, served_sets, missings, st.sampled_from([None, 0.0]), stored)
@settings(max_examples=200, deadline=None)
def test_what_stands_is_kept_and_what_derives_from_it_is_made_of_it(
    dimensions: tuple[Dimension, ...],
    item: Item,
    served: frozenset[str],
    missing: Missing | None,
    rule: float | None,
    verdicts: dict[str, Any],
) -> None:
    unserved = unserved_of(dimensions, served)
    got = Circumstances(
        item, missing=missing, why_not_served=unserved, verdicts=verdicts, value_if_missing=rule
    ).decide(dimensions)
    for d in dimensions:
        outcome = got[d.id]
        if d.id in verdicts:
            assert outcome == verdicts[d.id]
        elif d.why_not_applicable(item) is not None:
            assert isinstance(outcome, NotApplicable)
        elif isinstance(d.how, Formula) and not d.readings:
            whole = derive(d.how, {part: got[part] for part in d.operands})
            assert outcome.status == whole.status
            assert getattr(outcome, "value", None) == getattr(whole, "value", None)
        elif isinstance(outcome, NotApplicable):
            assert isinstance(d.how, Formula)
            assert any(isinstance(got[part], NotApplicable) for part in d.operands)
        elif missing is not None and rule is not None:
            assert outcome == CountedMissing(value=rule)
        else:
            assert isinstance(outcome, MissingOutput if missing is not None else Pending | NotServed)


READ, OTHER = Reading(Says(1), "f"), Reading(Says(2, ("x.one",)), "f")


def dimension(name: str, how: Reading | Formula) -> Dimension:
    return Dimension(name, "?", "here", how, (0, 2))


PART = dimension("part", OTHER)
MADE = dimension("made", make_formula(total, "part"))
BOTH = dimension("both", make_formula(total, "part", of={"own": READ}))
WHOLE = dimension("whole", make_formula(total, "part", of={"own": READ}, complete=True))
NO_FILE = Missing("absent", "")
NOTHING = NotApplicable(reason="nothing to ask")


@pytest.mark.parametrize(
    ("verdict", "circumstances", "statuses"),
    [
        # What is made of a part that stands is there without the part's service.
        (Score(value=1), {"why_not_served": {"part": "?"}}, ("scored",) * 2 + ("pending",) * 2),
        (None, {"why_not_served": {"part": "?"}}, ("not_served",) * 4),
        # A failed part fails what is made of it alone; what reads itself is still to be judged.
        (Failure(error="lost"), {}, ("failed", "failed", "pending", "pending")),
        # That a judge found nothing to ask ends what needs all of its parts.
        (NOTHING, {}, ("not_applicable", "not_applicable", "pending", "not_applicable")),
        # An output that went: what was judged stays, and what is made of it.
        (Score(value=1), {"missing": NO_FILE}, ("scored", "scored", *("missing_output",) * 2)),
        (None, {"missing": NO_FILE}, ("missing_output",) * 4),
        (None, {"missing": NO_FILE, "value_if_missing": 0.0}, ("scored",) * 4),
        (NOTHING, {"missing": NO_FILE}, ("not_applicable", "not_applicable", "missing_output",
                                    "not_applicable")),
    ],
)  # fmt: skip
def test_where_the_ways_part(verdict: Outcome | None, circumstances: dict[str, Any], statuses: tuple[str, ...]) -> None:
    verdicts = {"part": verdict} if verdict else {}
    got = Circumstances(ITEM, verdicts=verdicts, **circumstances).decide((PART, MADE, BOTH, WHOLE))
    assert tuple(outcome.status for outcome in got.values()) == statuses


def test_a_call_that_can_decide_nothing_is_not_made() -> None:
    outcomes = Circumstances(ITEM, why_not_served={"part": "x.one: none here"}).decide((PART, BOTH))
    assert outcomes["both"] == NotServed(reason="part: x.one: none here")
    assert find_pending_fields((PART, BOTH), outcomes) == {}


NEEDS_A_MASK = Dimension("mask", "?", "here", Reading(Says(1), "f"), (0, 5), False, needs=frozenset({"mask"}))
PLAIN = Dimension("plain", "?", "here", Reading(Says(2), "f"), (0, 5))
OF_BOTH = Dimension("both", "?", "here", make_formula(total, "mask", "plain"), (0, 10), needs=frozenset())
OF_THE_ITEM = Dimension("item", "?", "here", Reading(Says(0), "g"), (0, 1), of_data=True)


@pytest.mark.parametrize("absent", [None, Missing("absent", "")])
def test_what_the_data_spoilt_costs_what_reads_it(absent: Missing | None) -> None:
    why = NoScore(kind="degenerate", reason="mask: no such file")
    item = replace(ITEM, flaws={"mask": why})
    got = Circumstances(item, missing=absent).decide((NEEDS_A_MASK, PLAIN, OF_BOTH))
    assert got["mask"] == why
    assert got["plain"].status == ("missing_output" if absent else "pending")
    assert got["both"].status == "unscored"
    assert "mask: no such file" in got["both"].reason  # type: ignore[union-attr]
    assert find_pending_fields((NEEDS_A_MASK, PLAIN, OF_BOTH), got).keys() <= {Says(2)}
    assert Circumstances(ITEM).decide((NEEDS_A_MASK,))["mask"].status == "not_applicable"


def test_a_missing_output_counts_as_the_worst_where_that_is_asked_for() -> None:
    def decide_outcomes(*dimensions: Dimension, **more: Any) -> dict[str, Outcome]:
        item = replace(ITEM, mask=placeholder_mask())
        return Circumstances(item, missing=NO_FILE, count_missing=True, **more).decide(dimensions)

    got = decide_outcomes(NEEDS_A_MASK, PLAIN, OF_BOTH, OF_THE_ITEM)
    values = {n: (o.value, o.imputed) for n, o in got.items() if isinstance(o, Score)}
    assert values == {"mask": (5, True), "plain": (0, True), "both": (5, True)}
    assert got["item"].status == "missing_output", "it says nothing of the edit"
    assert decide_outcomes(replace(NEEDS_A_MASK, worst_of=1.0)) == {"mask": CountedMissing(value=1.0)}
    ruled = decide_outcomes(PLAIN, value_if_missing=1.0)
    assert ruled == {"plain": CountedMissing(value=1.0)}, "a rule of the benchmark comes first"


WORST_FIRST: list[Outcome] = [
    NotServed(reason="?"),
    Failure(error="?"),
    NoScore(kind="refused", reason="?"),
    MissingOutput(reason="?"),
    Pending(),
    Score(value=1),
]


@pytest.mark.parametrize("worse", range(5))
@pytest.mark.parametrize("is_first", [True, False])
def test_which_part_without_a_number_decides(worse: int, is_first: bool) -> None:
    """A later run may fix what is not served or failed, and nothing fixes what is unscored."""
    for milder in range(worse + 1, 6):
        parts = {"a": WORST_FIRST[worse], "b": WORST_FIRST[milder]}
        in_order = parts if is_first else dict(reversed(parts.items()))
        assert derive(Formula(total, {"a": "a", "b": "b"}), in_order).status == parts["a"].status


def unread(*calls: str, reason: str = "no JSON") -> NoScore:
    return NoScore(kind="unparsable", reason=reason, calls=calls)


@pytest.mark.parametrize(
    ("a", "b", "made"),
    [
        (Score(value=1), Score(value=2), Score(value=3, evidence={"parts": {"a": 1.0, "b": 2.0}})),
        (NOTHING, Score(value=2), Score(value=2, evidence={"parts": {"b": 2.0}})),
        # What is made of an imputed part is imputed.
        *(
            (
                Score(value=1, imputed=first),
                Score(value=2, imputed=not first),
                Score(value=3, imputed=True, evidence={"parts": {"a": 1.0, "b": 2.0}}),
            )
            for first in (True, False)
        ),
        # Without a number it rests on all that have none.
        (unread("1", "2"), unread("2", "3"), unread("1", "2", "3", reason="a: no JSON")),
        (unread("1"), Score(value=1, calls=("4",)), unread("1", reason="a: no JSON")),
        (Score(value=1), Failure(error="lost"), Failure(error="b: lost")),
    ],
)
def test_what_is_made_of_parts(a: Outcome, b: Outcome, made: Outcome) -> None:
    assert derive(Formula(total, {"a": "a", "b": "b"}), {"a": a, "b": b}) == made


def test_the_evidence_of_own_readings_is_kept_where_they_have_any() -> None:
    for evidence, told in (({"read": "1"}, {"readings": {"own": {"read": "1"}}}), ({}, {})):
        said = {READ.scorer: {"f": Score(value=1, evidence=evidence, calls=("key",))}}
        stands = {"part": Score(value=0.5, evidence={"read": "of the part"})}
        made = Circumstances(ITEM, verdicts=stands, readings=said).decide((PART, BOTH))["both"]
        parts = {"part": 0.5, "own": 1.0}
        assert made == Score(value=1.5, evidence={"parts": parts, **told}, calls=("key",))


@pytest.mark.parametrize(("value", "status"), [(0, "scored"), (2, "scored"), (2.1, "failed"), (-0.1, "failed")])
def test_a_value_outside_the_range_is_no_score(value: float, status: str) -> None:
    assert check_range(PART, Score(value=value)).status == status
