"""`editjudge run` while the network, the disk or the clock fails: the same table all the same."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..fakes.fault_proxy import FaultProxy, Mode
from ..patience import patience, until
from .conftest import Ran
from .test_run import LEVELS, PIXELS, Data, Slow, process, ran, table

DIMENSIONS = (PIXELS, LEVELS)
HASTY = {
    "EDITJUDGE_DEADLINE": str(patience(0.8)),
    # So many that the last comes when the deadline is near, however busy the machine is.
    "EDITJUDGE_RETRY_WAIT": "0.02",
    "EDITJUDGE_ATTEMPTS": "8",
    "EDITJUDGE_PATIENCE": "30",
    "EDITJUDGE_CONCURRENCY": "8",
}


@pytest.fixture
def data(tmp_path: Path) -> Data:
    (tmp_path / "data").mkdir()
    return Data(tmp_path / "data")


async def test_a_network_that_fails_in_every_way_loses_nothing(data: Data, tmp_path: Path) -> None:
    count = 60
    data.items(count)
    data.model("a", count)
    server = Slow(0.02)
    proxy = FaultProxy("", seconds=0.02)
    modes: list[Mode] = ["delay", "half-open", "black hole", "reset", "refuse"]
    async with server.serving() as url:
        whole = tmp_path / "whole"
        arguments = [*data.arguments(*DIMENSIONS, out=whole), "--generalist", url]
        undisturbed = await ran("run", *arguments, **HASTY)
        assert undisturbed.code == 0, undisturbed.err
        server.seen = 0
        proxy = FaultProxy(url, seconds=0.02)
        async with proxy.serving() as through:
            arguments = [*data.arguments(*DIMENSIONS), "--generalist", through]
            with process("run", *arguments, **HASTY) as started:
                for number, mode in enumerate(modes):
                    await until(lambda n=number: server.seen >= 8 * (n + 1))
                    await proxy.switch(mode)
                    await asyncio.sleep(0.3 if mode == "delay" else 1.2)
                    await proxy.switch("pass")
                out, err = await asyncio.to_thread(started.communicate, timeout=patience(60))
    disturbed = Ran(started.returncode, out, err)
    assert disturbed.code == 0, disturbed.err
    assert table(disturbed) == table(undisturbed)
    assert data.verdicts() == data.verdicts(whole)
    assert {one["status"] for one in data.verdicts().values()} == {"scored"}


def limited(size: int) -> Any:
    """Lets a process write no file above a size, in bytes, as a disk that is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


async def test_a_full_disk_is_one_line_and_the_run_goes_on_afterwards(
    data: Data, tmp_path: Path
) -> None:
    count = 40
    data.items(count)
    data.model("a", count)
    server = Slow(0.01)
    async with server.serving() as url:
        whole = tmp_path / "whole"
        arguments = [*data.arguments(*DIMENSIONS, out=whole), "--generalist", url]
        undisturbed = await ran("run", *arguments)
        assert undisturbed.code == 0, undisturbed.err
        calls, server.seen = server.seen, 0

        arguments = [*data.arguments(*DIMENSIONS), "--generalist", url]
        full = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "editjudge", "run", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=patience(60),
            check=False,
            preexec_fn=limited(300_000),
            env={**os.environ, "EDITJUDGE_CONCURRENCY": "4"},
        )
        assert full.returncode == 1, full.stderr
        (line,) = [one for one in full.stderr.splitlines() if one.startswith("error: ")]
        assert "the disk is full" in line
        assert "run.sqlite" in line
        assert "repeat the command" in line
        assert "Traceback" not in full.stderr, full.stderr
        kept = data.verdicts()
        assert 0 < len(kept) < 2 * count, "the limit comes in the middle"

        resumed = await ran("run", *arguments)
    assert resumed.code == 0, resumed.err
    assert table(resumed) == table(undisturbed)
    assert kept.items() <= data.verdicts().items()
    assert data.verdicts() == data.verdicts(whole)
    assert server.seen <= calls + 4 + 2, "calls in flight, and how the judge answers"


UNNAMED = """
import runpy, socket, sys, time
true = socket.getaddrinfo

def slow(host, *rest, **more):
    if host == "nowhere":
        print("looking", flush=True)
        time.sleep(120)
    return true(host, *rest, **more)

socket.getaddrinfo = slow
sys.argv[0] = "editjudge"
runpy.run_module("editjudge", run_name="__main__")
"""


async def test_a_run_that_is_interrupted_while_it_connects_ends_at_once(data: Data) -> None:
    data.items(2)
    data.model("a", 2)
    arguments = [*data.arguments(*DIMENSIONS), "--generalist", "http://nowhere:8000/v1"]
    with subprocess.Popen(
        [sys.executable, "-c", UNNAMED, "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "EDITJUDGE_PROBE_TIMEOUT": "120"},
    ) as started:
        assert started.stdout is not None
        assert await asyncio.to_thread(started.stdout.readline) == "looking\n"
        started.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(started.communicate, timeout=patience(30))
    assert started.returncode == 130, err
    assert err == "interrupted; repeat the command to resume\n"


CLOCK = """
import itertools, runpy, sys, time
true, turn = time.time, itertools.count()
time.time = lambda: true() + (-86_400, 0, 86_400)[next(turn) % 3]
sys.argv[0] = "editjudge"
runpy.run_module("editjudge", run_name="__main__")
"""


async def test_a_clock_that_jumps_by_days_changes_nothing(data: Data, tmp_path: Path) -> None:
    count = 10
    data.items(count)
    data.model("a", count)
    server = Slow(0.01)
    async with server.serving() as url:
        whole = tmp_path / "whole"
        arguments = [*data.arguments(*DIMENSIONS, out=whole), "--generalist", url]
        undisturbed = await ran("run", *arguments)
        assert undisturbed.code == 0, undisturbed.err
        for time in range(2):
            server.seen = 0
            arguments = [*data.arguments(*DIMENSIONS), "--generalist", url]
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", CLOCK, "run", *map(str, arguments)],
                capture_output=True,
                text=True,
                timeout=patience(60),
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert table(Ran(0, done.stdout, "")) == table(undisturbed)
            assert server.seen == (0 if time else 1 + count)
    assert data.verdicts() == data.verdicts(whole)
