"""`editjudge run`, `show` and `rescore` against a scripted judge."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from editjudge.storage.store import RunStore

from ..fakes.openai import Fault
from ..patience import until
from ..small_data import save_picture, write_items
from . import conftest
from .conftest import CommandResult, await_end, run_in_process, run_in_thread
from .test_judge import Judge

process, command, ran = conftest.process, conftest.run, conftest.await_run
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

    def says(self, probabilities: Mapping[str, float]) -> None:
        """Have it say these choices, whatever it is asked."""

        def make_reply() -> dict[str, Any]:
            self.probabilities = probabilities
            return super(Judge, self).make_reply()

        self.make_reply = make_reply  # type: ignore[method-assign]


def _noise(*seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)


class Data:
    """Items, and models whose outputs are all there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.out = folder / "out"
        for index in range(3):
            save_picture(folder / f"source{index}.png", _noise(3, index))

    def items(self, count: int) -> None:
        lines = ({"id": f"set/{i}", "instruction": f"edit {i}", "source": f"source{i % 3}.png"} for i in range(count))
        write_items(self.folder, lines)

    def model(self, name: str, count: int, missing: tuple[int, ...] = ()) -> None:
        for index in set(range(count)) - set(missing):
            save_picture(self.output(index, name), _noise(ord(name), index))

    def make(self, count: int, models: str = "a", missing: tuple[int, ...] = ()) -> None:
        """So many items, and models with outputs of all but some of them."""
        self.items(count)
        for name in models:
            self.model(name, count, missing)

    def output(self, item: int, model: str = "a") -> Path:
        return self.folder / model / "set" / f"{item}.png"

    def arguments(self, *dimensions: str, models: str = "a", out: Path | None = None) -> list[Any]:
        asked = [part for name in dimensions for part in ("--dimension", name)]
        outputs = [p for m in models for p in ("--outputs", f"{m}={self.folder / m}")]
        data = ["--data", self.folder / "items.jsonl"]
        return ["core", *data, *outputs, "--out", out or self.out, *asked]

    async def run(
        self, *dimensions: str, by: str = "", flags: tuple[object, ...] = (), code: int = 0,
        models: str = "a", out: Path | None = None, **variables: str,
    ) -> CommandResult:  # fmt: skip
        """Judge them in this process by the judge at an address, to an exit code."""
        judge = ("--generalist", by) if by else ()
        asked = self.arguments(*dimensions, models=models, out=out)
        done = await run_in_thread("run", *asked, *judge, *flags, **variables)
        assert done.code == code, done.err
        return done

    def verdicts(self, out: Path | None = None) -> dict[tuple[str, ...], dict[str, Any]]:
        with RunStore.open(out or self.out, read_only=True) as store:
            return {(one.model, one.item, one.dimension): one.verdict.model_dump() for one in store.verdicts()}

    def statuses(self) -> set[str]:
        return {one["status"] for one in self.verdicts().values()}


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path / "data")


def table(done: CommandResult) -> str:
    """What it prints, without what the session took."""
    return done.out.partition("judges took")[0]


