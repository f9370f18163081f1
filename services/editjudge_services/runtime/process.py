"""The process of a local server: starting it, waiting until it is ready, and ending it."""

import contextlib
import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar

from editjudge.base.errors import StackError
from editjudge.base.local_stack import private

LOOPBACK = "127.0.0.1"
_FREE_PORTS = range(15_000, 30_000)
"""Where free ports are chosen. A server listens seconds after its port was, and the kernel gives its own free ports
(on Linux from 32,768 on) to others meanwhile."""
_LOOK_SECONDS = 0.1
_PARENT_DEATH_CODE = """
import ctypes, os, signal, sys
parent, ending, *command = sys.argv[1:]
ctypes.CDLL(None).prctl(1, int(ending))
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored, signal.SIG_DFL)
if os.getppid() == int(parent):
    os.execvp(command[0], command)
"""
"""A script that asks the kernel for a signal when its parent thread ends, then execs a command.

A `preexec_fn` would make Python fork, and gRPC's fork handlers can crash the child while calls are
in flight. Without it Python uses vfork, which runs no handlers.
"""


def reserve_ports(ports: Sequence[int], hosts: Sequence[str] = ()) -> list[int]:
    """Check that ports are free, and choose a free one in place of each 0; all are different.

    Args:
        hosts: The IP address to listen on for each port; loopback by default.

    Raises:
        StackError: a port is taken, or nothing can listen at its address.
    """
    with contextlib.ExitStack() as listeners:
        # All are open at the same time, so that the free ones differ.
        pairs = zip(hosts or [LOOPBACK] * len(ports), ports, strict=True)
        sockets = [listeners.enter_context(_open_listener(host, port)) for host, port in pairs]
        return [listener.getsockname()[1] for listener in sockets]


def _open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port or secrets.choice(_FREE_PORTS)), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and not port:
            return _open_listener(host, port)
        if error.errno == errno.EADDRINUSE:
            reason, fix = f"port {port} is taken", "choose another, or 0 for a free one"
        else:
            reason, fix = f"{host}:{port}: {error.strerror}", "choose an address of this machine"
        raise StackError(reason, fix) from error


def fetch(url: str, data: bytes | None = None) -> bytes | None:
    """Request a URL of a local server, without any proxy; None where it fails."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, data, timeout=5) as reply:
            return bytes(reply.read())
    except (urllib.error.URLError, OSError):
        return None


def _parent_death_prefix(ending: signal.Signals) -> list[str]:
    """The prefix of a command that makes the kernel signal it when its parent thread ends."""
    python = (sys.executable, "-I", "-S", "-c", _PARENT_DEATH_CODE)
    return [*python, str(os.getpid()), str(int(ending))]


class Server(ABC):
    """A server process, which the kernel ends together with the thread that started it.

    Args:
        log: The file for its output.

    Attributes:
        name: The server's name in errors.
        end_seconds: How long it may take to end after SIGTERM; then it is killed.
    """

    name: ClassVar[str]
    end_seconds: ClassVar[float]

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int:
        """The process id; 0 while there is no process."""
        return self._process.pid if self._process else 0

    @property
    def stop_seconds(self) -> float:
        """How long `stop` may take."""
        return self.end_seconds

    @abstractmethod
    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready, or until `stopping` is set.

        Raises:
            StackError: it cannot start, ended by itself, is not ready in time, or was stopped.
        """

    def is_running(self) -> bool:
        """Whether its process runs, even where one of its models is lost."""
        return self._process is not None and self._process.poll() is None

    def is_healthy(self) -> bool:
        """Whether it runs with everything that it started with."""
        return self.is_running()

    def stop(self) -> None:
        """End it by SIGTERM, then by SIGKILL; may be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self.end_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_until_ready(self, stopping: threading.Event | None = None) -> None:
        """Wait until it is ready; on any failure it is ended.

        Raises:
            StackError: it ended by itself, is not ready in time, or `stopping` was set.
        """
        try:
            self._wait(stopping or threading.Event())
        except BaseException:  # also on Ctrl-C: no server may outlive the attempt
            self.stop()
            raise

    @property
    @abstractmethod
    def start_seconds(self) -> float:
        """How long it may take to become ready."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it accepts requests."""

    def _wait(self, stopping: threading.Event) -> None:
        end = time.monotonic() + self.start_seconds
        while time.monotonic() < end:
            if not self.is_healthy():
                raise self._make_ended_error()
            if self._is_ready():
                return
            if stopping.wait(_LOOK_SECONDS):
                raise StackError(f"{self.name} was stopped before it was ready")
        raise StackError(
            f"{self.name} is not ready after {self.start_seconds:g} s: {self._read_last_error()}", self._suggest_fix()
        )

    def _make_ended_error(self) -> StackError:
        return StackError(f"{self.name} ended: {self._read_last_error()}", self._suggest_fix())

    def _launch(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        politely: bool = False,
    ) -> None:
        """Start its process.

        Args:
            folder: Its working directory; the current one by default.
            politely: Whether it gets SIGTERM when its parent thread ends, because it has child
                processes to end; otherwise SIGKILL.
        """
        # Errors are read from here on, not from what an earlier process logged.
        self._log_offset = self.log.stat().st_size if self.log.is_file() else 0
        with self._outputs() as (output, errors):
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [*_parent_death_prefix(signal.SIGTERM if politely else signal.SIGKILL), *command],
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                # Ctrl-C must reach the parent alone: requests in flight still need the server.
                start_new_session=True,
                umask=0o077,
            )

    @contextlib.contextmanager
    def _outputs(self) -> Iterator[tuple[IO[bytes] | None, IO[bytes] | int | None]]:
        """Open its standard output and standard error."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab", opener=private) as output:
            yield output, subprocess.STDOUT

    def _read_log(self) -> str:
        """What the current process has logged."""
        if not self.log.is_file():
            return ""
        return self.log.read_bytes()[self._log_offset :].decode(errors="replace")

    def _read_last_error(self) -> str:
        """The line of its log that states why it failed."""
        return (self._read_log().strip().splitlines() or ["its log is empty"])[-1]

    def _suggest_fix(self) -> str:
        return f"see {self.log}"
