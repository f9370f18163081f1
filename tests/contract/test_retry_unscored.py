"""What is asked anew and what is not: `--retry unscored`, and one ledger for several runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec, RunView
from editjudge.base.config import Settings
from editjudge.report.numbers import describe_judge_use, format_usage

from ..fakes.openai import ScriptedOpenAi, reply

LEVELS, QUESTIONS = "core.editing_artifacts", "core.physical_plausibility"
ASKED = [f"Is part {number} as it should be?" for number in range(5)]


class Judge(ScriptedOpenAi):
    """Says nothing that can be read, until it is well; counts what it is asked."""

    def __init__(self, name: str, *, well: bool = False) -> None:
        super().__init__(models=(name,), answers_as=name)
        self.well = well
        self.asks = True
        self.seen = 0

    def make_reply(self) -> dict[str, Any]:
        self.seen += 1
        text = json.dumps(self.requests[-1]["messages"])
        if self.asks and "question" in text and "JSON" in text:
            return reply(json.dumps({"questions": ASKED}))
        if not self.well:
            return reply("Hm, who\n knows.\x1b[2J")
        return reply("good" if "excellent" in text else "Yes")


@asynccontextmanager
async def serve_judges(
    folder: Path, *, well: dict[str, bool], samples: int = 1, **more: Any
) -> AsyncIterator[tuple[Settings, dict[str, Judge]]]:
    async with AsyncExitStack() as stack:
        servers = {name: Judge(name, well=is_well) for name, is_well in well.items()}
        endpoints = {
            name: {
                "url": await stack.enter_async_context(server.serving()),
                "logprobs": "never",
                "temperature": 0.7,
                "samples": samples,
                **more,
            }
            for name, server in servers.items()
        }
        yield Settings.model_validate({"judges": endpoints}), servers


def spec(folder: Path, dimension: str, models: str = "a", **more: Any) -> RunSpec:
    rng = np.random.default_rng(3)
    for name in ("source.png", *(f"{model}/1.png" for model in models)):
        (folder / name).parent.mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(folder / name)
    item = {"id": "1", "instruction": "make it red", "source": "source.png"}
    (folder / "items.jsonl").write_text(json.dumps(item))
    outputs = {model: folder / model for model in models}
    data = {"benchmark": "core", "data": folder / "items.jsonl", "outputs": outputs}
    return RunSpec.model_validate({**data, "dimensions": (dimension,), **more})


def statuses(out: Path) -> dict[tuple[str, str], str]:
    with RunView(out) as view:
        return {(one.model, one.dimension): one.verdict.status for one in view.verdicts()}


@pytest.mark.parametrize("dimension", [LEVELS, QUESTIONS])
async def test_one_pass_is_enough(dimension: str, tmp_path: Path) -> None:
    """Five averaged replies to each question, of which each could not be read."""
    async with serve_judges(tmp_path, well={"judge": False}, samples=5) as (settings, servers):
        asked, out = spec(tmp_path, dimension), tmp_path / "run"
        events: list[Any] = []
        first = await editjudge.run_async(asked, out=out, settings=settings, progress=events.append)
        assert set(statuses(out).values()) == {"unscored"}
        (told,) = [e.text for e in events if "could be used" in getattr(e, "text", "")]
        assert "'Hm, who\\n knows.\\x1b[2J' is none of the options" in told
        assert told.endswith("(editjudge doctor), then give --retry unscored")
        servers["judge"].well, servers["judge"].seen = True, 0
        last = await editjudge.run_async(asked, out=out, settings=settings, retry="unscored")
        assert set(statuses(out).values()) == {"scored"}
        assert (first.last_event.exit_code, last.last_event.exit_code) == (3, 0)
        assert servers["judge"].seen == (5 if dimension == LEVELS else 1 + 5 * len(ASKED))


async def test_a_reply_is_shown_where_the_reason_quotes_none(tmp_path: Path) -> None:
    async with serve_judges(tmp_path, well={"judge": False}) as (settings, servers):
        servers["judge"].asks = False
        events: list[Any] = []
        asked, out = spec(tmp_path, QUESTIONS), tmp_path / "run"
        last = await editjudge.run_async(asked, out=out, settings=settings, progress=events.append)
    assert last.last_event.exit_code == 3
    (told,) = [e.text for e in events if "could be used" in getattr(e, "text", "")]
    assert "; one reply: 'Hm, who knows.\\x1b[2J'; see that it is a chat model" in told


async def test_of_two_judges_the_garbled_one_is_asked_anew(tmp_path: Path) -> None:
    well = {"judge": True, "second": False}
    async with serve_judges(tmp_path, well=well, samples=3) as (settings, servers):
        asked = spec(tmp_path, QUESTIONS, judges=("judge", "second"), rounds=2)
        out = tmp_path / "run"
        events: list[Any] = []
        first = await editjudge.run_async(asked, out=out, settings=settings, progress=events.append)
        assert sorted(statuses(out).values()) == ["scored"] * 2 + ["unscored"] * 3
        (told,) = [e.text for e in events if "could be used" in getattr(e, "text", "")]
        assert told.startswith(f"no reply of generalist.second could be used: {QUESTIONS}@second")
        assert first.last_event.exit_code == 3
        for server in servers.values():
            server.well, server.seen = True, 0
        await editjudge.run_async(asked, out=out, settings=settings, retry="unscored")
        assert set(statuses(out).values()) == {"scored"}
        assert servers["judge"].seen == 0
        assert servers["second"].seen == 2 * (1 + 3 * len(ASKED))


async def test_one_ledger_serves_runs_and_scores(tmp_path: Path) -> None:
    price = {"input": 1000.0, "output": 0.0}
    async with serve_judges(tmp_path, well={"judge": True}, price=price) as (of, servers):
        settings, judge = of.model_copy(update={"ledger": tmp_path / "l.sqlite"}), servers["judge"]
        asked = spec(tmp_path, QUESTIONS, "ab")
        edit = editjudge.Edit.load(
            source=tmp_path / "source.png", edited=tmp_path / "a" / "1.png", instruction="make it red"
        )
        async with editjudge.Client(settings) as client:
            paid = await client.score(edit, [QUESTIONS])
            again = await client.score(edit, [QUESTIONS])
        assert paid.usage["spent"] == paid.usage["cost"] == again.usage["cost"]
        assert (again.usage["calls"], again.usage["spent"]) == (0, 0)
        (line,) = [one for one in describe_judge_use(again) if "judge" in one]
        assert line == "the judge was not called: stored replies were used, at no cost"
        assert f"cost {paid.usage['spent']:.4g}, " in describe_judge_use(paid)[-1]
        assert judge.seen == 1 + len(ASKED)
        judge.seen = 0
        first = await editjudge.run_async(asked, out=tmp_path / "1", settings=settings)
        assert judge.seen == len(ASKED), "what was scored is known"
        assert first.last_event.usage["cost"] == pytest.approx(0.1 * len(ASKED))
        judge.seen = 0
        free = settings.model_copy(update={"max_cost": 1e-9})
        second = await editjudge.run_async(asked, out=tmp_path / "2", settings=free)
        assert (judge.seen, second.status) == (0, "done")
        assert second.cells == first.cells
        known = second.last_event.usage["known"]
        assert (second.last_event.usage["calls"], known > len(ASKED)) == (0, True)
        told = format_usage(second.last_event.usage)
        assert told.startswith(f"0 calls ({known} stored, free), ")
        with RunView(tmp_path / "2") as view:
            assert all(len(stored.replies) == 1 + len(ASKED) for stored in view.verdicts())


async def test_what_is_retried_is_not_taken_from_the_ledger(tmp_path: Path) -> None:
    async with serve_judges(tmp_path, well={"judge": False}, samples=3) as (of, servers):
        settings, judge = of.model_copy(update={"ledger": tmp_path / "l.sqlite"}), servers["judge"]
        asked, out = spec(tmp_path, LEVELS), tmp_path / "1"
        await editjudge.run_async(asked, out=out, settings=settings)
        judge.well, judge.seen = True, 0
        await editjudge.run_async(asked, out=out, settings=settings, retry="unscored")
        assert set(statuses(out).values()) == {"scored"}
        assert judge.seen == 3
        await editjudge.run_async(asked, out=tmp_path / "2", settings=settings)
        assert (judge.seen, set(statuses(tmp_path / "2").values())) == (3, {"scored"})


async def test_what_another_models_number_rests_on_stays(tmp_path: Path) -> None:
    """The questions that both models get were read well: they get no others."""
    async with serve_judges(tmp_path, well={"judge": True}) as (settings, servers):
        out, judge = tmp_path / "run", servers["judge"]
        await editjudge.run_async(spec(tmp_path, QUESTIONS, "a"), out=out, settings=settings)
        both = spec(tmp_path, QUESTIONS, "ab")
        judge.well = False
        await editjudge.run_async(both, out=out, settings=settings)
        assert statuses(out)["b", QUESTIONS] == "unscored"
        judge.well, judge.seen = True, 0
        await editjudge.run_async(both, out=out, settings=settings, retry="unscored")
        assert set(statuses(out).values()) == {"scored"}
        assert judge.seen == len(ASKED)
