"""Commands as a user types them, in a process of their own where how they run matters."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from editjudge.cli import main

from ..patience import patience
from .browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# What a shell starts in the background ignores it, and so would every process started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class CommandResult:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as strict JSON."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Command = Callable[..., CommandResult]
Started = subprocess.Popen[str]


def process(
    *arguments: object, script: Sequence[str] = ("-m", "editjudge"), cwd: Path | None = None, **variables: str
) -> Started:
    """A command that has just begun, or a script in its place."""
    words = [each if isinstance(each, bytes) else str(each) for each in arguments]
    patient = {
        "EDITJUDGE_CONCURRENCY": "4",
        "EDITJUDGE_DEADLINE": str(patience(60)),
        "EDITJUDGE_STACK__STARTUP_TIMEOUT": str(patience(120)),
    }
    return subprocess.Popen(
        [sys.executable, *script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**patient, **os.environ, **variables},
    )


def end(started: Started, seconds: float = 100) -> CommandResult:
    """Wait for the end of a command."""
    try:
        out, err = started.communicate(timeout=patience(seconds))
    finally:
        started.kill()
    return CommandResult(started.returncode, out, err)


async def await_end(started: Started, seconds: float = 100) -> CommandResult:
    """Wait for the end of a command beside a server of this process."""
    return await asyncio.to_thread(end, started, seconds)


def run(*arguments: object, **options: Any) -> CommandResult:
    """A command in a process of its own."""
    with process(*arguments, **options) as started:
        return end(started)


async def await_run(*arguments: object, **options: Any) -> CommandResult:
    """`run` beside a server of this process."""
    return await asyncio.to_thread(run, *arguments, **options)


def run_in_process(*arguments: object, **variables: str) -> CommandResult:
    """A command in this process: a second less, for what it says and not how it runs."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch.dict(os.environ, variables):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return CommandResult(ended.value.code, out.getvalue(), err.getvalue())


async def run_in_thread(*arguments: object, **variables: str) -> CommandResult:
    """`here` beside a server of this process."""
    return await asyncio.to_thread(run_in_process, *arguments, **variables)


@asynccontextmanager
async def serving(*arguments: object) -> AsyncIterator[tuple[Started, str, str]]:
    """`editjudge serve`, and its addresses for clients; at the end it is killed, unless it ended."""
    ports = ("--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
    with process("serve", *ports, *arguments) as started:
        try:
            assert started.stdout is not None
            line = await asyncio.wait_for(asyncio.to_thread(started.stdout.readline), patience(60))
            assert line.startswith("judging at "), line
            yield started, line.split()[2], line.split()[5]
        finally:
            started.kill()


@pytest.fixture
def command() -> Command:
    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a stack that `editjudge up` started, for tests that only use one."""
    state = str(tmp_path_factory.mktemp("state"))
    started = run("up", "--json", EDITJUDGE_STATE_DIR=state)
    assert started.code == 0, started.err
    yield str(started.json["grpc"])
    assert run("down", EDITJUDGE_STATE_DIR=state).code == 0
