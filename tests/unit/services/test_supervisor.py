"""What the supervisor does with servers that end, or lose a model."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.config import StackSettings
from editjudge.base.errors import StackError
from editjudge_services.runtime import restarts, supervisor, triton_server
from editjudge_services.runtime.gateway_server import GatewayServer
from editjudge_services.runtime.process import Server as LaunchedServer
from editjudge_services.runtime.restarts import keep_running

from ...patience import wait_until


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

    def is_healthy(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.runs


class Unstartable(Server):
    """One that does not even start."""

    def start(self, stopping: object = None) -> None:
        super().start(stopping)
        raise StackError("its port is taken")


class Shell(LaunchedServer):
    """Says what it may let others do with the files that it makes."""

    name, end_seconds, start_seconds = "shell", 5.0, 5.0

    def start(self, stopping: object = None) -> None:
        self._launch(["sh", "-c", "umask"])
        assert self._process is not None
        self._process.wait()

    def _is_ready(self) -> bool:
        return True


def test_what_a_server_writes_is_its_owners_alone(tmp_path: Path) -> None:
    (server := Shell(tmp_path / "log")).start()
    assert server.log.read_text().split() == ["0077"]


def run_supervisor(server: Any, looks: int) -> list[str]:
    told: list[str] = []
    keep_running([server], Looks(looks), lambda: told.append("told"))  # type: ignore[arg-type]
    return told


def test_what_a_stack_writes_is_its_owners_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it starts makes files as the supervisor may."""
    given: dict[str, Any] = {}

    def start(_: object, **settings: Any) -> None:
        given.update(settings)
        raise OSError("enough")

    monkeypatch.setattr(supervisor.subprocess, "Popen", start)
    monkeypatch.setattr(supervisor, "_check_settings", lambda *_: None)
    with pytest.raises(OSError, match="enough"):
        supervisor.up(StackSettings())
    assert given["umask"] == 0o077


def test_models_that_triton_has_loaded_are_reported_but_not_those_of_an_earlier_stack(tmp_path: Path) -> None:
    log = tmp_path / "triton.log"
    assert supervisor.read_loaded(log) == []
    log.write_text(
        'I1 1 model_lifecycle.cc:472] "loading: ocr_ppocr:1"\n'
        'I1 1 model_lifecycle.cc:472] "loading: quality_piqe:1"\n'
        "I1 1 model_lifecycle.cc:839] \"successfully loaded 'quality_piqe'\"\n"
    )
    assert supervisor.read_loaded(log) == ["quality_piqe is loaded (1 of 2)"]
    assert supervisor.read_loaded(log, log.stat().st_mtime + 1) == []


def test_a_server_that_ends_again_and_again_ends_the_stack() -> None:
    server = Server(runs=False)
    with pytest.raises(StackError, match="triton ended 6 times in a row"):
        run_supervisor(server, 10)
    assert (server.started, server.stopped) == (5, 5)


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_log_that_an_error_names_stays(
    is_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A command runs on without the services that ended; whoever reads its error then looks for the log."""
    server = Server(runs=is_whole)
    monkeypatch.setattr(server, "is_healthy", lambda: is_whole)
    monkeypatch.setattr(restarts, "_CHECK_SECONDS", 0.001)
    monkeypatch.setattr(triton_server, "private_state_dir", lambda: tmp_path)

    def launch(log: Path, _: object) -> Server:
        server.log = log
        log.touch()
        return server

    monkeypatch.setattr(triton_server, "TritonServer", launch)
    with triton_server.temporary_stack():
        if not is_whole:
            wait_until(lambda: server.stopped > restarts.MAX_RESTARTS)
            wait_until(lambda: not any(each.name == "triton" for each in threading.enumerate()))
    told = f"The local services ended: {server.log.stem} ended 6 times in a row, see {server.log}. Mend that"
    assert server.log.exists() == (told in caplog.text) == (not is_whole)


def test_one_that_only_loses_a_model_goes_on_without_it_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(runs=True)
    assert len(run_supervisor(server, 10)) == 6
    assert "triton ended or lost a model; restart 5 follows. If that repeats, read triton.log." in caplog.messages
    assert caplog.messages[-1].startswith("triton lost a model 6 times and runs on without it. Read triton.log, then")
    assert server.started == 5
    server.runs = False
    with pytest.raises(StackError):
        run_supervisor(server, 10)


@pytest.mark.parametrize("kind", [Server, Unstartable])
def test_one_that_others_go_on_without_is_tried_for_ever_and_ever_less_often(
    kind: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, other = kind(runs=False), Server(runs=True)
    monkeypatch.setattr(other, "is_healthy", lambda: True)
    looks, told, tries = Looks(2000), [0], []

    def moment() -> float:
        return (2000 - looks.left) * 0.5

    def tell() -> None:
        told[0] += 1
        if judge.started > len(tries):
            tries.append(moment())

    monkeypatch.setattr(restarts.time, "monotonic", moment)
    keep_running([other, judge], looks, tell, dispensable=[judge])  # type: ignore[arg-type]
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[0] == 1
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    assert told[0] >= 2 * len(tries) - 1  # that it was tried, and that it is away
    assert (other.started, other.stopped) == (0, 0)


def test_the_judge_service_says_why_it_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = GatewayServer(tmp_path / "judge.log", StackSettings(gateway=True))
    program = "import sys; sys.exit('no room for its table')"
    monkeypatch.setattr(server, "_command", lambda: [sys.executable, "-c", program])
    assert server.state.problem == ""
    with pytest.raises(StackError, match="no room for its table"):
        server.start()
    assert "the Judge service ended: no room for its table" in server.state.problem