def events(done: CommandResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


async def test_an_interrupted_run_cancels_its_calls_and_goes_on(data: Data) -> None:
    data.make(10)
    server = Slow(0.0)
    async with server.serving() as url:
        asked = [*data.arguments(PIXELS, LEVELS), "--generalist", url]
        with process("run", *asked) as started:
            await until(lambda: server.seen >= 3)
            server.seconds = 30.0
            await until(lambda: server.seen >= 4)
            await asyncio.sleep(0.3)
            started.send_signal(signal.SIGINT)
            done = await await_end(started, 20)
        assert done.code == 130, done.err
        assert "interrupted; repeat the command" in done.err
        await until(lambda: server.cancelled >= 1)
        kept = data.verdicts()
        assert data.statuses() <= {"scored"}
        db = sqlite3.connect(data.out / "run.sqlite")
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
        server.seconds = 0.0
        await data.run(PIXELS, LEVELS, by=url)
    assert len(data.verdicts()) == 20
    assert kept.items() <= data.verdicts().items()


async def test_a_second_interruption_ends_it_at_once(data: Data) -> None:
    data.make(4)
    server = Slow(30.0)
    async with server.serving() as url:
        with process("run", *data.arguments(LEVELS), "--generalist", url) as started:
            await until(lambda: server.seen >= 1)
            started.send_signal(signal.SIGTERM)
            started.send_signal(signal.SIGINT)
            assert (await await_end(started, 10)).code == 130


async def test_a_server_that_is_gone_for_a_while_fails_nothing(data: Data) -> None:
    data.make(40)
    server = Slow(0.02)
    async with server.serving() as url:
        port = int(url.split(":")[2].partition("/")[0])
        variables = {"EDITJUDGE_PATIENCE": "60", "EDITJUDGE_CONCURRENCY": "4"}
        running = asyncio.create_task(data.run(PIXELS, LEVELS, by=url, **variables))
        await until(lambda: server.seen >= 8)
    await asyncio.sleep(1.5)
    async with server.serving(port=port):
        done = await running
    assert len(data.verdicts()) == 80
    assert data.statuses() == {"scored"}
    assert "(40/40)" in done.out


async def test_what_is_added_costs_only_its_own_calls(data: Data) -> None:
    data.make(6, models="ab")
    server = Slow()

    async def calls(url: str, *dimensions: str, models: str) -> tuple[int, CommandResult]:
        server.seen = 0
        done = await data.run(*dimensions, by=url, models=models)
        return server.seen, done

    async with server.serving() as url:
        first, _ = await calls(url, QUESTIONS, models="a")
        assert first == 1 + 6 * (1 + 5), "one call asks whether it tells probabilities"
        model, _ = await calls(url, QUESTIONS, models="ab")
        assert model == 6 * 5, "the questions are about the item"
        dimension, done = await calls(url, QUESTIONS, LEVELS, models="ab")
        assert dimension == 2 * 6
        listed = server.listed
        nothing, again = await calls(url, QUESTIONS, LEVELS, models="ab")
    assert (nothing, server.listed) == (0, listed), "nobody is asked for anything"
    assert "nothing was left to judge" in again.err
    assert again.out == table(done)


async def test_unscored_is_asked_again_on_demand_only(data: Data) -> None:
    data.make(3)
    server = Slow()
    server.says({"Maybe": 1.0})
    async with server.serving() as url:
        await data.run(LEVELS, by=url, code=3)
        assert data.statuses() == {"unscored"}
        del server.make_reply
        server.seen = 0
        again = await data.run(LEVELS, by=url)
        assert server.seen == 0
        assert "- (nothing scored)" in again.out
        await data.run(LEVELS, by=url, flags=("--retry", "unscored"))
    assert server.seen == 3
    assert data.statuses() == {"scored"}


async def test_too_many_failures_end_it(data: Data) -> None:
    data.make(60)
    server = Slow(0.0, Fault(400, {"error": {"message": "no"}}))
    async with server.serving() as url:
        flags = ("--fail-on-error", "0.05")
        ended = await data.run(LEVELS, by=url, flags=flags, code=3, EDITJUDGE_CONCURRENCY="4")
        assert "too many verdicts failed" in ended.err
        assert 20 <= len(data.verdicts()) < 60
        server.script = [None]
        await data.run(LEVELS, by=url)
    assert len(data.verdicts()) == 60


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Judge(answers_as="another"), "'another' answered"),
        (Judge(Fault(401, {"error": {"message": "no such key"}})), "no such key"),
    ],
    ids=["model", "key"],
)
async def test_a_judge_that_is_not_the_one_asked_for_ends_it(data: Data, server: Judge, said: str) -> None:
    data.make(60)
    async with server.serving() as url:
        ended = await data.run(LEVELS, by=url, code=3, EDITJUDGE_CONCURRENCY="4")
    assert said in ended.err
    assert len(server.requests) < 20


async def test_the_money_is_not_passed_and_more_goes_on(data: Data, tmp_path: Path) -> None:
    data.make(20)
    server = Slow()
    async with server.serving() as url:
        config = tmp_path / "editjudge.toml"
        config.write_text(f'[judges.judge]\nurl = "{url}"\nprice = {{ input = 10000, output = 0 }}\n')

        async def run_up_to(cost: float, code: int) -> CommandResult:
            flags = ("--config", config, "--json", "--max-cost", cost)
            return await data.run(PIXELS, LEVELS, flags=flags, code=code)

        last = events(await run_up_to(8.5, 3))[-1]
        assert last["ended"] == "cost"
        assert last["usage"]["cost"] <= 8.5
        assert last["verdicts"][LEVELS]["failed"] == 0
        assert 0 < len([key for key in data.verdicts() if key[2] == LEVELS]) < 9
        await run_up_to(8.5, 3)
        assert server.seen <= 9
        await run_up_to(100, 0)
    assert len(data.verdicts()) == 40
    assert server.seen == 21


