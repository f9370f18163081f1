"""Commands as a user types them, in a process of their own where how they run matters."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
class Ran:
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


Command = Callable[..., Ran]


def run(*arguments: str | bytes | Path, cwd: Path | None = None, **variables: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "editjudge", *arguments],
        capture_output=True,
        cwd=cwd,
        env={
            "EDITJUDGE_DEADLINE": str(patience(60)),
            "EDITJUDGE_STACK__STARTUP_TIMEOUT": str(patience(120)),
            **os.environ,
            **variables,
        },
        timeout=patience(100),
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def here(*arguments: object) -> Ran:
    """A command in this process: a second less, for what it says and not how it runs."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return Ran(ended.value.code, out.getvalue(), err.getvalue())


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
