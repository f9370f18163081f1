"""`editjudge run` while the network, the disk or the clock fails: the same table all the same."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..attack.farm import in_process
from ..attack.kills import KILLS
from ..attack.trials import SEED
from ..fakes.fault_proxy import FaultProxy, Mode
from ..patience import patience, until
from .conftest import CommandResult, await_end, await_run, process
from .test_run import LEVELS, PIXELS, Data, Slow, table

HASTY = {
    "EDITJUDGE_DEADLINE": str(patience(0.8)),
    # So many that the last comes when the deadline is near, however busy the machine is.
    "EDITJUDGE_RETRY_WAIT": "0.02",
    "EDITJUDGE_ATTEMPTS": "8",
    "EDITJUDGE_PATIENCE": "30",
    "EDITJUDGE_CONCURRENCY": "8",
}


@dataclass
class UndisturbedRun:
    """What a run of some items comes to where nothing fails."""

    data: Data
    whole: Path
    done: CommandResult

    @classmethod
    async def of(cls, folder: Path, count: int, url: str, **variables: str) -> UndisturbedRun:
        data, whole = Data(folder / "data"), folder / "whole"
        data.make(count)
        return cls(data, whole, await data.run(PIXELS, LEVELS, by=url, out=whole, **variables))

    def arguments(self, url: str) -> list[Any]:
        return [*self.data.arguments(PIXELS, LEVELS), "--generalist", url]

    def check(self, done: CommandResult) -> None:
        """That a run came to the same."""
        assert done.code == 0, done.err
        assert table(done) == table(self.done)
        assert self.data.verdicts() == self.data.verdicts(self.whole)
        assert self.data.statuses() == {"scored"}


def test_killed_at_any_moment_it_loses_only_the_calls_in_flight() -> None:
    report = in_process(KILLS, SEED, range(KILLS.small))
    assert not report.findings


@pytest.mark.parametrize("mode", ["delay", "half-open", "black hole", "reset", "refuse"])
async def test_a_network_that_fails_for_a_while_loses_nothing(tmp_path: Path, mode: Mode) -> None:
    """One way to fail in each run: a call that waits may meet the second of two, and fail while others succeed."""
    server = Slow(0.02)
    async with server.serving() as url:
        undisturbed = await UndisturbedRun.of(tmp_path, 30, url, **HASTY)
        server.seen = 0
        proxy = FaultProxy(url, seconds=0.02)
        async with proxy.serving() as through:
            with process("run", *undisturbed.arguments(through), **HASTY) as started:
                await until(lambda: server.seen >= 8)
                await proxy.switch(mode)
                await asyncio.sleep(0.3 if mode == "delay" else 1.2)
                await proxy.switch("pass")
                undisturbed.check(await await_end(started, 60))


async def test_a_full_disk_is_one_line_and_the_run_goes_on_afterwards(tmp_path: Path) -> None:
    count = 40
    server = Slow(0.01)
    async with server.serving() as url:
        undisturbed = await UndisturbedRun.of(tmp_path, count, url)
        calls, server.seen = server.seen, 0
        full = await await_run("run", *undisturbed.arguments(url), script=patch_command(FULL))
        assert full.code == 1, full.err
        (line,) = [one for one in full.err.splitlines() if one.startswith("error: ")]
        for part in ("the disk is full", "run.sqlite", "repeat the command"):
            assert part in line
        assert "Traceback" not in full.err, full.err
        kept = undisturbed.data.verdicts()
        assert 0 < len(kept) < 2 * count, "the limit comes in the middle"
        undisturbed.check(await undisturbed.data.run(PIXELS, LEVELS, by=url))
    assert kept.items() <= undisturbed.data.verdicts().items()
    assert server.seen <= calls + 4 + 2, "calls in flight, and how the judge answers"


UNNAMED = """
true = socket.getaddrinfo
def slow(host, *rest, **more):
    if host == "nowhere":
        print("looking", flush=True)
        time.sleep(120)
    return true(host, *rest, **more)
socket.getaddrinfo = slow
"""
CLOCK = """
import itertools
true, turn = time.time, itertools.count()
time.time = lambda: true() + (-86_400, 0, 86_400)[next(turn) % 3]
"""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))"
"""As a disk that is full: no file may be larger, in bytes."""


def patch_command(lines: str) -> tuple[str, str]:
    """The command, after some lines in its process."""
    ours = 'sys.argv[0] = "editjudge"\nrunpy.run_module("editjudge", run_name="__main__")'
    return "-c", f"import runpy, socket, sys, time\n{lines}\n{ours}"


async def test_a_run_that_is_interrupted_while_it_connects_ends_at_once(tmp_path: Path) -> None:
    data = Data(tmp_path / "data")
    data.make(2)
    asked = [*data.arguments(PIXELS, LEVELS), "--generalist", "http://nowhere:8000/v1"]
    with process("run", *asked, script=patch_command(UNNAMED), EDITJUDGE_PROBE_TIMEOUT="120") as started:
        assert started.stdout is not None
        assert await asyncio.to_thread(started.stdout.readline) == "looking\n"
        started.send_signal(signal.SIGINT)
        done = await await_end(started, 30)
    assert (done.code, done.err) == (130, "interrupted; repeat the command to resume\n")


async def test_a_clock_that_jumps_by_days_changes_nothing(tmp_path: Path) -> None:
    count = 10
    server = Slow(0.01)
    async with server.serving() as url:
        undisturbed = await UndisturbedRun.of(tmp_path, count, url)
        for calls in (1 + count, 0):
            server.seen = 0
            undisturbed.check(await await_run("run", *undisturbed.arguments(url), script=patch_command(CLOCK)))
            assert server.seen == calls
