"""What the supervisor does with servers that end, or lose a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import StackError
from editjudge_services.runtime.keeping import keep_alive


class Looks:
    """Lets the supervisor look a number of times, and then stop."""

    def __init__(self, count: int) -> None:
        self.left = count

    def wait(self, _: float) -> bool:
        self.left -= 1
        return self.left < 0


class Server:
    """One that is never whole again; `runs` says whether its process does."""

    log = Path("triton.log")

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs
        self.started = self.stopped = 0

    def start(self, stopping: object = None) -> None:
        self.started += 1

    def stop(self) -> None:
        self.stopped += 1

    def alive(self) -> bool:
        return False

    def running(self) -> bool:
        return self.runs


def kept(server: Any, looks: int) -> list[str]:
    told: list[str] = []
    keep_alive([server], Looks(looks), lambda: told.append("told"))  # type: ignore[arg-type]
    return told


def test_a_server_that_ends_again_and_again_ends_the_stack() -> None:
    server = Server(runs=False)
    with pytest.raises(StackError, match="triton ended 6 times in a row"):
        kept(server, 10)
    assert (server.started, server.stopped) == (5, 5)


def test_one_that_only_loses_a_model_goes_on_without_it_and_that_is_told() -> None:
    server = Server(runs=True)
    assert len(kept(server, 10)) == 6
    assert server.started == 5
    server.runs = False
    with pytest.raises(StackError):
        kept(server, 10)
