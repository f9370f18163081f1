from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from editjudge.base import images
from editjudge.base.digest import digest_bytes
from editjudge.base.errors import CostLimit, StoreError, Unreachable
from editjudge.base.file_states import ABSENT, FileState
from editjudge.base.identity import Identities, ModelIdentity, ServiceName
from editjudge.base.images import load_image
from editjudge.base.item import Edit, Item, Missing
from editjudge.base.signature import Signature
from editjudge.base.verdict import Score, Verdict
from editjudge.benchmarks.dataset import ItemRef, placeholder
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.fusion import mean
from editjudge.engine import scheduler as module
from editjudge.engine.content_keys import JudgedEdit, StandingVerdicts
from editjudge.engine.judge import Signatures, make_judges
from editjudge.engine.progress import Progress
from editjudge.engine.run_inputs import RunInputs
from editjudge.engine.run_plan import RunPlan, compare_with_run, inspect_items
from editjudge.engine.scheduler import Scheduler
from editjudge.scorers.judge_scorer import JUDGE
from editjudge.scorers.scorer import Scorer
from editjudge.scorers.vqa import FiveLevel

from ...fakes.scorers import FakePanel
from ..storage.stored import HEADER

ORDERS = Path("orders")


@dataclass(frozen=True)
class Timed(Scorer):
    """Takes its time; says how many are judged at once, and fails on demand."""

    name: ClassVar[str] = "timed"
    log: Any = field(default=None, compare=False, hash=False)
    needs: tuple[str, ...] = ()
    shows: bool = False

    @property
    def reads_pixels(self) -> bool:
        return not self.shows

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        return tuple(map(ServiceName.parse, self.needs))

    def spec(self) -> Mapping[str, object]:
        return {}

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Verdict]:
        self.log.began(edit)
        try:
            number = int(edit.item.id)
            await asyncio.sleep(0.001 * (number * 7 % 5))
            if error := self.log.errors.get(number):
                raise error
            return {"score": Score(value=number)}
        finally:
            self.log.ended()


