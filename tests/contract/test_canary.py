"""Canaries in runs and on demand, against a scripted judge that drifts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from click.testing import CliRunner
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec, RunView
from editjudge.app.diff import diff
from editjudge.app.estimate import call_lines
from editjudge.app.export import rows_of
from editjudge.app.merge import merge
from editjudge.app.run import foreseen
from editjudge.app.wire.results import Summary
from editjudge.app.wire.run import Noted, RunEvent
from editjudge.base.config import Settings
from editjudge.cli import canary as verb
from editjudge.cli import root
from editjudge.cli.diff import lines
from editjudge.engine.canary import watching

from ..fakes.canary import RIGHT, CanaryJudge

LEVELS, PIXELS = "core.editing_artifacts", "core.psnr.source.whole"
EDITS = 4
SEVERAL = (
    LEVELS,
    "core.instruction_following",
    "core.composition_and_interaction",
    "core.blending_naturalness",
    "core.physical_plausibility",
)
CALLS = 7
"""That they take of an edit, two of them two."""
LOWER = {**RIGHT, "right": 4}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LEAST", EDITS)


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    rng = np.random.default_rng(3)
    (tmp_path / "ours").mkdir()
    lines = []
    for number in range(EDITS):
        for file in (f"{number}.png", f"ours/{number}.png"):
            Pil.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(tmp_path / file)
        lines.append({"id": str(number), "instruction": "x", "source": f"{number}.png"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return RunSpec(
        benchmark="core",
        data=tmp_path / "items.jsonl",
        outputs={"ours": tmp_path / "ours"},
        dimensions=(LEVELS, PIXELS),
    )


def settings(url: str, **more: Any) -> Settings:
    price = {"input": 10.0, "output": 0.0}  # a call costs 0.001
    judge = {"url": url, "logprobs": "never", "price": price}
    return Settings.model_validate({"generalists": {"judge": judge}, **more})


async def judged(spec: RunSpec, out: Path, by: Settings) -> tuple[editjudge.RunResult, list[str]]:
    events: list[RunEvent] = []
    result = await editjudge.run_async(spec, out=out, settings=by, progress=events.append)
    return result, [event.text for event in events if isinstance(event, Noted)]


class Drifting(CanaryJudge):
    """Judges another way after its first look."""

    def said(self) -> dict[str, Any]:
        if self.asked >= 30:
            self.levels = LOWER
        return super().said()


async def test_a_steady_judge_marks_nothing(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    async with judge.serving() as url:
        result, notes = await judged(spec, tmp_path / "run", settings(url))
        assert (judge.asked, judge.rest) == (3 * 10 + 10, EDITS)
        assert not [note for note in notes if "canary" in note]
        (seen,) = result.finished.watched
        assert (seen.state, seen.shift, seen.tau) == ("steady", 0.0, 1.0)
        # They are paid for: this session says so, and the next one counts them.
        assert result.finished.usage["calls"] == 40 + EDITS
        assert result.finished.usage["cost"] == pytest.approx(0.001 * (40 + EDITS))
    with RunView(tmp_path / "run") as view:
        assert view._store.costs[0] == pytest.approx(0.001 * (40 + EDITS))
        assert view.drift() == {}
        assert not view.results().drift


async def test_a_judge_that_drifts_marks_what_rests_on_it(spec: RunSpec, tmp_path: Path) -> None:
    out, judge = tmp_path / "run", Drifting()
    async with judge.serving() as url:
        result, notes = await judged(spec, out, settings(url))
        (note,) = [note for note in notes if "canary" in note]
    assert note.startswith("generalist.judge: shifted by -0.20 (of 1 to 5; 0.00 is noise), 2 of 10")
    assert [one.state for one in result.finished.watched] == ["shifted"]
    with RunView(out) as view:
        assert [one.finding.state for one in view.watched()] == ["shifted"]
        assert list(view.drift()) == [LEVELS]
        summary = Summary.of(view.results())
        assert list(summary.drift) == [LEVELS]
        assert "shifted by -0.20" in summary.drift[LEVELS]
        assert [one.state for one in summary.watched] == ["shifted"]
        told = {(row.dimension, bool(row.drift)) for row in rows_of(view)}
        assert told == {(LEVELS, True), (PIXELS, False)}
    itself = diff(out, out)
    assert list(itself.drift) == [LEVELS]
    assert itself.is_none, "both are marked"
    assert [
        line for line in lines(itself) if "of the second run is marked: generalist.judge" in line
    ]
    shown = await asyncio.to_thread(CliRunner().invoke, root, ["summary", str(out)])
    assert "! generalist.judge" in shown.output
    assert f"on it rest {LEVELS}" in shown.output


async def test_nothing_is_taken_from_a_ledger_but_the_first_look(
    spec: RunSpec, tmp_path: Path
) -> None:
    """What one run found, the next is compared with, in another folder."""
    judge = CanaryJudge()
    async with judge.serving() as url:
        by = settings(url, ledger=tmp_path / "ledger.sqlite")
        await judged(spec, tmp_path / "1", by)
        judge.asked, judge.levels = 0, LOWER
        await judged(spec.model_copy(update={"limit": EDITS - 1}), tmp_path / "2", by)
        assert judge.asked == 0, "three verdicts are not worth it"
        result, _ = await judged(spec, tmp_path / "3", by)
        assert judge.asked == 20
        assert [one.state for one in result.finished.watched] == ["shifted"]
        assert judge.rest == EDITS, "but edits are known"


class Patient(CanaryJudge):
    """Answers the last edit only when it was asked about the last canary of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.last = asyncio.Event()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._chat(request)
        if self.asked >= 40:
            self.last.set()
        if self.canary(await request.json()) is None and self.rest == EDITS:
            await self.last.wait()
        return answer


