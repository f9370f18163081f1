"""`editjudge run`, `show` and `rescore` in processes of their own, against a scripted judge."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image as Pil

from editjudge.storage.store import RunStore

from ..fakes.openai import Fault
from ..patience import patience, until
from .conftest import Ran, here
from .test_judge import Judge

PIXELS = "core.psnr.source.whole"
LEVELS = "core.editing_artifacts"
QUESTIONS = "core.physical_plausibility"
CALLS = {LEVELS: 1, QUESTIONS: 5}
"""Calls for each edit; the list of questions is one more for each item."""


class Slow(Judge):
    """Takes its time, and counts what comes."""

    def __init__(self, seconds: float = 0.0, *script: Any) -> None:
        super().__init__(*script)
        self.seconds = seconds
        self.seen = 0

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.seen += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super()._chat(request)


class Data:
    """Items, and models whose outputs are all there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        rng = np.random.default_rng(3)
        for index in range(3):
            pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            Pil.fromarray(pixels).save(folder / f"source{index}.png")

    def items(self, count: int) -> None:
        lines = [
            {"id": f"set/{i}", "instruction": f"edit {i}", "source": f"source{i % 3}.png"}
            for i in range(count)
        ]
        (self.folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")

    def model(self, name: str, count: int, missing: tuple[int, ...] = ()) -> None:
        outputs = self.folder / name / "set"
        outputs.mkdir(parents=True)
        rng = np.random.default_rng(ord(name))
        for index in set(range(count)) - set(missing):
            pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
            Pil.fromarray(pixels).save(outputs / f"{index}.png")

    def arguments(self, *dimensions: str, models: str = "a", out: Path | None = None) -> list[Any]:
        asked = [part for name in dimensions for part in ("--dimension", name)]
        outputs = [p for m in models for p in ("--outputs", f"{m}={self.folder / m}")]
        data = ["--data", self.folder / "items.jsonl"]
        return ["core", *data, *outputs, "--out", out or self.out, *asked]

    def verdicts(self, out: Path | None = None) -> dict[tuple[str, ...], dict[str, Any]]:
        with RunStore.open(out or self.out, read_only=True) as store:
            return {
                (one.model, one.item, one.dimension): one.verdict.model_dump()
                for one in store.verdicts()
            }


@pytest.fixture
def data(tmp_path: Path) -> Data:
    (tmp_path / "data").mkdir()
    return Data(tmp_path / "data")


def process(verb: str, *arguments: Any, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "editjudge", verb, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "EDITJUDGE_CONCURRENCY": "4", **variables},
    )


def command(verb: str, *arguments: Any, **variables: str) -> Ran:
    with process(verb, *arguments, **variables) as started:
        out, err = started.communicate(timeout=patience(100))
    return Ran(started.returncode, out, err)


async def ran(verb: str, *arguments: Any, **variables: str) -> Ran:
    return await asyncio.to_thread(command, verb, *arguments, **variables)


@asynccontextmanager
async def judged_by(server: Judge) -> AsyncIterator[list[str]]:
    async with server.serving() as url:
        yield ["--generalist", url]


def table(done: Ran) -> str:
    """What it prints, without what the session took."""
    return done.out.partition("judges took")[0]


