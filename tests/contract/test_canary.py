"""Canaries on demand, against a scripted judge that drifts; what a session says of its judges."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec
from editjudge.app.canary import CanaryCheck, checks_file, last_checks_line
from editjudge.base.config import Settings
from editjudge.base.errors import StoreError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.canary.comparison import Measurement
from editjudge.cli import root, services
from editjudge.engine.events import NoteEvent, RunEvent

from ..fakes.canary import RIGHT, CanaryJudge

LEVELS, PIXELS = "core.editing_artifacts", "core.psnr.source.whole"
EDITS = 4
LOWER = {**RIGHT, "right": 4}
UNCHECKED = "judge not checked: editjudge canary"


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
    told = {"data": tmp_path / "items.jsonl", "outputs": {"ours": tmp_path / "ours"}}
    return RunSpec(benchmark="core", dimensions=(LEVELS, PIXELS), **told)


def settings(url: str, **more: Any) -> Settings:
    judge = {"url": url, "logprobs": "never"}
    return Settings.model_validate({"judges": {"judge": judge}, **more})


async def judge_edits(spec: RunSpec, out: Path, by: Settings) -> tuple[editjudge.RunResult, list[str]]:
    events: list[RunEvent] = []
    result = await editjudge.run_async(spec, out=out, settings=by, progress=events.append)
    return result, [event.text for event in events if isinstance(event, NoteEvent)]


async def run_cli(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(CliRunner().invoke, root, arguments, standalone_mode=False)
    assert done.exception is None, done.exception
    return done.return_value, done.output


async def test_a_run_asks_nothing_but_about_edits(spec: RunSpec, tmp_path: Path) -> None:
    judge = CanaryJudge()
    async with judge.serving() as url:
        _, notes = await judge_edits(spec, tmp_path / "run", settings(url))
    assert (judge.asked, judge.rest) == (0, EDITS)
    (note,) = notes
    assert note.startswith("generalist.judge: no token probabilities: a score of choices is one")


class RenamedJudge(CanaryJudge):
    """Is started anew with another owner once it has judged all edits."""

    def make_reply(self) -> dict[str, Any]:
        answer = super().make_reply()
        if self.rest == EDITS:
            self.owner = "another"
        return answer


async def test_a_judge_that_is_another_at_the_end_of_a_session_is_told(spec: RunSpec, tmp_path: Path) -> None:
    judge = RenamedJudge()
    async with judge.serving() as url:
        _, (note, _) = await judge_edits(spec, tmp_path / "run", settings(url))
    assert note.startswith(f"generalist.judge at {url} is ")
    now, _, then = note.partition("it was ")
    assert "owned_by=another" in now
    assert "owned_by=another" not in then


async def test_the_last_check_is_shown_in_one_line(spec: RunSpec, tmp_path: Path) -> None:
    judge, out, ledger = CanaryJudge(), tmp_path / "run", tmp_path / "ledger.sqlite"
    async with judge.serving() as url:
        by = settings(url, ledger=ledger)
        two = {"ours": tmp_path / "ours", "theirs": tmp_path / "ours"}
        result, _ = await judge_edits(spec.model_copy(update={"outputs": two}), out, by)
        assert last_checks_line(result.services, settings=by) == UNCHECKED
        _, shown = await run_cli("summary", str(out))
        assert shown.count("not checked") == shown.count(UNCHECKED) == 1
        file = tmp_path / "editjudge.toml"
        file.write_text(f'[judges.judge]\nurl = "{url}"\nlogprobs = "never"\n')
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setenv("EDITJUDGE_LEDGER", str(ledger))
            await run_cli("canary")
            for verb_ in (("summary", str(out)), ("compare", str(out))):
                _, shown = await run_cli(*verb_)
                (line,) = [one for one in shown.splitlines() if one.startswith("judge ")]
                assert line.endswith(": baseline, order: tau 1.00")
            judge.levels = LOWER
            await run_cli("canary")
            told = last_checks_line(result.services)
            assert ": shifted by -0.20" in told
    assert checks_file(by) == tmp_path / "ledger.sqlite.canaries.json"


async def test_that_a_judge_was_not_checked_stands_with_every_comparison(
    spec: RunSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, out, ledger = CanaryJudge(), tmp_path / "run", tmp_path / "ledger.sqlite"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITJUDGE_LEDGER", str(ledger))
    two = {"ours": tmp_path / "ours", "theirs": tmp_path / "ours"}
    async with judge.serving() as url:
        by = settings(url, ledger=ledger)
        await judge_edits(spec.model_copy(update={"outputs": two}), out, by)
    ours = ("compare", str(out), "ours", "theirs")
    compared = (ours[:2], ours, (*ours, "--other", str(out)), ("summary", str(out)))
    for command in compared:
        assert UNCHECKED in (await run_cli(*command))[1].splitlines()
        assert json.loads((await run_cli(*command, "--json"))[1])["checks"] == UNCHECKED
        # Pixels are no judge's.
        assert "not checked" not in (await run_cli(*command, "-d", PIXELS))[1]
        only_pixels = (await run_cli(*command, "-d", PIXELS, "--json"))[1]
        assert json.loads(only_pixels)["checks"] == ""
    for form in ("markdown", "latex"):
        assert UNCHECKED in (await run_cli("summary", str(out), "--format", form))[1]
        of_pixels = (await run_cli("summary", str(out), "--format", form, "-d", PIXELS))[1]
        assert "not checked" not in of_pixels
        assert "generalist.judge" not in of_pixels
    await run_cli("report", str(out), "--out", str(tmp_path / "page.html"))
    assert f'<p class="warning">{UNCHECKED}</p>' in (tmp_path / "page.html").read_text()
    when, why = "2026-11-24T00:00:00+00:00", "cannot order the canaries (tau 0.05, below 0.3)"
    measured = {"tau": 0.05, "asked": "", "unit": 0.0, "first": Measurement(when=when, scores={})}
    check = CanaryCheck(when=when, state="disordered", why=why, **measured)
    with editjudge.RunView(out) as view:
        (identity,) = (str(of) for name, of in view.header.identities.items() if name.is_judge)
    checks_file(by).write_text(json.dumps({identity: check.model_dump()}))
    for command in compared:
        assert "judge checked 2026-11-24: cannot order the canaries" in (await run_cli(*command))[1]


def test_several_judges_share_a_line() -> None:
    first, second = ({ServiceName.parse(f"generalist.{name}"): ModelIdentity(name)} for name in "ab")
    assert last_checks_line(first, first) == UNCHECKED
    assert last_checks_line(first, second) == "judges not checked: editjudge canary"
    assert last_checks_line({}) == ""


def test_a_file_of_checks_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    by = Settings(ledger=tmp_path / "ledger.sqlite")
    checks_file(by).write_text("{")
    with pytest.raises(StoreError, match=r"canaries\.json"):
        last_checks_line({ServiceName.parse("generalist.judge"): ModelIdentity("m")}, settings=by)
    fields = {"when", "state", "why", "tau", "asked", "unit", "first"}
    assert CanaryCheck.model_fields.keys() == fields


async def test_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "state"))
    judge = CanaryJudge(other="Yes")

    async def ask_canaries(*more: str) -> tuple[int, str]:
        return await run_cli("canary", "--generalist", url, *more)

    async with judge.serving() as url:
        code, shown = await ask_canaries()
        assert (code, judge.asked) == (0, 30)
        assert "baseline stored in" in shown
        file = tmp_path / "state" / "canaries.json"
        assert str(file) in shown.replace("\n", "")
        assert file.stat().st_mode & 0o777 == 0o600
        code, shown = await ask_canaries()
        assert (code, judge.asked) == (0, 40)
        assert "steady: +0.00" in shown
        judge.levels = LOWER
        code, shown = await ask_canaries("--rounds", "2", "--json")
        assert (code, judge.asked) == (3, 60)
        (told,) = json.loads(shown)
        assert (told["state"], told["shift"], told["calls"]) == ("shifted", -0.2, 21)
        first = {"canary": "kitchen.right", "place": 1, "before": 5.0, "sd": 0.0, "now": 4.0}
        assert told["canaries"][0] == {**first, "failure": ""}
        code, _ = await ask_canaries("--new-baseline")
        assert code == 0
        code, _ = await ask_canaries()
        assert code == 0
        ((identity, check),) = json.loads(file.read_text()).items()
        before = f"{identity.partition('(')[0]}(server=vllm 0.1)"
        file.write_text(json.dumps({before: check, "another-model(server=vllm 0.1)": check}))
        code, shown = await ask_canaries()  # of a server that was upgraded
        assert code == 0
        assert f"new baseline stored in {file}" in shown.replace("\n", "")
        assert f"The last one was of {before}." in shown
        (told,) = json.loads((await ask_canaries("--json"))[1])
        assert (told["first"], told["other"]) == (False, "")
        judge.levels = {name: 6 - level for name, level in RIGHT.items()}
        code, shown = await ask_canaries("--new-baseline")
        assert code == 3
        assert "cannot order the canaries" in shown
        code, shown = await ask_canaries("--ledger", str(tmp_path / "other.sqlite"))
        assert "baseline stored in" not in shown
        assert code == 3
        judge.levels = dict.fromkeys(RIGHT, None)
        code, shown = await ask_canaries("--ledger", str(tmp_path / "third.sqlite"))
        assert code == 1
        assert "not checked: kitchen.right: 'Hm.'" in shown
        assert not (tmp_path / "third.sqlite.canaries.json").exists()
    code, shown = await ask_canaries()
    assert code == 1
    assert "not checked" in shown
    assert services._EXIT["unchecked"] == 1