async def test_the_last_look_is_beside_the_last_edits(spec: RunSpec, tmp_path: Path) -> None:
    """Where there is room for both, no edit has to be done: a session takes no call longer."""
    judge = Patient()
    async with judge.serving() as url:
        by = settings(url, concurrency=16)
        result, _ = await judged(spec, tmp_path / "run", by)
    assert (judge.asked, judge.rest) == (40, EDITS)
    assert [one.state for one in result.finished.watched] == ["steady"]


class Noting(CanaryJudge):
    """Notes what it was asked about, in order: canaries and edits."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def said(self) -> dict[str, Any]:
        self.order.append("canary" if self.canary(self.requests[-1]) else "edit")
        return super().said()


async def test_no_more_than_a_roomful_of_calls_comes_after_the_last_look(
    spec: RunSpec, tmp_path: Path
) -> None:
    """Calls that wait for the first one of their pictures stand in no line."""
    judge, places = Noting(), 16
    several = spec.model_copy(update={"dimensions": SEVERAL})
    async with judge.serving() as url:
        await judged(several, tmp_path / "run", settings(url, concurrency=places))
    assert (judge.asked, judge.rest) == (40, CALLS * EDITS)
    last = [n for n, what in enumerate(judge.order) if what == "canary"][30]
    # One edit of five verdicts is left room for beside ten canaries.
    assert judge.order[last:].count("edit") <= CALLS


async def test_what_money_is_left_is_the_edits(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    several = spec.model_copy(update={"dimensions": SEVERAL})
    calls = 30 + CALLS * EDITS
    async with judge.serving() as url:
        by = settings(url, concurrency=16, max_cost=0.001 * calls + 0.0005)
        result, _ = await judged(several, tmp_path / "run", by)
    assert (result.ended, judge.asked, judge.rest) == ("done", 30, CALLS * EDITS)


async def test_a_session_that_ends_early_is_not_checked(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = CanaryJudge()
    async with judge.serving() as url:
        out, by = tmp_path / "run", settings(url)
        with monkeypatch.context() as patch:
            ended = asyncio.Event()

            async def never(self: Any, name: str) -> None:
                ended.set()
                await asyncio.Event().wait()

            patch.setattr(watching.CanaryWatch, "_end_of", never)
            running = asyncio.create_task(editjudge.run_async(spec, out=out, settings=by))
            await ended.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        with RunView(out) as view:
            (seen,) = view.watched()
            assert seen.finding.state == "unchecked"
            assert not view.drift()
            assert not Summary.of(view.results()).drift
        # The next session's beginning tells what it was at the end of this one.
        more = spec.model_copy(update={"dimensions": (LEVELS, "core.instruction_following")})
        await judged(more, out, by)
    with RunView(out) as view:
        assert [one.finding.state for one in view.watched()] == ["steady", "steady"]


async def test_a_judge_that_does_not_answer_is_not_checked(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    judge.levels = dict.fromkeys(RIGHT, None)
    async with judge.serving() as url:
        result, notes = await judged(spec, tmp_path / "run", settings(url))
    assert [one.state for one in result.finished.watched] == ["unchecked"]
    assert any("not watched by canaries: 'Hm.'" in note for note in notes)
    assert result.cells["ours"][LEVELS].value is not None


async def test_where_the_money_ends_there_is_no_first_look(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    async with judge.serving() as url:
        by = settings(url, max_cost=0.0095)
        result, _ = await judged(spec, tmp_path / "run", by)
        assert result.ended in {"cost", "done"}
        assert judge.asked + judge.rest <= 10
        assert [one.state for one in result.finished.watched] == ["unchecked"]
        more = by.model_copy(update={"max_cost": 1.0})
        await judged(spec.model_copy(update={"dimensions": (LEVELS,)}), tmp_path / "new", more)
    with RunView(tmp_path / "run") as view:
        assert [one.finding.state for one in view.watched()] == ["unchecked"]
        assert view._store.facts("canary baseline") == []
    with RunView(tmp_path / "new") as view:
        assert len(view._store.facts("canary baseline")) == 1


async def test_it_can_be_left_out_and_is_counted_before(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    async with judge.serving() as url:
        by = settings(url)
        estimated, *_ = await asyncio.to_thread(foreseen, spec, tmp_path / "run", by)
        (line,) = call_lines(estimated)
        assert "at most 44 calls (40 of them canaries), and as many again" in line
        without = by.model_copy(update={"canary": False})
        result, _ = await judged(spec, tmp_path / "run", without)
        assert (judge.asked, result.finished.watched) == (0, ())


async def test_shards_keep_what_each_saw(spec: RunSpec, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(watching, "LEAST", 1)
    judge = CanaryJudge()
    async with judge.serving() as url:
        for shard in (0, 1):
            await editjudge.run_async(
                spec, out=tmp_path / str(shard), settings=settings(url), shard=(shard, 2)
            )
            judge.levels = LOWER
    merge([tmp_path / "0", tmp_path / "1"], tmp_path / "all")
    with RunView(tmp_path / "all") as view:
        # The second had a first look of its own.
        assert [one.finding.state for one in view.watched()] == ["steady", "steady"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


async def test_on_demand(state: Path, tmp_path: Path) -> None:
    judge = CanaryJudge(other="Yes")

    async def called(*more: str) -> tuple[int, str]:
        arguments = ["canary", "--generalist", url, *more]
        done = await asyncio.to_thread(CliRunner().invoke, root, arguments, standalone_mode=False)
        assert done.exception is None, done.exception
        return done.return_value, done.output

    async with judge.serving() as url:
        code, shown = await called()
        assert (code, judge.asked) == (0, 30)
        assert "seen for the first time" in shown
        assert str(state / "canary.sqlite").replace("\n", "") in shown.replace("\n", "")
        code, shown = await called()
        assert (code, judge.asked) == (0, 40)
        assert "steady: +0.00" in shown
        judge.levels = LOWER
        code, shown = await called("--repeats", "2", "--json")
        assert (code, judge.asked) == (3, 60)
        (told,) = json.loads(shown)
        assert (told["state"], told["shift"], told["calls"]) == ("shifted", -0.2, 20)
        assert told["canaries"][0] == {
            "canary": "kitchen.right",
            "place": 1,
            "before": 5.0,
            "sd": 0.0,
            "now": 4.0,
            "failure": "",
        }
        code, _ = await called("--anew")
        assert code == 0
        code, _ = await called()
        assert code == 0
        judge.levels = {name: 6 - level for name, level in RIGHT.items()}
        code, shown = await called("--anew")
        assert code == 3
        assert "cannot order the canaries" in shown
        code, shown = await called("--ledger", str(tmp_path / "other.sqlite"))
        assert "seen for the first time" not in shown
        assert code == 3
    code, shown = await called()
    assert code == 1
    assert "not checked" in shown
    assert verb._EXIT["unchecked"] == 1