def events(done: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


async def test_killed_at_any_moment_it_loses_only_the_calls_in_flight(
    data: Data, tmp_path: Path
) -> None:
    count, kills, concurrency = 30, 20, 4
    data.items(count)
    data.model("a", count)
    dimensions = (PIXELS, LEVELS, QUESTIONS)
    server = Slow(0.01)
    async with judged_by(server) as judge:
        whole = tmp_path / "whole"
        undisturbed = await ran("run", *data.arguments(*dimensions, out=whole), *judge)
        assert undisturbed.code == 0, undisturbed.err
        calls = server.seen
        assert calls == 1 + count * (1 + sum(CALLS.values()))

        server.seen, server.seconds = 0, 0.05
        moments = random.Random(5)
        for _ in range(kills):
            before = server.seen
            with process("run", *data.arguments(*dimensions), *judge) as started:
                awaited = before + moments.randrange(12)
                while server.seen < awaited and started.poll() is None:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(moments.random() * 0.1)
                started.send_signal(signal.SIGKILL)
                await asyncio.to_thread(started.communicate)
        server.seconds = 0.0
        resumed = await ran("run", *data.arguments(*dimensions), *judge)
    assert resumed.code == 0, resumed.err
    assert table(resumed) == table(undisturbed)
    assert data.verdicts() == data.verdicts(whole)
    assert len(data.verdicts()) == 3 * count
    assert server.seen <= calls + kills * concurrency


async def test_an_interrupted_run_cancels_its_calls_and_goes_on(data: Data) -> None:
    data.items(10)
    data.model("a", 10)
    server = Slow(0.0)
    async with judged_by(server) as judge:
        with process("run", *data.arguments(PIXELS, LEVELS), *judge) as started:
            await until(lambda: server.seen >= 3)
            server.seconds = 30.0
            await until(lambda: server.seen >= 4)
            await asyncio.sleep(0.3)
            started.send_signal(signal.SIGINT)
            _, err = await asyncio.to_thread(started.communicate, timeout=20)
        assert started.returncode == 130, err
        assert "interrupted; repeat the command" in err
        await until(lambda: server.cancelled >= 1)
        kept = data.verdicts()
        assert all(one["status"] == "scored" for one in kept.values())
        db = sqlite3.connect(data.out / "run.sqlite")
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
        server.seconds = 0.0
        again = await ran("run", *data.arguments(PIXELS, LEVELS), *judge)
    assert again.code == 0, again.err
    assert len(data.verdicts()) == 20
    assert kept.items() <= data.verdicts().items()


async def test_a_second_interruption_ends_it_at_once(data: Data) -> None:
    data.items(4)
    data.model("a", 4)
    server = Slow(30.0)
    async with judged_by(server) as judge:
        with process("run", *data.arguments(LEVELS), *judge) as started:
            await until(lambda: server.seen >= 1)
            started.send_signal(signal.SIGTERM)
            started.send_signal(signal.SIGINT)
            await asyncio.to_thread(started.communicate, timeout=10)
    assert started.returncode == 130


async def test_a_server_that_is_gone_for_a_while_fails_nothing(data: Data) -> None:
    data.items(40)
    data.model("a", 40)
    server = Slow(0.02)
    async with server.serving() as url:
        port = int(url.split(":")[2].partition("/")[0])
        arguments = [*data.arguments(PIXELS, LEVELS), "--generalist", url]
        started = process("run", *arguments, EDITJUDGE_PATIENCE="60")
        await until(lambda: server.seen >= 8)
    await asyncio.sleep(1.5)
    async with server.serving(port=port):
        out, err = await asyncio.to_thread(started.communicate, timeout=60)
    assert started.returncode == 0, err
    assert len(data.verdicts()) == 80
    assert {one["status"] for one in data.verdicts().values()} == {"scored"}
    assert "(40/40)" in out


async def test_what_is_added_costs_only_its_own_calls(data: Data) -> None:
    data.items(6)
    for model in "ab":
        data.model(model, 6)
    server = Slow()
    async with judged_by(server) as judge:
        first = await ran("run", *data.arguments(QUESTIONS), *judge)
        assert first.code == 0, first.err
        assert server.seen == 1 + 6 * (1 + 5), "one call asks whether it tells probabilities"

        server.seen = 0
        model = await ran("run", *data.arguments(QUESTIONS, models="ab"), *judge)
        assert model.code == 0, model.err
        assert server.seen == 6 * 5, "the questions are about the item"

        server.seen = 0
        dimension = await ran("run", *data.arguments(QUESTIONS, LEVELS, models="ab"), *judge)
        assert dimension.code == 0, dimension.err
        assert server.seen == 2 * 6

        listed, server.seen = server.listed, 0
        nothing = await ran("run", *data.arguments(QUESTIONS, LEVELS, models="ab"), *judge)
        assert nothing.code == 0
        assert (server.seen, server.listed) == (0, listed), "nobody is asked for anything"
        assert "nothing was left to judge" in nothing.err
        assert nothing.out == table(dimension)


async def test_unscored_is_asked_again_on_demand_only(data: Data) -> None:
    data.items(3)
    data.model("a", 3)
    server = Slow()
    none = {"Maybe": 1.0}
    server.said = lambda: _says(server, none)  # type: ignore[method-assign]
    async with judged_by(server) as judge:
        first = await ran("run", *data.arguments(LEVELS), *judge)
        assert first.code == 0, first.err
        assert {one["status"] for one in data.verdicts().values()} == {"unscored"}
        del server.said
        server.seen = 0
        again = await ran("run", *data.arguments(LEVELS), *judge)
        assert server.seen == 0
        assert "- (nothing scored)" in again.out
        retried = await ran("run", *data.arguments(LEVELS), *judge, "--retry", "unscored")
    assert retried.code == 0, retried.err
    assert server.seen == 3
    assert {one["status"] for one in data.verdicts().values()} == {"scored"}


def _says(server: Slow, probabilities: Mapping[str, float]) -> dict[str, Any]:
    server.probabilities = probabilities
    return super(Judge, server).said()


async def test_too_many_failures_end_it(data: Data) -> None:
    data.items(60)
    data.model("a", 60)
    server = Slow(0.0, Fault(400, {"error": {"message": "no"}}))
    async with judged_by(server) as judge:
        ended = await ran("run", *data.arguments(LEVELS), *judge, "--fail-on-error", "0.05")
        assert ended.code == 3, ended.err
        assert "too many verdicts failed" in ended.err
        assert 20 <= len(data.verdicts()) < 60
        server.script = [None]
        fixed = await ran("run", *data.arguments(LEVELS), *judge)
    assert fixed.code == 0, fixed.err
    assert len(data.verdicts()) == 60


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Judge(answers_as="another"), "'another' answered"),
        (Judge(Fault(401, {"error": {"message": "no such key"}})), "no such key"),
    ],
    ids=["model", "key"],
)
async def test_a_judge_that_is_not_the_one_asked_for_ends_it(
    data: Data, server: Judge, said: str
) -> None:
    data.items(60)
    data.model("a", 60)
    async with judged_by(server) as judge:
        ended = await ran("run", *data.arguments(LEVELS), *judge)
    assert ended.code == 3, ended.err
    assert said in ended.err
    assert len(server.requests) < 20


