"""`editjudge.run`: from scripts, from inside an event loop, in shards, interrupted and resumed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import editjudge
from editjudge import Dimension, Edit, Reading, RunSpec, RunView, Score, Scorer
from editjudge.app import client
from editjudge.app.estimate import describe_estimate
from editjudge.app.merge import merge
from editjudge.app.run import preview_run
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, InputError
from editjudge.cli import root
from editjudge.engine.events import FinishEvent, NoteEvent, RunEvent, StartEvent
from editjudge.storage.store import RunStore

from ...patience import until, wait_until
from ...small_data import PSNR, make_spec, save_picture, write_items

COUNT = 6


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """Six items by two models; `beta` lacks the last."""
    rng = np.random.default_rng(3)
    for index in range(COUNT):
        pixels = rng.integers(0, 230, (12, 16, 3), dtype=np.uint8)
        for folder in ("data", "alpha", "beta"):
            noise = 0 if folder == "data" else 10 + index
            save_picture(tmp_path / folder / f"{index}.png", pixels + np.uint8(noise))
    (tmp_path / "beta" / f"{COUNT - 1}.png").unlink()
    write_items(tmp_path / "data", ({"source": f"{index}.png"} for index in range(COUNT)))
    return make_spec(tmp_path, ["alpha", "beta"], data=tmp_path / "data")


def values(out: Path) -> dict[tuple[str, str], float]:
    with RunView(out) as view:
        return {(one.model, one.item): one.verdict.value for one in view.verdicts()}  # type: ignore[union-attr]


def count_verdicts(out: Path) -> int:
    """How many verdicts are on disk; 0 where the run has not begun."""
    try:
        return len(values(out))
    except ConfigError:
        return 0


def run_with_notes(spec: RunSpec, out: Path, **how: Any) -> tuple[editjudge.RunResult, list[Any], list[str]]:
    """Run; what came of it, its events, and its notes among them."""
    events: list[RunEvent] = []
    result = editjudge.run(spec, out=out, progress=events.append, **how)
    return result, events, [one.text for one in events if isinstance(one, NoteEvent)]


def means(result: editjudge.RunResult) -> dict[str, float | None]:
    return {model: row[PSNR].value for model, row in result.cells.items()}


def test_a_run_tells_what_it_does_and_goes_on(spec: RunSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result, events, notes = run_with_notes(spec, out)
    assert result.status == "done"
    kinds = [type(one) for one in events if not isinstance(one, NoteEvent)]
    assert kinds == [StartEvent, FinishEvent]
    assert notes[0].startswith("beta: 1 output is missing")
    assert events[-1] is result.last_event
    assert (result.last_event.judged, result.last_event.missing_outputs) == (2 * COUNT - 1, 1)
    assert result.cells["beta"][PSNR].counts == {"scored": COUNT - 1, "missing_output": 1}
    again = editjudge.run(spec, out=out)
    assert again.last_event.edits == 0
    assert means(again) == means(result)


def test_it_is_the_function_when_all_modules_are_imported(spec: RunSpec, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, sys, editjudge\n"
        "for one in pkgutil.walk_packages(editjudge.__path__, 'editjudge.'):\n"
        "    if not one.name.endswith('__main__'):\n"
        "        importlib.import_module(one.name)\n"
        "spec = editjudge.RunSpec.model_validate_json(sys.argv[1])\n"
        "print(editjudge.run(spec, out=sys.argv[2]).status)"
    )
    command = [sys.executable, "-c", code, spec.model_dump_json(), str(tmp_path / "run")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "done\n", ran.stderr


async def test_inside_a_running_loop_it_has_its_own_thread(spec: RunSpec, tmp_path: Path) -> None:
    threads: set[threading.Thread] = set()
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]

    def note(_: RunEvent) -> None:
        threads.add(threading.current_thread())

    first = editjudge.run(spec, out=tmp_path / "thread", progress=note)
    assert threads
    assert threading.current_thread() not in threads
    second = await editjudge.run_async(spec, out=tmp_path / "loop")
    assert means(first) == means(second)
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_shards_merged_are_the_whole_run(spec: RunSpec, tmp_path: Path) -> None:
    whole = editjudge.run(spec, out=tmp_path / "whole")
    parts = [editjudge.run(spec, out=tmp_path / str(i), shard=(i, 2)) for i in (0, 1)]
    items = [{item for _, item in values(tmp_path / str(i))} for i in (0, 1)]
    assert items == [{"0", "2", "4"}, {"1", "3", "5"}]
    assert sum(one.last_event.judged for one in parts) == whole.last_event.judged
    merge([tmp_path / "0", tmp_path / "1"], tmp_path / "all")
    assert values(tmp_path / "all") == values(tmp_path / "whole")
    with RunView(tmp_path / "all") as merged, RunView(tmp_path / "whole") as one:
        assert merged.results().models == one.results().models
    again = editjudge.run(spec, out=tmp_path / "all")
    assert again.last_event.edits == 0


def test_a_shard_may_be_empty_or_lack_all_outputs(spec: RunSpec, tmp_path: Path) -> None:
    nothing = editjudge.run(spec, out=tmp_path / "beyond", shard=(COUNT, COUNT + 1))
    assert (nothing.status, nothing.last_event.edits) == ("done", 0)
    last = editjudge.run(spec, out=tmp_path / "last", shard=(COUNT - 1, COUNT))
    assert last.cells["beta"][PSNR].counts == {"missing_output": 1}


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0)])
def test_there_is_no_such_shard(spec: RunSpec, tmp_path: Path, shard: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="there is no shard"):
        editjudge.run(spec, out=tmp_path / "run", shard=shard)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_begun_leaves_nothing(spec: RunSpec, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model is given"):
        editjudge.run(spec.model_copy(update={"outputs": {}}), out=tmp_path / "run")
    (tmp_path / "none").mkdir()
    empty = spec.model_copy(update={"outputs": {"alpha": tmp_path / "none"}})
    with pytest.raises(InputError, match="holds no output of alpha"):
        editjudge.run(empty, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Gate:
    """Lets so many edits through; the next ones wait until it opens."""

    def __init__(self, through: int) -> None:
        self.through = through
        self.reached = threading.Event()
        self.open = False

    async def __call__(self) -> None:
        self.through -= 1
        while self.through < 0 and not self.open:
            self.reached.set()
            await asyncio.sleep(0.01)


GATE = Gate(0)


@dataclass(frozen=True)
class GateScorer(Scorer):
    """Waits at the gate."""

    name: ClassVar[str] = "gated"

    async def score(self, edit: Edit, panel: Any, wanted: frozenset[str]) -> Mapping[str, Score]:
        await GATE()
        return {"number": Score(value=float(edit.item.id))}


@pytest.fixture
def gated_run(spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """A run that stands still after two edits."""
    monkeypatch.setattr(sys.modules[__name__], "GATE", Gate(2))
    how = Dimension("lab.gated", "Is it?", "here", Reading(GateScorer(), "number"), (0, 9))
    return make_spec(tmp_path, spec.outputs, [how], data=spec.data)


async def test_cancelled_midway_it_keeps_what_was_judged(gated_run: RunSpec, tmp_path: Path) -> None:
    running = asyncio.create_task(editjudge.run_async(gated_run, out=tmp_path / "run"))
    assert await asyncio.to_thread(GATE.reached.wait, 30)
    await until(lambda: count_verdicts(tmp_path / "run") == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(values(tmp_path / "run")) == 2
    GATE.open = True
    rest = await editjudge.run_async(gated_run, out=tmp_path / "run")
    assert rest.status == "done"
    assert rest.last_event.edits == 2 * COUNT - 1 - 2
    whole = await editjudge.run_async(gated_run, out=tmp_path / "whole")
    assert values(tmp_path / "run") == values(tmp_path / "whole")
    assert rest.cells == whole.cells


async def test_an_interruption_ends_the_thread_too(
    gated_run: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, here = client.Future.result, threading.current_thread()

    def interrupt(self: Any, timeout: float | None = None) -> Any:
        if threading.current_thread() is not here:
            return result(self, timeout)
        assert GATE.reached.wait(30)
        wait_until(lambda: count_verdicts(tmp_path / "run") == 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client.Future, "result", interrupt)
        with pytest.raises(KeyboardInterrupt):
            editjudge.run(gated_run, out=tmp_path / "run")
    assert not [one for one in threading.enumerate() if one.name.startswith("editjudge.loop")]
    assert len(values(tmp_path / "run")) == 2


def test_it_is_told_how_the_run_is_asked(spec: RunSpec, tmp_path: Path) -> None:
    editjudge.run(spec, out=tmp_path / "run", settings=Settings(attempts=1))
    with RunView(tmp_path / "run") as view:
        assert view.spec.model_copy(update={"data": spec.data, "protocol": ""}) == spec
        assert view.resolved_spec.rules.protocol == "core.1"


MASKED = "core.psnr.source.outside"


def check_refusal(spec: RunSpec, out: Path, kind: type[Exception], told: str) -> None:
    """A dry run refuses what the run refuses."""
    for work in (lambda: editjudge.run(spec, out=out), lambda: preview_run(spec, out, Settings())):
        with pytest.raises(kind, match=told):
            work()


def test_a_run_with_other_prompts_is_refused(spec: RunSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    editjudge.run(spec, out=out)
    with RunStore.open(out) as store:
        prompts = {"core/editing_artifacts.txt": "Look twice."}
        store._put_header(store.header.model_copy(update={"prompts": prompts}))
    check_refusal(spec, out, ConfigError, "was judged with other prompts")


def test_a_run_that_asks_nothing_is_none(spec: RunSpec, tmp_path: Path) -> None:
    masked = spec.model_copy(update={"dimensions": (MASKED,)})
    nothing = r"outside: applies to no item \(needs a mask\)"
    check_refusal(masked, tmp_path / "run", InputError, nothing)
    assert not (tmp_path / "run").exists()


def test_a_dry_run_notes_what_the_run_notes(spec: RunSpec, tmp_path: Path) -> None:
    """A dimension that asks nothing, and files of no item."""
    both = spec.model_copy(update={"dimensions": (PSNR, MASKED)})
    (spec.outputs["alpha"] / "x4.png").touch()
    estimate, plan = preview_run(both, tmp_path / "run", Settings())
    _, _, notes = run_with_notes(both, tmp_path / "run")
    asks_nothing = f"{MASKED}: applies to no item (needs a mask)"
    (stray,) = [one for one in describe_estimate(estimate, plan) if "to no item" in one and "x4" in one]
    assert stray.endswith("belongs to no item (first: x4.png)")
    assert {asks_nothing, stray} <= {*notes}
    assert asks_nothing in estimate.notes


def test_a_dry_run_does_not_say_that_nothing_is_asked_again(spec: RunSpec, tmp_path: Path) -> None:
    alpha = f"alpha={spec.outputs['alpha']}"
    asked = ["core", "--data", str(spec.data), "--outputs", alpha, "--dimension", PSNR]
    asked += ["--out", str(tmp_path), "--dry-run", "--retry", "unscored"]
    with pytest.raises(InputError, match="cannot be combined with --retry unscored"):
        root.commands["run"].main(asked, standalone_mode=False)


def test_no_more_verdicts_are_done_than_there_are(spec: RunSpec, tmp_path: Path) -> None:
    """What stands of items that are not asked for now is told as done."""
    out = tmp_path / "run"
    editjudge.run(spec, out=out)
    fewer = spec.model_copy(update={"limit": 2})
    (line,) = editjudge.run(fewer, out=out).last_event.verdicts.values()
    assert (line.scored, line.total) == (2 * COUNT - 1, 2 * COUNT - 1)
