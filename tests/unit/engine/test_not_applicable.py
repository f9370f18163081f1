"""What a judge finds not to apply: kept, never a number, and never asked again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image as Pil

from editjudge.app.export import long_rows
from editjudge.app.summary import mean_cells
from editjudge.app.view import RunView
from editjudge.base.item import Edit
from editjudge.base.verdict import NotApplicable, Outcome, Score, Verdict
from editjudge.benchmarks.column import Column, Composite, Mean, Row
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.fusion import product
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.judge import judge, make_judges
from editjudge.engine.progress import Progress
from editjudge.engine.run_inputs import RunInputs
from editjudge.engine.run_plan import RunPlan, compare_with_run, inspect_items
from editjudge.engine.scheduler import Scheduler
from editjudge.scorers.scorer import Scorer
from editjudge.storage.store import RunStore

from ...fakes.scorers import FakePanel, edit
from ..storage.stored import header

NOTHING = NotApplicable(reason="nothing to compare", evidence={"calls": []})


class Sometimes(Scorer):
    """Has nothing to ask about items whose id is even."""

    name: ClassVar[str] = "sometimes"

    def spec(self) -> Mapping[str, object]:
        return {}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Verdict]:
        return {"s": Score(value=0.5) if int(edit.item.id) % 2 else NOTHING}


ONE = Sometimes()
DIMENSIONS = (
    Dimension("t.one", "?", "s", Reading(ONE, "s"), (0, 1)),
    Dimension("t.whole", "?", "s", make_formula(product, "t.one", complete=True), (0, 1)),
    Dimension("t.rest", "?", "s", make_formula(product, of={"a": Reading(ONE, "s")}), (0, 1)),
)
KNOWN = {d.id: d for d in DIMENSIONS}


async def test_it_is_an_outcome_like_that_of_the_item() -> None:
    for number, status in (("1", "scored"), ("2", "not_applicable")):
        done = await judge(edit(item_id=number), DIMENSIONS, KNOWN, FakePanel())  # type: ignore[arg-type]
        assert {one.status for one in done.outcomes.values()} == {status}
    assert done.outcomes["t.one"] == NOTHING


def test_means_leave_it_out() -> None:
    outcomes: list[Outcome] = [Score(value=0.2), NOTHING, Score(value=0.4)]
    made = (
        Column("c.one", "one", Mean("t.one"), True),
        Column("c.two", "two", Composite(lambda v: v["c.one"], {"c.one": "c.one"}), True),
    )
    cell = tabulate(made, [Row(edit().item, "m", {"t.one": one}) for one in outcomes])["m"]["c.two"]
    assert (cell.value, cell.scored, cell.asked) == (0.30000000000000004, 2, 2)


async def test_a_run_keeps_it_and_does_not_ask_again(tmp_path: Path) -> None:
    order = _order(tmp_path)
    survey = inspect_items(order)
    with RunStore.open(tmp_path / "run", header(dimensions=tuple(KNOWN))) as store:
        work = compare_with_run(survey, store, {}, frozenset())
        await _run(order, store, work)
        assert store.counts()["m"]["t.one"] == {"scored": 2, "not_applicable": 2}
        kept = {one.item: one.verdict for one in store.verdicts(dimension="t.one")}
        assert kept["2"] == NOTHING
        assert [o.verdict for o in store.verdicts(dimension="t.one", item="2", evidence=False)] == [
            NotApplicable(reason="nothing to compare")
        ]
        again = compare_with_run(survey, store, {}, frozenset())
        assert again.total("todo") == 0
        for planned in (work, again):
            cell = mean_cells(store, planned)["m"]["t.whole"]
            assert (cell.value, cell.counts) == (0.5, {"scored": 2})
        progress = Progress.of(again, store.counts()["m"])
        assert (progress.lines["t.one"].total, progress.lines["t.one"].scored) == (2, 2)
        exported = [row for row in long_rows(RunView.from_store(store)) if row.item == "2"]
        assert {(row.status, row.value) for row in exported} == {("not_applicable", None)}
        assert {row.reason for row in exported} >= {"nothing to compare"}


def _order(folder: Path) -> RunInputs:
    lines = [{"id": str(n), "instruction": "x", "source": "s.png"} for n in range(1, 5)]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "out").mkdir()
    for name in ("s.png", *(f"out/{one['id']}.png" for one in lines)):
        Pil.fromarray(np.zeros((2, 2, 3), np.uint8)).save(folder / name)
    data = ItemsFile(folder / "items.jsonl")
    return RunInputs(data, {"m": folder / "out"}, DIMENSIONS, KNOWN)


async def _run(order: RunInputs, store: RunStore, work: RunPlan) -> None:
    progress = Progress.of(work, {})
    panel: Any = FakePanel()
    await Scheduler(work, make_judges(panel), store.save_edit, progress, max_in_flight=1).run()
    assert progress.lines["t.one"].total == 2
