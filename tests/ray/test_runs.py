"""Runs on Ray: the table is that of one process, and a call is paid for once, whatever dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from editjudge.base.config import PostgresAddress

from ..e2e.conftest import CommandResult, await_end, process, run_in_process
from ..e2e.test_judge import Judge
from ..objects.test_s3 import Bucket
from ..patience import until
from ..postgres.server import Server
from ..small_data import save_picture, write_items
from .cluster import Cluster, cluster

EDITS = 60
PATIENCE = 500
"""Seconds that a command may take: a call of a dead worker is claimed for half a minute more."""
pytestmark = pytest.mark.timeout(2 * PATIENCE)
IN_FLIGHT = 8
"""The calls that a process has in flight at most."""


class SlowJudge(Judge):
    """Takes a moment for an answer, as a model does; holds all after a number of them, if one is set."""

    seconds = 0.3
    held_from = 10**9

    async def _answer(self, request: web.Request) -> Any:
        response = await super()._answer(request)
        await asyncio.sleep(self.seconds)
        place = len(self.bodies)
        while place > self.held_from:
            await asyncio.sleep(0.05)
        return response

    @property
    def repeated_count(self) -> int:
        return len(self.bodies) - len(set(self.bodies))


async def ran(*arguments: object, **options: Any) -> CommandResult:
    """Run a command to its end, beside a server of this process."""
    with process(*arguments, **options) as started:
        return await await_end(started, PATIENCE)


def find_owner(port: int, server_port: int) -> int:
    """The process of this machine that has a connection from a port to a server; others may have that port too."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = f":{port:04X}", f":{server_port:04X}"
    (inode,) = (line[9] for line in lines if (line[1][-5:], line[2][-5:]) == ends)
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) == f"socket:[{inode}]":
                return int(link.parts[2])
    raise AssertionError(f"nobody has port {port}")