async def test_the_money_is_not_passed_and_more_goes_on(data: Data, tmp_path: Path) -> None:
    data.items(20)
    data.model("a", 20)
    server = Slow()
    async with server.serving() as url:
        config = tmp_path / "editjudge.toml"
        config.write_text(
            f'[judges.judge]\nurl = "{url}"\nprice = {{ input = 10000, output = 0 }}\n'
        )
        arguments = [*data.arguments(PIXELS, LEVELS), "--config", config, "--json"]
        ended = await ran("run", *arguments, "--max-cost", "8.5")
        assert ended.code == 3, ended.err
        last = events(ended)[-1]
        assert last["ended"] == "cost"
        assert last["usage"]["cost"] <= 8.5
        assert last["verdicts"][LEVELS]["failed"] == 0
        assert 0 < len([key for key in data.verdicts() if key[2] == LEVELS]) < 9
        same = await ran("run", *arguments, "--max-cost", "8.5")
        assert server.seen <= 9
        assert same.code == 3
        more = await ran("run", *arguments, "--max-cost", "100")
    assert more.code == 0, more.err
    assert len(data.verdicts()) == 40
    assert server.seen == 21


async def test_a_second_process_is_refused(data: Data) -> None:
    data.items(3)
    data.model("a", 3)
    server = Slow(30.0)
    async with judged_by(server) as judge:
        with process("run", *data.arguments(LEVELS), *judge) as started:
            await until(lambda: server.seen >= 1)
            second = await ran("run", *data.arguments(LEVELS), *judge)
            shown = await ran("show", data.out, "set/0")
            started.kill()
            await asyncio.to_thread(started.communicate)
    assert second.code == 2
    assert len(second.err.strip().splitlines()) == 1
    assert shown.code in {0, 2}, "reading beside it is no error of the store"
    assert "Traceback" not in shown.err