async def test_a_second_process_is_refused(data: Data) -> None:
    data.make(3)
    server = Slow(30.0)
    async with server.serving() as url:
        with process("run", *data.arguments(LEVELS), "--generalist", url) as started:
            await until(lambda: server.seen >= 1)
            second = await data.run(LEVELS, by=url, code=2)
            shown = await run_in_thread("show", data.out, "set/0")
            started.kill()
    assert len(second.err.strip().splitlines()) == 1
    assert shown.code in {0, 2}, "reading beside it is no error of the store"
    assert "Traceback" not in shown.err


async def test_missing_outputs_are_counted(data: Data) -> None:
    data.make(6, missing=(1, 4))
    data.output(2).write_bytes(b"not a picture")
    other = data.output(3).with_suffix(".jpg")
    other.write_bytes(b"another")
    done = await data.run(PIXELS)
    assert "a: 3 outputs are missing" in done.err
    assert "(2/6)" in done.out
    cell = events(await data.run(PIXELS, flags=("--json",)))[-1]["columns"]["a"][PIXELS]
    assert cell["counts"] == {"scored": 2, "missing_output": 4}
    before = data.verdicts()
    other.unlink()
    data.output(0).rename(data.output(2))
    data.output(5).write_bytes((data.folder / "source0.png").read_bytes())
    third = await data.run(PIXELS)
    assert "(4/6)" in third.out, "0 stands, 2 and 3 are there now, 5 is judged again"
    assert "(1 judged before)" in third.err, "0 alone"
    after = data.verdicts()
    assert after["a", "set/0", PIXELS] == before["a", "set/0", PIXELS]
    assert after["a", "set/5", PIXELS] != before["a", "set/5", PIXELS]


async def test_shown_and_rescored_without_a_call(data: Data) -> None:
    data.make(4)
    async with Slow().serving() as url:
        await data.run(PIXELS, LEVELS, QUESTIONS, by=url)
    before = data.verdicts()
    rescored = await run_in_thread("rescore", data.out, "--json")
    assert rescored.code == 0, rescored.err
    for one in rescored.json:
        assert (one["changed"], one["kept"]) == (0, 0)
        assert one["before"] == one["after"]
    written = await run_in_thread("rescore", data.out, "--write")
    assert written.code == 0, written.err
    assert data.verdicts() == before
    shown = run_in_process("show", data.out, "set/2", "--json")
    assert shown.code == 0, shown.err
    (edit,) = shown.json["edits"]
    verdicts = {one["dimension"]: one for one in edit["verdicts"]}
    (call,) = verdicts[LEVELS]["calls"]
    assert call["reply"]["probabilities"]["good"] == pytest.approx(0.5)
    assert len(verdicts[QUESTIONS]["evidence"]["questions"]) == 5
    assert shown.json["instruction"] == "edit 2"
    assert f"{LEVELS}: 0.875" in run_in_process("show", data.out, "set/2", "--model", "a").out
    assert run_in_process("show", data.out, "set/99").code == 2


async def test_bad_data_is_told_before_anything_is_judged(data: Data) -> None:
    data.make(3)
    with (data.folder / "items.jsonl").open("a") as file:
        file.write('{"id": "set/1", "instruction": "x", "source": "source0.png"}\n{"id": 5}\n')
        file.write('{"id": "x", "instruction": "x", "source": "nowhere.png", "taget": "y"}\n')
    done = await data.run(PIXELS, code=2)
    assert "line 4: the id 'set/1' is already used by line 2" in done.err
    assert "line 5: instruction: is missing" in done.err
    assert "line 6: taget: no such field" in done.err
    assert not data.out.exists()


async def test_a_dry_run_calls_nothing_and_leaves_nothing(data: Data) -> None:
    data.make(5, missing=(0,))
    given = ("--dry-run", "--json")
    told = (await data.run(PIXELS, QUESTIONS, by="http://127.0.0.1:9/v1", flags=given)).json
    assert told["edits"] == 4
    assert told["calls"] == {"generalist.judge": 4 * 8}
    assert told["prompt_tokens"]["generalist.judge"] > 1000
    assert not data.out.exists()
