"""What is left to do, where only some tasks are asked for; what asks nothing of any item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from editjudge.base.errors import InputError
from editjudge.base.item import Missing
from editjudge.base.verdict import Score
from editjudge.benchmarks.dimension import make_formula
from editjudge.engine.content_keys import JudgedEdit
from editjudge.engine.run_plan import RunPlan, check_applicable, describe_inapplicable, find_inapplicable, inspect_items
from editjudge.storage.store import RunStore

from .scripted_runs import Log, dimension, order, plan


@pytest.mark.parametrize(
    ("tasks", "left"), [((), "01234"), (("odd",), "13"), (("even",), "024"), (("o*", "even"), "01234")]
)
def test_tasks_may_be_globs(tmp_path: Path, log: Log, tasks: tuple[str, ...], left: str) -> None:
    work = plan(replace(order(tmp_path, log, 5, "a"), tasks=tasks))
    assert [ref.id for ref, _ in work.list_unfinished_items()] == list(left)
    assert work.counts["a"]["test.one"]["todo"] == len(left)
    assert sorted(work.ids[index] for index in work.selected_positions) == list(left)


def test_an_unknown_task_is_told_with_those_there_are(tmp_path: Path, log: Log) -> None:
    told = "no item has a task like colour; the data's tasks: even, odd"
    with pytest.raises(InputError, match=told):
        inspect_items(replace(order(tmp_path, log, 3, "a"), tasks=("colour",)))


def test_verdicts_on_other_tasks_stand(tmp_path: Path, log: Log, store: RunStore) -> None:
    asked = order(tmp_path, log, 4, "a")
    assert plan(asked, store).edit_count == 4, "nothing is known yet"
    edit = JudgedEdit("0", "a", None, Missing("absent", "there was none"))
    store.save_edit_now(edit, {"test.one": Score(value=1)}, {"test.one": "x"})
    work = plan(replace(asked, tasks=("odd",)), store)
    assert work.edit_count == 2
    assert dict(work.counts["a"]["test.one"]) == {"todo": 2}


def largest(values: Mapping[str, float]) -> float:
    return max(values.values())


def make_plan(folder: Path, log: Log, *names: str, **more: object) -> RunPlan:
    """A plan of these dimensions."""
    made = dimension(log)
    there = {
        "test.one": made,
        "test.masked": replace(made, id="test.masked", needs=frozenset({"mask"})),
        "test.odd": replace(made, id="test.odd", when=lambda item: None if item.task == "odd" else "even"),
        "test.never": replace(made, id="test.never", when=lambda item: f"not for {item.task}"),
        "test.above": replace(made, id="test.above", how=make_formula(largest, "test.masked")),
    }
    chosen = order(folder, log, 4, "a", *(there[f"test.{name}"] for name in names))
    return inspect_items(replace(chosen, dimensions_by_id=there, **more))


@pytest.mark.parametrize(
    ("name", "why"),
    [("odd", ""), ("masked", "needs a mask"), ("never", "not for even"), ("above", "test.masked not applicable")],
)
def test_what_no_item_is_asked_is_told_with_the_reason(tmp_path: Path, log: Log, name: str, why: str) -> None:
    work = make_plan(tmp_path, log, "one", name)
    line = f"test.{name}: applies to no item ({why})"
    assert describe_inapplicable(work) == ((line,) if why else ())
    check_applicable(work)


def test_where_nothing_asks_anything_it_is_refused(tmp_path: Path, log: Log) -> None:
    lines = r"masked: applies to no item \(needs a mask\); .*never: .* \(not for even\)"
    with pytest.raises(InputError, match=lines):
        check_applicable(make_plan(tmp_path, log, "masked", "never"))


def test_of_a_shard_nothing_may_be_left(tmp_path: Path, log: Log) -> None:
    work = make_plan(tmp_path, log, "masked", shard=(0, 2))
    assert find_inapplicable(work)
    check_applicable(work)
