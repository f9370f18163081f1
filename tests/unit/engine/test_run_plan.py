"""What is left to do, where only some tasks are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from editjudge.base.errors import InputError
from editjudge.base.item import Missing
from editjudge.base.verdict import Score
from editjudge.engine.content_keys import JudgedEdit
from editjudge.engine.run_plan import compare_with_run, inspect_items

from .test_scheduler import Kept, Log, order


@pytest.mark.parametrize(
    ("tasks", "left"),
    [((), "01234"), (("odd",), "13"), (("even",), "024"), (("o*", "even"), "01234")],
)
def test_tasks_are_names_or_globs(tmp_path: Path, tasks: tuple[str, ...], left: str) -> None:
    asked = replace(order(tmp_path, Log(), 5, "a"), tasks=tasks)
    work = compare_with_run(inspect_items(asked), None, {})
    assert [ref.id for ref, _ in work.list_unfinished_items()] == list(left)
    assert work.counts["a"]["test.one"]["todo"] == len(left)
    assert sorted(work.ids[index] for index in work.selected_positions) == list(left)


def test_an_unknown_task_is_told_with_those_there_are(tmp_path: Path) -> None:
    asked = replace(order(tmp_path, Log(), 3, "a"), tasks=("colour",))
    with pytest.raises(
        InputError, match=r"no item has a task like colour; the data's tasks: even, odd"
    ):
        inspect_items(asked)


async def test_verdicts_on_other_tasks_stand(tmp_path: Path) -> None:
    asked, kept = order(tmp_path, Log(), 4, "a"), Kept()
    digest = compare_with_run(inspect_items(asked), kept, {})  # nothing is known yet
    assert digest.edit_count == 4
    edit = JudgedEdit("0", "a", None, Missing("absent", "there was none"))
    await kept.save_edit(edit, {"test.one": Score(value=1)}, {"test.one": "x"})
    work = compare_with_run(inspect_items(replace(asked, tasks=("odd",))), kept, {})
    assert work.edit_count == 2
    assert dict(work.counts["a"]["test.one"]) == {"todo": 2}
