from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from editjudge.app.export import long_rows
from editjudge.app.summary import mean_cells
from editjudge.app.view import RunView
from editjudge.base import images
from editjudge.base.digest import file_digest
from editjudge.base.errors import CostLimit, StoreError, Unreachable
from editjudge.base.identity import ModelIdentity
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import NotApplicable, Score, Verdict
from editjudge.benchmarks.column import Column, Composite, Mean, Row
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.fusion import mean, product
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine import scheduler as module
from editjudge.engine.judge import Signatures, judge
from editjudge.engine.progress import Progress
from editjudge.engine.scheduler import Scheduler
from editjudge.scorers.judge_scorer import JUDGE
from editjudge.scorers.scorer import Scorer
from editjudge.scorers.vqa import FiveLevel
from editjudge.storage.store import RunStore

from ...fakes.scorers import FakePanel, edit
from ...small_data import count_calls
from .scripted_runs import Log, TimedScorer, dimension, order, plan, run, schedule, verdicts


async def test_a_signature_is_made_once_and_not_for_every_edit(
    tmp_path: Path, log: Log, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = count_calls(monkeypatch, Dimension, "signature")
    asked = order(tmp_path, log, 5, "a")
    await run(asked, store)
    assert [one.signature for one in store.verdicts()] == [asked.signatures({})["test.one"]] * 5
    assert len(made) == 1


def test_a_signature_is_that_of_the_services_of_now() -> None:
    read = Reading(FiveLevel("generalist.judge", "core/editing_artifacts"), "score")
    judged = Dimension("t.judged", "?", "-", read, (0, 5))
    averaged = replace(judged, id="t.mean", how=make_formula(mean, "t.judged"))
    known = {"t.judged": judged, "t.mean": averaged}
    signatures = Signatures(known)
    before, after = ({JUDGE: ModelIdentity(name)} for name in ("before", "after"))
    texts = [signatures.of(known.values(), services) for services in (before, after, before)]
    assert texts[0] == texts[2]
    assert all(texts[0][name] != texts[1][name] for name in known)


@pytest.mark.parametrize("in_flight", [1, 3, 16])
async def test_results_do_not_depend_on_how_many_are_in_flight(
    in_flight: int, tmp_path: Path, log: Log, store: RunStore
) -> None:
    asked = order(tmp_path, log, 20, "ab")
    assert await run(asked, store, max_in_flight=in_flight) == "done"
    edits = [(str(i), model) for i in range(20) for model in "ab"]
    assert verdicts(store) == {(i, model): Score(value=int(i)) for i, model in edits}
    assert log.most <= in_flight
    assert log.loads == 20, "an item is loaded once for all its models"
    if in_flight == 1:
        assert log.order == edits, "the models of an item follow each other"


async def test_what_stands_is_not_judged_again(tmp_path: Path, log: Log, store: RunStore) -> None:
    asked = order(tmp_path, log, 10, "a")
    log.errors[3] = Unreachable("gone", service="x.y")
    await run(asked, store)
    assert verdicts(store)["3", "a"].status == "failed"
    left = plan(asked, store)
    assert [ref.id for ref, _ in left.list_unfinished_items()] == ["3"]
    assert left.counts["a"]["test.one"] == {"standing": 9, "todo": 1}


async def test_a_changed_output_is_judged_again(tmp_path: Path, log: Log, store: RunStore) -> None:
    asked = order(tmp_path, log, 2, "a")
    await run(asked, store)
    assert plan(asked, store).edit_count == 0
    output = tmp_path / "a" / "0.png"
    output.write_bytes(output.read_bytes() + b" ")
    changed = plan(asked, store)
    assert changed.edit_count == 2
    await schedule(changed, store).run()
    judged = store.judged_edit(store.edit("0", "a"))  # type: ignore[arg-type]
    assert judged.output_file.digest == file_digest(output)  # type: ignore[union-attr]


async def test_a_spent_budget_ends_it_and_keeps_what_was_judged(tmp_path: Path, log: Log, store: RunStore) -> None:
    free = dimension(log, "test.free", how=Reading(TimedScorer(log, ()), "score"))
    said: list[str] = []
    log.errors = {number: CostLimit("spent", service="x.y") for number in range(10, 30)}
    assert await run(order(tmp_path, log, 30, "a", free), store, say=said.append) == "cost"
    assert [one.status for one in verdicts(store).values()] == ["scored"] * 10
    assert len(said) == 1


@pytest.mark.parametrize(("limit", "ended"), [(0.2, "done"), (0.05, "failures")])
async def test_too_large_a_share_of_failures_ends_it(
    limit: float, ended: str, tmp_path: Path, log: Log, store: RunStore
) -> None:
    log.errors = {number: Unreachable("gone", service="x.y") for number in range(0, 100, 10)}
    assert await run(order(tmp_path, log, 100, "a"), store, fail_on_error=limit) == ended
    count = len(verdicts(store))
    assert count == 100 if ended == "done" else module.MIN_VERDICTS <= count < 100


async def test_what_trips_a_scorer_costs_one_edit(tmp_path: Path, log: Log, store: RunStore) -> None:
    log.errors[2] = ZeroDivisionError("oh")
    assert await run(order(tmp_path, log, 5, "a"), store) == "done"
    of = verdicts(store)
    assert [one.status for one in of.values()].count("scored") == 4
    assert "ZeroDivisionError: oh" in of["2", "a"].error  # type: ignore[union-attr]


async def test_a_source_that_cannot_be_loaded_costs_its_own_edits(tmp_path: Path, log: Log, store: RunStore) -> None:
    asked = order(tmp_path, log, 4, "ab")
    asked.dataset.broken_item = "1"  # type: ignore[attr-defined]
    assert await run(asked, store) == "done"
    failed = {of: one for of, one in verdicts(store).items() if one.status != "scored"}
    assert {*failed} == {("1", "a"), ("1", "b")}
    assert "1: AssertionError: whatever a decoder raises" in failed["1", "a"].error  # type: ignore[union-attr]
    assert len(verdicts(store)) == 8


async def test_a_full_disk_ends_it(tmp_path: Path, log: Log, store: RunStore) -> None:
    log.errors[2] = StoreError("the disk is full")  # type: ignore[assignment]
    with pytest.raises(ExceptionGroup) as raised:
        await run(order(tmp_path, log, 50, "a"), store)
    assert raised.group_contains(StoreError)


async def test_cancelled_it_keeps_what_is_judged(tmp_path: Path, log: Log, store: RunStore) -> None:
    task = asyncio.create_task(run(order(tmp_path, log, 1000, "a"), store))
    while len(verdicts(store)) < 10:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.now == 0
    assert 10 <= len(verdicts(store)) < 1000


@pytest.mark.parametrize(("also_computes", "count"), [(False, 0), (True, 10)])
async def test_only_what_is_computed_on_is_decoded(
    also_computes: bool, count: int, tmp_path: Path, log: Log, store: RunStore, monkeypatch: Any
) -> None:
    decoded = count_calls(monkeypatch, images, "_decode")
    shown = dimension(log, "test.shown", how=Reading(TimedScorer(log, shows=True), "score"))
    dimensions = (shown, *[dimension(log)] * also_computes)
    await run(order(tmp_path, log, 5, "a", *dimensions), store)
    assert len(decoded) == count


async def test_large_images_wait_for_room(
    tmp_path: Path, log: Log, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2 * 100 * 100 * 3)
    await run(order(tmp_path, log, 12, "a", side=100), store, max_in_flight=12)
    assert log.most < 12


async def test_no_edit_begins_before_it_is_known_what_they_hold(
    tmp_path: Path, log: Log, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are not loaded yet count as those that are."""
    monkeypatch.setattr(module, "MAX_HELD", 1)
    held = count_calls(monkeypatch, Scheduler, "_load_edit", lambda of, _: len(of._bytes_in_flight))
    await run(order(tmp_path, log, 12, "a"), store, max_in_flight=12)
    assert held == [1] * 12


async def test_edits_begin_once_the_first_is_there(tmp_path: Path, log: Log, store: RunStore) -> None:
    """They do not wait until it is judged."""
    together = asyncio.Barrier(4)

    @dataclass(frozen=True)
    class Together(TimedScorer):
        async def score(self, *_: Any) -> Mapping[str, Verdict]:
            await together.wait()
            return {"score": Score(value=1)}

    asked = order(tmp_path, log, 4, "a", dimension(log, how=Reading(Together(log), "score")))
    async with asyncio.timeout(10):
        await run(asked, store, max_in_flight=4)
    assert len(verdicts(store)) == 4


def test_a_plan_knows_what_applies_and_what_is_served(tmp_path: Path, log: Log) -> None:
    def only_odd(item: Item) -> str | None:
        return None if item.task == "odd" else "even"

    def make_derived(name: str, *parts: str, **how: Any) -> Dimension:
        formula = make_formula(lambda v: sum(v.values()), *(f"test.{part}" for part in parts), **how)
        return dimension(log, f"test.{name}", how=formula)

    dimensions = (
        dimension(log),
        dimension(log, "test.odd", when=only_odd),
        dimension(log, "test.masked", needs=frozenset({"mask"})),
        dimension(log, "test.far", how=Reading(TimedScorer(log, ("x.y",)), "score")),
        make_derived("sum", "one", "odd"),
        make_derived("both", "one", "odd", complete=True),
        make_derived("rests", "one", "far"),
    )
    asked = order(tmp_path, log, 10, "a", *dimensions)
    work = plan(asked, None, {}, {"test.far": "away"})
    assert {name.removeprefix("test."): dict(n) for name, n in work.counts["a"].items()} == {
        "one": {"todo": 10},
        "odd": {"todo": 5},
        "masked": {},
        "far": {"not_served": 10},
        "sum": {"todo": 10},
        "both": {"todo": 5},
        "rests": {"not_served": 10},
    }
    assert work.roles == frozenset()
    assert plan(asked).roles == {"x.y"}


def test_slow_edits_have_a_steady_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an edit takes longer than the minute over which the rate is computed."""
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("editjudge.engine.progress.time", clock)
    progress = Progress(edits=20, start_time=0.0)
    assert progress.seconds_left is None
    for count in range(1, 11):
        now += 81
        progress.count_edit({}, ())
        assert progress.seconds_left == pytest.approx((20 - count) * 81)


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


async def test_a_run_keeps_it_and_asks_no_more(tmp_path: Path, log: Log, store: RunStore) -> None:
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
