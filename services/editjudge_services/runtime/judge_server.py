"""Starting the Judge service, `editjudge serve`, over the servers of a local stack."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from editjudge.base.config import StackSettings
from editjudge.base.errors import MissingExtra, StackError
from editjudge.base.local import LocalJudge, private

from .process import LOOPBACK, asked, end_with_parent, ports

_PACKAGES = ("grpc_health", "grpc_reflection", "grpc_status")
_READY_SECONDS = 120.0
_DRAIN_SECONDS = 30.0
_KILL_SECONDS = 10.0


def check_judge() -> None:
    """Find out whether it can be started here.

    Raises:
        MissingExtra: a package of the extra `judge` is not installed.
    """
    if not all(find_spec(name) for name in _PACKAGES):
        raise MissingExtra("the Judge service", "judge")


class JudgeServer:
    """One process of the Judge service that lives no longer than the thread that started it.

    Args:
        log: Where its output goes.
        settings: Ports, and further arguments.
        config: Settings file of whoever asked for it; by default that of the current folder.

    Attributes:
        start_seconds: That starting it may take.
        stop_seconds: That ending it may take.
    """

    start_seconds = _READY_SECONDS
    stop_seconds = _DRAIN_SECONDS + _KILL_SECONDS

    def __init__(self, log: Path, settings: StackSettings, config: Path | None = None) -> None:
        self.log = log
        self._arguments = settings.judge_args
        self._config = config
        self._servers: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._grpc, self._http = settings.judge_port, settings.judge_http_port
        self._begin = 0
        self._failed = ""

    def over(self, triton: str, vllm: str) -> None:
        """Judge with these servers; vLLM's address is "" where there is none."""
        generalist = ("--generalist", vllm) if vllm else ()
        self._servers = ("--endpoint", triton, *generalist)

    @property
    def pid(self) -> int:
        """Of the process; 0 when there is none."""
        return self._process.pid if self._process else 0

    @property
    def state(self) -> LocalJudge:
        """Where it is, and why it is away if it is."""
        return LocalJudge(
            pid=self.pid,
            url=f"grpc://{LOOPBACK}:{self._grpc}",
            http=f"http://{LOOPBACK}:{self._http}",
            log=self.log,
            problem=self._problem(),
        )

    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready, or until `stopping` is set.

        Raises:
            StackError: a port is taken, it ended by itself, is not ready in time, or was stopped.
        """
        self._failed = ""
        try:
            self._start(stopping or threading.Event())
        except (StackError, OSError) as error:
            self._failed = str(error)
            raise

    def _start(self, stopping: threading.Event) -> None:
        if self._process is None:
            self._grpc, self._http = ports((self._grpc, self._http))
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._begin = self.log.stat().st_size if self.log.is_file() else 0
        with open(self.log, "ab", opener=private) as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._command(),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                umask=0o077,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - no threads of ours hold locks
            )
        try:
            self._wait_until_ready(stopping)
        except BaseException:  # also on Ctrl-C: no server may outlive the attempt
            self.stop()
            raise

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    running = alive

    def stop(self) -> None:
        """End it once what is in flight is done; safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _command(self) -> list[str]:
        return [
            # Not the modules of the current folder, which is where its settings are.
            *(sys.executable, "-P", "-m", "editjudge", "serve"),
            *("--address", f"{LOOPBACK}:{self._grpc}"),
            *("--http-address", f"{LOOPBACK}:{self._http}"),
            # The door before it ends first, so nobody is left to be told.
            *("--notice", "0", "--drain", f"{_DRAIN_SECONDS:g}"),
            *(("--config", str(self._config)) if self._config else ()),
            *self._servers,
            *self._arguments,
        ]

    def _wait_until_ready(self, stopping: threading.Event) -> None:
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            if not self.alive():
                raise StackError(self._ended(), f"see {self.log}")
            if asked(f"{self.state.http}/health") is not None:
                return
            if stopping.wait(0.1):
                raise StackError("the Judge service was stopped before it was ready")
        raise StackError(
            f"the Judge service is not ready after {_READY_SECONDS:g} s", f"see {self.log}"
        )

    def _problem(self) -> str:
        if self._process is None or self.alive():
            return self._failed
        return self._ended()

    def _ended(self) -> str:
        text = self.log.read_bytes()[self._begin :].decode(errors="replace")
        said = (text.strip().splitlines() or ["without a word"])[-1]
        return f"the Judge service ended: {said}"
