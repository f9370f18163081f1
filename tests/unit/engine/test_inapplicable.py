"""Dimensions that were asked for and ask nothing of any item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from editjudge.base.errors import InputError
from editjudge.benchmarks.dimension import make_formula
from editjudge.engine.run_plan import (
    RunPlan,
    check_applicable,
    describe_inapplicable,
    find_inapplicable,
    inspect_items,
)

from .test_scheduler import Log, dimension, order


def largest(values: Mapping[str, float]) -> float:
    return max(values.values())


def asked(tmp_path: Path, *needs: str) -> RunPlan:
    made = dimension(Log())
    masked = replace(made, id="test.masked", needs=frozenset({"mask"}))
    odd = replace(made, id="test.odd", when=lambda item: None if item.task == "odd" else "even")
    never = replace(made, id="test.never", when=lambda item: f"not for {item.task}")
    above = replace(made, id="test.above", how=make_formula(largest, "test.masked"))
    there = {d.id: d for d in (made, masked, odd, never, above)}
    chosen = order(tmp_path, Log(), 4, "a", *(there[f"test.{name}"] for name in needs))
    return inspect_items(replace(chosen, dimensions_by_id=there))


def test_what_some_item_is_asked_is_not_told(tmp_path: Path) -> None:
    plan = asked(tmp_path, "one", "odd")
    assert describe_inapplicable(plan) == ()
    check_applicable(plan)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("masked", "needs a mask"),
        ("never", "not for even"),
        ("above", "test.masked not applicable"),
    ],
)
def test_what_no_item_is_asked_is_told_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    plan = asked(tmp_path, "one", name)
    assert describe_inapplicable(plan) == (f"test.{name}: applies to no item ({why})",)
    check_applicable(plan)


def test_where_nothing_asks_anything_it_is_refused(tmp_path: Path) -> None:
    lines = r"masked: applies to no item \(needs a mask\); .*never: .* \(not for even\)"
    with pytest.raises(InputError, match=lines):
        check_applicable(asked(tmp_path, "masked", "never"))


def test_of_a_shard_nothing_may_be_left(tmp_path: Path) -> None:
    made = replace(dimension(Log()), needs=frozenset({"mask"}))
    plan = inspect_items(replace(order(tmp_path, Log(), 4, "a", made), shard=(0, 2)))
    assert find_inapplicable(plan)
    check_applicable(plan)
