"""What holds of Co-EditEval's composites, whatever the scores are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from editjudge.benchmarks.benchmark import Rules
from editjudge.benchmarks.co_edit.dimensions import GROUPS, clipped, inverted
from editjudge.benchmarks.dimension import Formula

from .scripted_panel import EDITING, GROUP_OF, LOOKS, MEASURED, derive_all, item, rules, values

SWITCHES = (rules(), rules(["uniform_weights"]), rules(without=["specialists"]), rules(without=["reasoning"]))
ITEMS = (item(), item("text_editing", None), item("in_context", None), item("style_editing"))
by = st.sampled_from(SWITCHES)
items = st.sampled_from(ITEMS)
scores = st.fixed_dictionaries({name: st.integers(0, 10) for name in EDITING + LOOKS})
measured = st.fixed_dictionaries(
    dict(zip(MEASURED, (st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 10)), strict=True))
)
COMPLETE = "edit_completeness"


def derive_values(read: Mapping[str, float], how: Rules, of: Any) -> dict[str, float]:
    return values(derive_all(read, how, of))


@given(scores, measured, by, items)
def test_everything_is_on_its_scale(judge: Any, seen: Any, how: Rules, of: Any) -> None:
    got = derive_values(judge | seen, how, of)
    for one in how.dimensions:
        value = got.get(one.id.removeprefix("co_edit."))
        assert value is None or one.range[0] <= value <= one.range[1]


@given(scores, measured, by, items)
def test_a_group_lies_between_its_parts(judge: Any, seen: Any, how: Rules, of: Any) -> None:
    got = derive_values(judge | seen, how, of)
    for group in GROUPS:
        parts = [got[m] for m in GROUPS[group]["metrics"] if m in got]
        assert (group in got) == bool(parts)
        if parts:
            assert min(parts) <= got[group] <= max(parts)
            assert got[group] > 0 or min(parts) == 0


@given(scores, measured, by, items)
def test_nothing_is_better_than_the_edit_is_complete(judge: Any, seen: Any, how: Rules, of: Any) -> None:
    got = derive_values(judge | seen, how, of)
    assume(COMPLETE in got)
    for name, value in got.items():
        if name.endswith(".capped"):
            assert value == min(got[name.removesuffix(".capped")], got[COMPLETE])
    assert got["overall"] <= got[COMPLETE] * (1 + 1e-12)


@given(scores, measured, by, items, st.sampled_from(EDITING + LOOKS + MEASURED), st.floats(0, 1))
def test_a_better_part_makes_nothing_worse(judge: Any, seen: Any, how: Rules, of: Any, name: str, share: float) -> None:
    read = judge | seen
    best = {"lpips.kept": 0.0}.get(name, 1.0 if name in MEASURED else 10.0)
    plain = derive_values(read, how, of)
    better = derive_values(read | {name: read[name] + share * (best - read[name])}, how, of)
    for one in (*GROUP_OF, *GROUPS, *(f"{g}.capped" for g in GROUPS), "overall"):
        if one in plain:
            assert better[one] >= plain[one] * (1 - 1e-9), one


@given(scores, measured, by, items)
def test_the_order_of_the_parts_does_not_matter(judge: Any, seen: Any, how: Rules, of: Any) -> None:
    def backwards(one: Any) -> Any:
        if not isinstance(one.how, Formula):
            return one
        parts = dict(reversed(one.how.of.items()))
        return replace(one, how=replace(one.how, of=parts))

    turned = replace(how, dimensions=tuple(map(backwards, how.dimensions)))
    plain, other = derive_values(judge | seen, how, of), derive_values(judge | seen, turned, of)
    assert other == pytest.approx(plain, rel=1e-12)


@given(scores, measured, by, items, st.sampled_from(EDITING))
def test_a_zero_part_of_completeness_is_a_zero_overall(judge: Any, seen: Any, how: Rules, of: Any, name: str) -> None:
    got = derive_values(judge | seen | {name: 0}, how, of)
    assume(COMPLETE in got and (GROUP_OF[name] in got))
    assert got[GROUP_OF[name]] == got["overall"] == 0


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 10), st.floats(0, 10))
def test_mappings_keep_the_order(one: float, other: float, near: float, far: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= clipped({"c": low}) <= clipped({"c": high}) <= 10
    near, far = sorted((near, far))
    assert 10 >= inverted({"d": near}) >= inverted({"d": far}) >= 0
    assert (clipped({"c": 1.0}), clipped({"c": 0.0})) == (10, 0)
    assert (inverted({"d": 0.0}), inverted({"d": 1.0})) == (10, 0)