def test_missing_outputs_are_counted(data: Data) -> None:
    data.items(6)
    data.model("a", 6, missing=(1, 4))
    (data.folder / "a" / "set" / "2.png").write_bytes(b"not a picture")
    (data.folder / "a" / "set" / "3.jpg").write_bytes(b"another")
    done = command("run", *data.arguments(PIXELS))
    assert done.code == 0, done.err
    assert "a: 3 outputs are missing" in done.err
    assert "(2/6)" in done.out
    again = command("run", *data.arguments(PIXELS), "--json")
    cell = events(again)[-1]["columns"]["a"][PIXELS]
    assert cell["counts"] == {"scored": 2, "missing_output": 4}
    before = data.verdicts()
    (data.folder / "a" / "set" / "3.jpg").unlink()
    (data.folder / "a" / "set" / "2.png").unlink()
    (data.folder / "a" / "set" / "0.png").rename(data.folder / "a" / "set" / "2.png")
    (data.folder / "a" / "set" / "5.png").write_bytes((data.folder / "source0.png").read_bytes())
    third = command("run", *data.arguments(PIXELS))
    assert third.code == 0, third.err
    assert "(4/6)" in third.out, "0 stands, 2 and 3 are there now, 5 is judged again"
    assert "(1 judged before)" in third.err, "0 alone"
    after = data.verdicts()
    assert after["a", "set/0", PIXELS] == before["a", "set/0", PIXELS]
    assert after["a", "set/5", PIXELS] != before["a", "set/5", PIXELS]


async def test_shown_and_rescored_without_a_call(data: Data) -> None:
    data.items(4)
    data.model("a", 4)
    server = Slow()
    async with judged_by(server) as judge:
        done = await ran("run", *data.arguments(PIXELS, LEVELS, QUESTIONS), *judge)
    assert done.code == 0, done.err
    before = data.verdicts()
    rescored = await ran("rescore", data.out, "--json")
    assert rescored.code == 0, rescored.err
    for one in rescored.json:
        assert (one["changed"], one["kept"]) == (0, 0)
        assert one["before"] == one["after"]
    written = await asyncio.to_thread(here, "rescore", data.out, "--write")
    assert written.code == 0, written.err
    assert data.verdicts() == before

    shown = await ran("show", data.out, "set/2", "--json")
    assert shown.code == 0, shown.err
    (edit,) = shown.json["edits"]
    verdicts = {one["dimension"]: one for one in edit["verdicts"]}
    (call,) = verdicts[LEVELS]["calls"]
    assert call["reply"]["probabilities"]["good"] == pytest.approx(0.5)
    assert len(verdicts[QUESTIONS]["evidence"]["questions"]) == 5
    assert shown.json["instruction"] == "edit 2"
    for_people = here("show", data.out, "set/2", "--model", "a")
    assert f"{LEVELS}: 0.875" in for_people.out
    assert here("show", data.out, "set/99").code == 2


def test_bad_data_is_told_before_anything_is_judged(data: Data) -> None:
    data.items(3)
    data.model("a", 3)
    with (data.folder / "items.jsonl").open("a") as file:
        file.write('{"id": "set/1", "instruction": "x", "source": "source0.png"}\n{"id": 5}\n')
        file.write('{"id": "x", "instruction": "x", "source": "nowhere.png", "taget": "y"}\n')
    done = command("run", *data.arguments(PIXELS))
    assert done.code == 2
    assert "line 4: the id 'set/1' is already used by line 1" not in done.err
    assert "line 4: the id 'set/1' is already used by line 2" in done.err
    assert "line 5: instruction: is missing" in done.err
    assert "line 6: taget: no such field" in done.err
    assert not data.out.exists()


def test_a_dry_run_calls_nothing_and_leaves_nothing(data: Data) -> None:
    data.items(5)
    data.model("a", 5, missing=(0,))
    given = ["--generalist", "http://127.0.0.1:9/v1", "--dry-run"]
    done = command("run", *data.arguments(PIXELS, QUESTIONS), *given, "--json")
    assert done.code == 0, done.err
    assert done.json["edits"] == 4
    assert done.json["calls"] == {"generalist.judge": 4 * 8}
    assert done.json["prompt_tokens"]["generalist.judge"] > 1000
    assert not data.out.exists()
