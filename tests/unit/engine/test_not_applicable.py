"""What a judge finds not to apply: kept, never a number, and never asked again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from editjudge.app.export import long_rows
from editjudge.app.summary import mean_cells
from editjudge.app.view import RunView
from editjudge.base.item import Edit
from editjudge.base.verdict import NotApplicable, Score, Verdict
from editjudge.benchmarks.column import Column, Composite, Mean, Row
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.fusion import product
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.judge import judge
from editjudge.engine.progress import Progress
from editjudge.scorers.scorer import Scorer
from editjudge.storage.store import RunStore

from ...fakes.scorers import FakePanel, edit
from .scripted_runs import Log, order, plan, schedule

NOTHING = NotApplicable(reason="nothing to compare", evidence={"calls": []})


class Sometimes(Scorer):
    """Has nothing to ask about items whose id is even."""

    name: ClassVar[str] = "sometimes"

    def spec(self) -> Mapping[str, object]:
        return {}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Verdict]:
        return {"s": Score(value=0.5) if int(edit.item.id) % 2 else NOTHING}


ONE = Reading(Sometimes(), "s")
DIMENSIONS = (
    Dimension("t.one", "?", "s", ONE, (0, 1)),
    Dimension("t.whole", "?", "s", make_formula(product, "t.one", complete=True), (0, 1)),
    Dimension("t.rest", "?", "s", make_formula(product, of={"a": ONE}), (0, 1)),
)
KNOWN = {d.id: d for d in DIMENSIONS}


async def test_it_is_an_outcome_like_that_of_the_item() -> None:
    for number, status in (("1", "scored"), ("2", "not_applicable")):
        done = await judge(edit(item_id=number), DIMENSIONS, KNOWN, FakePanel())  # type: ignore[arg-type]
        assert {one.status for one in done.outcomes.values()} == {status}
    assert done.outcomes["t.one"] == NOTHING


def test_means_leave_it_out() -> None:
    made = (
        Column("c.one", "one", Mean("t.one"), True),
        Column("c.two", "two", Composite(lambda v: v["c.one"], {"c.one": "c.one"}), True),
    )
    outcomes = (Score(value=0.25), NOTHING, Score(value=0.5))
    cell = tabulate(made, [Row(edit().item, "m", {"t.one": one}) for one in outcomes])["m"]["c.two"]
    assert (cell.value, cell.scored, cell.asked) == (0.375, 2, 2)


async def test_a_run_keeps_it_and_does_not_ask_again(
    tmp_path: Path, log: Log, store: RunStore
) -> None:
    asked = order(tmp_path, log, 4, "m", *DIMENSIONS)
    work = plan(asked, store)
    scheduler = schedule(work, store, max_in_flight=1)
    await scheduler.run()
    assert store.counts()["m"]["t.one"] == {"scored": 2, "not_applicable": 2}
    for evidence, told in ((True, NOTHING), (False, NotApplicable(reason=NOTHING.reason))):
        (kept,) = store.verdicts(dimension="t.one", item="2", evidence=evidence)
        assert kept.verdict == told
    again = plan(asked, store)
    assert again.total("todo") == 0
    for planned in (work, again):
        cell = mean_cells(store, planned)["m"]["t.whole"]
        assert (cell.value, cell.counts) == (0.5, {"scored": 2})
    progress = Progress.of(again, store.counts()["m"])
    assert (progress.lines["t.one"].total, progress.lines["t.one"].scored) == (2, 2)
    rows = [row for row in long_rows(RunView.from_store(store)) if row.item == "2"]
    assert {(row.status, row.value) for row in rows} == {("not_applicable", None)}
    assert NOTHING.reason in {row.reason for row in rows}