class Log:
    """What happened, and what is to happen."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception] = {}
        self.order: list[tuple[str, str]] = []
        self.now = self.most = self.loads = 0

    def began(self, edit: Edit) -> None:
        self.order.append((edit.item.id, edit.model))
        self.now += 1
        self.most = max(self.most, self.now)

    def ended(self) -> None:
        self.now -= 1


class Items:
    """A data set whose images are one pixel."""

    name, protocol, path, digest = "test", "test.1", Path("test"), "sha256:0"
    folder = path
    released = False

    def __init__(self, count: int, log: Log, size: int = 1) -> None:
        self.count, self.log, self.size = count, log, size

    def check_items(self) -> Iterator[ItemRef]:
        return self.items()

    def items(self, only: Any = None) -> Iterator[ItemRef]:
        for index in range(self.count):
            if only is None or index in only:
                yield ItemRef(str(index), index, {}, {}, {})

    def shape_key(self, ref: ItemRef) -> str:
        return ""

    def flaws(self, ref: ItemRef) -> Any:
        return {}

    def list_rejected_entries(self) -> tuple[()]:
        return ()

    def fix(self, refs: Any) -> str:
        return ""

    def has_outputs(self, folder: Path) -> bool:
        return folder.is_dir()

    def outline(self, ref: ItemRef) -> Item:
        return Item(ref.id, "x", (placeholder(),), task="odd" if ref.index % 2 else "even")

    def load(self, ref: ItemRef, max_lazy_pixels: int = 0) -> Item:
        self.log.loads += 1
        image = load_image(np.zeros((self.size, self.size, 3), np.uint8))
        return Item(ref.id, "x", (image,), task="odd" if ref.index % 2 else "even")

    def image_paths(self, ref: ItemRef) -> Mapping[str, tuple[Path, ...]]:
        return {}

    def files(self, ref: ItemRef) -> tuple[str, ...]:
        return ()

    def record_digest(self, ref: ItemRef) -> bytes:
        return ref.id.encode()

    def outputs(self, folder: Path) -> Any:
        return Everything(folder)


@dataclass(frozen=True)
class Everything:
    """An output for every item, the same picture."""

    folder: Path

    def path(self, item: str) -> str | None:
        return str(self.folder / "one.png")

    def why_not(self, item: str) -> Missing:
        return Missing("absent", "")

    def index(self) -> Everything:
        return self

    def list_unmatched(self, items: Container[str]) -> list[str]:
        return []


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.edits: list[tuple[str, str, str | None, bytes]] = []
        self.verdicts: dict[tuple[str, str, str], Verdict] = {}
        self.signatures: dict[str, str] = {}

    async def save_edit(
        self,
        edit: JudgedEdit,
        verdicts: Mapping[str, Verdict],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        item, model = edit.item, edit.model
        seen = edit.output_file or FileState(ABSENT, "")
        self.edits.append((item, model, seen.digest or None, seen.stat))
        for name, verdict in verdicts.items():
            self.verdicts[item, model, name] = verdict
            self.signatures[name] = signatures[name]

    header = HEADER

    def items(self) -> list[str]:
        return [item for item, *_ in self.edits]

    def find_standing(
        self, model: str, signatures: Mapping[str, str]
    ) -> dict[str, list[StandingVerdicts]]:
        judged: dict[str, list[StandingVerdicts]] = {}
        for item, of, digest, stat in dict.fromkeys(self.edits):
            if of == model:
                names = [n for (i, m, n) in self.verdicts if (i, m) == (item, of)]
                known = frozenset(n for n in names if n in signatures)
                output = digest_bytes(digest) if digest else None
                judged.setdefault(item, []).append(StandingVerdicts(b"", output, stat, None, known))
        return judged


@pytest.fixture
def log() -> Log:
    return Log()


def dimension(log: Log, name: str = "test.one", **given: Any) -> Dimension:
    how = given.pop("how", None) or Reading(Timed(log), "score")
    return Dimension(name, "?", "test", how, (0, 1e9), **given)


def order(tmp_path: Path, log: Log, count: int, models: str, *dimensions: Dimension) -> RunInputs:
    outputs = {}
    for model in models:
        outputs[model] = tmp_path / model
        outputs[model].mkdir(exist_ok=True)
        image = load_image(np.zeros((2, 2, 3), np.uint8))
        (outputs[model] / "one.png").write_bytes(image.encoded_bytes)
    chosen = dimensions or (dimension(log),)
    return RunInputs(Items(count, log), outputs, chosen, {d.id: d for d in chosen})


def scheduler(order: RunInputs, work: RunPlan, kept: Kept, **given: Any) -> Scheduler:
    progress = Progress.of(work, {})
    panel: Any = FakePanel()
    return Scheduler(
        work, make_judges(panel), kept.save_edit, progress, **{"max_in_flight": 4, **given}
    )


async def test_a_signature_is_made_once_and_not_for_every_edit(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Identities] = []
    signature = Dimension.signature

    def counted(self: Dimension, services: Identities, *parts: Any) -> Signature:
        made.append(services)
        return signature(self, services, *parts)

    monkeypatch.setattr(Dimension, "signature", counted)
    asked = order(tmp_path, log, 5, "a")
    kept = Kept()
    work = compare_with_run(inspect_items(asked), None, FakePanel().identities())
    await scheduler(asked, work, kept).run()
    assert len(kept.verdicts) == 5
    assert len(made) == 1
    assert asked.signatures({}) == kept.signatures


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
    in_flight: int, tmp_path: Path, log: Log
) -> None:
    asked = order(tmp_path, log, 20, "ab")
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    assert await scheduler(asked, work, kept, max_in_flight=in_flight).run() == "done"
    assert kept.verdicts == {
        (str(i), model, "test.one"): Score(value=i) for i in range(20) for model in "ab"
    }
    assert log.most <= in_flight
    assert log.loads == 20, "an item is loaded once for all its models"


async def test_the_models_of_an_item_follow_each_other(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 3, "ab")
    work = compare_with_run(inspect_items(asked), None, {})
    await scheduler(asked, work, Kept(), max_in_flight=1).run()
    assert log.order == [(str(i), model) for i in range(3) for model in "ab"]


async def test_what_stands_is_not_judged_again(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 10, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    log.errors[3] = Unreachable("gone", service="x.y")
    await scheduler(asked, work, kept).run()
    assert kept.verdicts["3", "a", "test.one"].status == "failed"
    del kept.verdicts["3", "a", "test.one"]  # as the store tells it: failed does not stand
    left = compare_with_run(inspect_items(asked), kept, {})
    assert [ref.id for ref, _ in left.list_unfinished_items()] == ["3"]
    assert left.counts["a"]["test.one"] == {"standing": 9, "todo": 1}


async def test_an_output_that_changed_is_judged_again(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 2, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    await scheduler(asked, work, kept).run()
    same = compare_with_run(inspect_items(asked), kept, {})
    assert same.edit_count == 0
    other = load_image(np.ones((2, 2, 3), np.uint8))
    (tmp_path / "a" / "one.png").write_bytes(other.encoded_bytes)
    changed = compare_with_run(inspect_items(asked), kept, {})
    assert changed.edit_count == 2
    await scheduler(asked, changed, kept).run()
    assert kept.edits[-1][2] == other.digest


async def test_a_spent_budget_ends_it_and_keeps_what_was_judged(tmp_path: Path, log: Log) -> None:
    free = dimension(log, "test.free", how=Reading(Timed(log, ()), "score"))
    asked = order(tmp_path, log, 30, "a", free)
    work = compare_with_run(inspect_items(asked), None, {})
    kept, said = Kept(), []
    log.errors = {number: CostLimit("spent", service="x.y") for number in range(10, 30)}
    ended = await scheduler(asked, work, kept, say=said.append).run()
    assert ended == "cost"
    assert {one.status for one in kept.verdicts.values()} == {"scored"}
    assert len(kept.verdicts) == 10
    assert len(said) == 1


async def test_too_large_a_share_of_failures_ends_it(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 100, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    log.errors = {number: Unreachable("gone", service="x.y") for number in range(0, 100, 10)}
    few = scheduler(asked, work, Kept(), fail_on_error=0.2)
    assert await few.run() == "done"
    kept = Kept()
    many = scheduler(asked, work, kept, fail_on_error=0.05)
    assert await many.run() == "failures"
    assert module.MIN_VERDICTS <= len(kept.verdicts) < 100


async def test_what_a_scorer_trips_over_costs_one_edit(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 5, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    log.errors[2] = ZeroDivisionError("oh")
    kept = Kept()
    assert await scheduler(asked, work, kept).run() == "done"
    assert kept.verdicts["2", "a", "test.one"].status == "failed"
    assert "ZeroDivisionError: oh" in kept.verdicts["2", "a", "test.one"].error  # type: ignore[union-attr]
    assert len(kept.verdicts) == 5


async def test_a_source_that_cannot_be_loaded_costs_its_own_edits(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tmp_path, log, 4, "ab")
    load = Items.load

    def tripping(self: Items, ref: ItemRef, max_lazy_pixels: int) -> Item:
        if ref.id == "1":
            raise AssertionError("whatever a decoder raises")
        return load(self, ref, max_lazy_pixels)

    monkeypatch.setattr(Items, "load", tripping)
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    assert await scheduler(asked, work, kept).run() == "done"
    failed = {
        key[0]: verdict for key, verdict in kept.verdicts.items() if verdict.status != "scored"
    }
    assert list(failed) == ["1"]
    assert len(kept.verdicts) == 8
    assert "1: AssertionError: whatever a decoder raises" in failed["1"].error  # type: ignore[union-attr]


async def test_a_full_disk_ends_it(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 50, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    log.errors[2] = StoreError("the disk is full")  # type: ignore[assignment]
    with pytest.raises(ExceptionGroup) as raised:
        await scheduler(asked, work, Kept()).run()
    assert raised.group_contains(StoreError)


async def test_cancelled_it_keeps_what_is_judged(tmp_path: Path, log: Log) -> None:
    asked = order(tmp_path, log, 1000, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    task = asyncio.create_task(scheduler(asked, work, kept).run())
    while len(kept.verdicts) < 10:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.now == 0
    assert 10 <= len(kept.verdicts) < 1000


async def test_only_what_is_computed_on_is_decoded(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []
    decode = images._decode
    monkeypatch.setattr(images, "_decode", lambda *a: decoded.append(a) or decode(*a))
    shown = dimension(log, "test.shown", how=Reading(Timed(log, shows=True), "score"))
    for dimensions, count in (((shown,), 0), ((shown, dimension(log)), 5)):
        decoded.clear()
        asked = order(tmp_path, log, 5, "a", *dimensions)
        work = compare_with_run(inspect_items(asked), None, {})
        await scheduler(asked, work, Kept()).run()
        assert len(decoded) == count


async def test_large_images_wait_for_room(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2 * 100 * 100 * 3)
    asked = order(tmp_path, log, 12, "a")
    asked.dataset.size = 100  # type: ignore[attr-defined]
    work = compare_with_run(inspect_items(asked), None, {})
    await scheduler(asked, work, Kept(), max_in_flight=12).run()
    assert log.most < 12


async def test_no_edit_begins_before_it_is_known_what_they_hold(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are not loaded yet count as those that are."""
    monkeypatch.setattr(module, "MAX_HELD", 1)
    loading: list[int] = []
    begin = Scheduler._load_edit

    async def counted(self: Scheduler, job: module.Job) -> Any:
        loading.append(len(self._bytes_in_flight))
        return await begin(self, job)

    monkeypatch.setattr(Scheduler, "_load_edit", counted)
    asked = order(tmp_path, log, 12, "a")
    work = compare_with_run(inspect_items(asked), None, {})
    await scheduler(asked, work, Kept(), max_in_flight=12).run()
    assert loading == [1] * 12