class Setting:
    """A data set of several items a source, and the commands that judge it."""

    def __init__(self, folder: Path, cluster: Cluster, ledger: PostgresAddress) -> None:
        self.folder = folder
        self.cluster = cluster
        for number in range(EDITS // 3):
            save_picture(folder / "data" / f"s{number}.png", (8, 8 + number))
        lines = ({"source": f"s{n // 3}.png", "instruction": f"edit {n}"} for n in range(EDITS))
        self._items = write_items(folder / "data", lines)
        for number in range(EDITS - 1):  # one output is missing
            save_picture(folder / "ours" / f"{number}.png", (8, 8 + number // 3))
        self._ledger = ("--ledger", ledger.url)
        self._ray = ("--ray", cluster.address)
        self.judge = SlowJudge()

    def arguments(self, out: str, *options: str, ray: bool = True, ledger: bool = True) -> list[Any]:
        given = ["run", "core", "--data", self._items, "--outputs", f"ours={self.folder / 'ours'}"]
        given += ["--dimension", "core.editing_artifacts", "--dimension", "core.psnr.source.whole"]
        given += [*self._ledger] if ledger else []
        given += [*self._ray] if ray else []
        return [*given, "--out", self.folder / out, "--json", *options]

    @property
    def variables(self) -> dict[str, str]:
        return {**self.cluster.variables, "EDITJUDGE_CONCURRENCY": str(IN_FLIGHT), "EDITJUDGE_DEADLINE": str(PATIENCE)}

    async def run(self, out: str, *options: str, **how: bool) -> CommandResult:
        return await ran(*self.arguments(out, *options, **how), **self.variables)

    def begin(self, out: str, *options: str, **how: bool) -> Any:
        return process(*self.arguments(out, *options, **how), **self.variables)

    def table(self, out: str) -> list[str]:
        """The lines of the summary, but for the time when the run began."""
        lines = run_in_process("summary", self.folder / out, "--json").out.splitlines()
        assert any(f"/{EDITS}" in line or '"scored"' in line for line in lines)
        return [line for line in lines if '"start_time"' not in line]

    async def one_process(self, *options: str) -> list[str]:
        """The table of one process that shares nothing."""
        plain = SlowJudge()
        plain.seconds = 0.0
        async with plain.serving() as url:
            done = await self.run("plain", "--judge", url, *options, ray=False, ledger=False)
        assert done.code == 0, done.err
        return self.table("plain")


@pytest.fixture
def setting(tmp_path: Path, ray: Cluster, ledger_place: PostgresAddress, server: Server) -> Setting:
    return Setting(tmp_path, ray, ledger_place)


def last_event(done: CommandResult) -> Any:
    return json.loads(done.out.splitlines()[-1])


async def test_the_table_is_that_of_one_process_and_replies_are_shared(setting: Setting) -> None:
    judge = setting.judge
    async with judge.serving() as url:
        done = await setting.run("a", "--judge", url, "--workers", "2")
        assert (done.code, done.err) == (0, ""), done.err
        calls = len(judge.bodies)
        again = await setting.run("b", "--judge", url, "--workers", "1-2")
        alone = await setting.run("c", "--judge", url, ray=False)
    assert (again.code, alone.code, len(judge.bodies)) == (0, 0, calls)
    assert judge.repeated_count == 0
    tables = [setting.table(out) for out in "abc"]
    assert tables == [await setting.one_process()] * 3
    event = last_event(done)
    assert (event["edits"], event["judged"]) == (EDITS - 1, EDITS - 1)
    assert event["usage"]["prompt_tokens"] == 100 * calls, "whether it binds replies takes none"
    assert (last_event(again)["usage"]["calls"], last_event(again)["usage"]["known"]) == (0, EDITS - 1)


async def test_several_outputs_of_an_item_make_the_table_of_one_process(setting: Setting) -> None:
    for number in range(0, EDITS, 2):  # a second seed, of every other item
        save_picture(setting.folder / "again" / f"{number}.png", (8, 9 + number // 3))
    seeds = ("--outputs", f"ours={setting.folder / 'again'}")
    async with setting.judge.serving() as url:
        done = await setting.run("a", "--judge", url, "--workers", "2", *seeds)
    assert (done.code, done.err) == (0, ""), done.err
    assert last_event(done)["judged"] == EDITS - 1 + EDITS // 2
    assert setting.judge.repeated_count == 0
    assert setting.table("a") == await setting.one_process(*seeds)


@pytest.mark.parametrize("victim", ["worker", "node", "driver", "interrupted", "preempted"])
async def test_what_dies_costs_at_most_what_it_had_in_flight(setting: Setting, victim: str) -> None:
    cluster, judge = setting.cluster, setting.judge
    node = cluster.add("127.0.0.3", 1)
    judge.held_from = EDITS // 4
    try:
        async with judge.serving() as url:
            begun = setting.begin("a", "--judge", url, "--workers", "3")
            await until(lambda: cluster.workers(node) and len(judge.bodies) > EDITS // 4, 300)
            match victim:
                case "worker":
                    os.kill(cluster.workers(node)[0], signal.SIGKILL)
                case "node":
                    await asyncio.to_thread(cluster.kill, node)
                case "preempted":
                    await asyncio.to_thread(cluster.drain, node)
                case "driver":
                    begun.kill()
                case "interrupted":
                    begun.send_signal(signal.SIGINT)
            if victim not in {"driver", "interrupted"}:
                judge.held_from = 10**9
            first = await await_end(begun, PATIENCE)
            judge.held_from = 10**9
            assert len(judge.bodies) >= EDITS - 1 or victim in {"driver", "interrupted"}, first.err
            if victim in {"driver", "interrupted"}:
                assert first.code == {"driver": -9, "interrupted": 130}[victim], first.err
                assert len(judge.bodies) < EDITS - 1, "it ended before its time"
                first = await setting.run("a", "--judge", url, ray=victim == "driver")
            assert first.code == 0, first.err
    finally:
        if victim not in {"node", "preempted"}:
            cluster.kill(node)
    lost = {"worker": 1, "node": 1, "preempted": 1, "driver": 3, "interrupted": 3}.get(victim, 0)
    assert judge.repeated_count <= lost * IN_FLIGHT
    assert setting.table("a") == await setting.one_process()


async def test_a_job_that_is_handed_in_makes_the_same_table(
    tmp_path: Path, ledger_place: PostgresAddress, server: Server
) -> None:
    """As a RayJob of KubeRay is: the driver is on the head, and finds the cluster that it is in."""
    with cluster(takes_jobs=True) as started:
        setting = Setting(tmp_path, started, ledger_place)
        submit = ("-m", "ray.scripts.scripts", "job", "submit", "--address", started.jobs, "--")
        async with setting.judge.serving() as url:
            words = setting.arguments("a", "--judge", url, "--ray=auto", "--workers=2", ray=False)
            command = [sys.executable, "-m", "editjudge", *words]
            variables = {"cwd": tmp_path, **setting.variables}
            done = await ran(*command, script=submit, **variables)
            while "No available agent" in done.err:  # it starts some time after what takes jobs
                done = await ran(*command, script=submit, **variables)
        assert done.code == 0, (done.out, done.err)
        assert f'"judged":{EDITS - 1}' in done.out.replace(" ", "")
        assert setting.judge.repeated_count == 0
        assert setting.table("a") == await setting.one_process()


async def test_an_edit_that_kills_its_workers_fails_alone(setting: Setting) -> None:
    """As where its pictures take more memory than a machine has: SIGKILL, with no last word."""

    class Deadly(SlowJudge):
        """Kills the process that asks about one edit, as it asks."""

        seconds = 0.05
        kill_count = 0

        async def _answer(self, request: web.Request) -> Any:
            if re.search(rb"edit 7\b", await request.read()):
                self.kill_count += 1
                ends = (request.transport.get_extra_info(name)[1] for name in ("peername", "sockname"))
                os.kill(find_owner(*ends), signal.SIGKILL)
            return await super()._answer(request)

    async with (judge := Deadly()).serving() as url:
        done = await setting.run("a", "--judge", url, "--workers", "2")
    column = last_event(done)["columns"]["ours"]["core.editing_artifacts"]["counts"]
    assert (column.get("failed"), column["scored"]) == (1, EDITS - 2), (column, done)
    assert "pending" not in column
    assert 2 < judge.kill_count <= 5
    shown = run_in_process("show", setting.folder / "a", "7", "--json")
    assert "each worker that was given it died" in shown.out
    assert "a worker died" in done.out


async def test_ray_on_this_machine_alone(setting: Setting) -> None:
    async with setting.judge.serving() as url:
        given = setting.arguments("a", "--judge", url, "--workers", "2", ray=False)
        done = await ran(*given, "--ray", "local", EDITJUDGE_CONCURRENCY=str(IN_FLIGHT))
    assert done.code == 0, done.err
    assert setting.judge.repeated_count == 0
    assert setting.table("a") == await setting.one_process()


async def test_a_limit_of_costs_holds_over_all_workers(setting: Setting) -> None:
    judge = setting.judge
    price = ("--set", "judges.judge.price={input=0,cached=0,output=1000000}")
    async with judge.serving() as url:
        given = [*price, *setting.arguments("a", "--workers", "2", "--max-cost", "30")]
        given[0:0] = ("--set", f"judges.judge.url={url}")
        done = await ran(*given, **setting.variables)
    assert done.code == 3, done.err
    event = last_event(done)
    assert event["ended"] == "cost"
    assert event["usage"]["cost"] <= len(judge.bodies) <= 30 + 2 * IN_FLIGHT


def test_what_is_refused(setting: Setting, tmp_path: Path) -> None:
    cases = {
        "share no ledger, so that calls could be paid for twice": {"ledger": False},
        "Judge service spreads edits itself": {"ledger": False, "gateway": True},
        "--workers 0 cannot be used": {"workers": "0"},
        "cannot stream results": {"ray": "ray://127.0.0.1:1"},
    }
    for reason, case in cases.items():
        options = ["--workers", case.get("workers", "1")]
        options += ["--gateway", "grpc://127.0.0.1:1"] if case.get("gateway") else []
        options += ["--ray", case["ray"]] if "ray" in case else []
        url = [] if case.get("gateway") else ["--judge", "http://127.0.0.1:1/v1"]
        given = setting.arguments("x", *options, *url, ledger=case.get("ledger", True))
        refused = run_in_process(*given)
        assert refused.code == 2, refused.err
        assert reason in refused.err
        assert refused.err.count("\n") == 1, refused.err


async def test_without_a_ledger_replies_may_be_paid_twice(setting: Setting) -> None:
    async with setting.judge.serving() as url:
        options = ("--judge", url, "--workers", "2", "--ledger", "none")
        done = await setting.run("a", *options, ledger=False)
    assert done.code == 0, done.err
    assert setting.table("a") == await setting.one_process()


async def test_pixels_need_no_ledger_and_come_from_an_object_store(setting: Setting, bucket: Bucket) -> None:
    def pixels(place: object, out: str, *options: str, ray: bool) -> list[Any]:
        rest = setting.arguments(out, *options, ray=ray, ledger=False)
        rest = rest[rest.index("core.editing_artifacts") + 1 :]
        return ["run", "core", "--data", f"{place}/data/items.jsonl", "--outputs", f"ours={place}/ours", *rest]

    for file in filter(Path.is_file, setting.folder.rglob("*")):
        bucket.put(file, str(file.relative_to(setting.folder)))
    alone = await ran(*pixels(setting.folder, "plain", ray=False))
    done = await ran(*pixels(f"s3://{bucket.name}/set", "a", "--workers", "2", ray=True), **setting.variables)
    assert (alone.code, done.code) == (0, 0), done.err
    columns = last_event(done)["columns"]
    assert columns == last_event(alone)["columns"]
    assert columns["ours"]["core.psnr.source.whole"]["counts"]["scored"] == EDITS - 1
