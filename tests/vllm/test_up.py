"""`editjudge up --generalist`, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.client import add_local_stack
from editjudge.base.config import load_settings
from editjudge.panel import Panel

from ..patience import wait_until
from .conftest import PYTHON

FLAGS = ("--set", "stack.triton=false", "--set", 'stack.judge_args=["--dtype=float32"]')


def editjudge(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "editjudge", *arguments], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITJUDGE_VLLM_PYTHON", str(PYTHON))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


@pytest.mark.parametrize("protocol", ["grpc"])
async def test_up_status_down(checkpoints: dict[str, Path], protocol: str) -> None:
    folder = checkpoints["whole"]
    wanted = ("--generalist", folder, "--set", f"stack.judge_protocol={protocol}")
    ran = editjudge("up", *FLAGS, *wanted, "--json")
    try:
        assert ran.returncode == 0, ran.stderr
        local = json.loads(ran.stdout)["judge"]
        assert local["model"] == folder.name
        assert local["url"].startswith("grpc://127.0.0.1:")

        settings = add_local_stack(load_settings())
        assert settings.judges["judge"].url == local["url"]
        async with Panel(settings) as panel:
            assert panel.problems == {}
            assert set(panel.judges) == {"generalist.judge"}

        status = editjudge("status", "--json")
        assert status.returncode == 0, status.stdout
        assert set(json.loads(status.stdout)["services"]) == {"generalist.judge"}
        assert local["url"] in editjudge("status").stdout
        second = editjudge("up", *FLAGS, *wanted)
        assert second.returncode == 1
        assert local["url"] in second.stderr
    finally:
        down = editjudge("down")
    assert local["url"] in down.stdout
    assert members(local["pid"]) == []


def test_a_killed_supervisor_takes_vllm_with_it(checkpoints: dict[str, Path]) -> None:
    ran = editjudge("up", *FLAGS, "--generalist", checkpoints["whole"], "--json")
    try:
        assert ran.returncode == 0, ran.stderr
        state: dict[str, Any] = json.loads(ran.stdout)
        os.kill(state["pid"], signal.SIGKILL)
        wait_until(lambda: not members(state["judge"]["pid"]), 30)
        assert editjudge("status").returncode == 1
    finally:
        editjudge("down")


def test_a_server_that_dies_says_why(checkpoints: dict[str, Path]) -> None:
    refused = ("--set", "stack.triton=false", '--set=stack.judge_args=["--no-such-argument"]')
    ran = editjudge("up", *refused, "--generalist", checkpoints["whole"])
    assert ran.returncode == 1
    assert "--no-such-argument" in ran.stderr
    assert editjudge("status").returncode == 1


def members(group: int) -> list[int]:
    """Processes of a group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