async def test_edits_begin_as_soon_as_the_first_is_loaded(tmp_path: Path, log: Log) -> None:
    """They do not wait until it is judged."""
    together = asyncio.Barrier(4)

    @dataclass(frozen=True)
    class Together(Timed):
        async def score(self, *_: Any) -> Mapping[str, Verdict]:
            await together.wait()
            return {"score": Score(value=1)}

    asked = order(tmp_path, log, 4, "a", dimension(log, how=Reading(Together(log), "score")))
    work = compare_with_run(inspect_items(asked), None, {})
    kept = Kept()
    async with asyncio.timeout(10):
        await scheduler(asked, work, kept, max_in_flight=4).run()
    assert len(kept.verdicts) == 4


def test_a_plan_knows_what_applies_and_what_is_served(tmp_path: Path, log: Log) -> None:
    def only_odd(item: Item) -> str | None:
        return None if item.task == "odd" else "even"

    dimensions = (
        dimension(log),
        dimension(log, "test.odd", when=only_odd),
        dimension(log, "test.masked", needs=frozenset({"mask"})),
        dimension(log, "test.far", how=Reading(Timed(log, ("x.y",)), "score")),
        dimension(
            log, "test.sum", how=make_formula(lambda v: sum(v.values()), "test.one", "test.odd")
        ),
        dimension(
            log, "test.both", how=make_formula(lambda v: 1, "test.one", "test.odd", complete=True)
        ),
        dimension(log, "test.rests", how=make_formula(lambda v: 1, "test.one", "test.far")),
    )
    asked = order(tmp_path, log, 10, "a", *dimensions)
    work = compare_with_run(inspect_items(asked), None, {}, {"test.far": "away"})
    found = {name: dict(count) for name, count in work.counts["a"].items()}
    assert found == {
        "test.one": {"todo": 10},
        "test.odd": {"todo": 5},
        "test.masked": {},
        "test.far": {"not_served": 10},
        "test.sum": {"todo": 10},
        "test.both": {"todo": 5},
        "test.rests": {"not_served": 10},
    }
    assert work.roles == frozenset()
    assert compare_with_run(inspect_items(asked), None, {}).roles == {"x.y"}


def test_progress_counts_what_is_answered_of_an_edit() -> None:
    """By shares of the edits in progress, so that it moves and has a speed before one is done."""
    progress = Progress(edits=4)
    with progress.track_edit() as answered:
        answered(0.5)
        assert (progress.judged_edits, progress.done_edits) == (0, 0.5)
        assert progress.rate > 0
        assert progress.seconds_left is not None
        answered(0.5)
        answered(0.5)
        assert progress.done_edits == 1.0
        progress.count_edit({}, ())
    assert (progress.judged_edits, progress.done_edits) == (1, 1.0)


def test_slow_edits_have_a_steady_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between the end of one and the next answer: no edit counts twice meanwhile."""
    now = 0.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("editjudge.engine.progress.time", clock)
    progress = Progress(edits=20, start_time=0.0)
    told: list[float | None] = []
    for _ in range(10):
        with progress.track_edit() as answered:
            for _ in range(4):
                for _ in range(20):
                    now += 1
                    told.append(progress.seconds_left)
                answered(0.25)
            now += 1  # it is stored
            progress.count_edit({}, ())
    late = told[80:]
    assert all(left is not None for left in late)
