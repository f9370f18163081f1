"""The process of a local server: how it is started, waited for and ended."""

from __future__ import annotations

import contextlib
import errno
import os
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
"""Asks the kernel for a signal when the thread that started it ends, and becomes the command.

With a `preexec_fn` Python would fork, and gRPC's handlers of a fork crash many a child while calls
are in flight. Without one Python uses vfork, which runs no handlers.
"""


def reserve_ports(chosen: Sequence[int], hosts: Sequence[str] = ()) -> list[int]:
    """The ports asked for, free ones where 0 is; all different.

    Args:
        hosts: Where each is listened at, as numbers; all on loopback by default.

    Raises:
        StackError: one that was asked for is taken, or nobody can listen there.
    """
    with contextlib.ExitStack() as held:
        # Held open together, so that the free ones are different.
        pairs = zip(hosts or [LOOPBACK] * len(chosen), chosen, strict=True)
        sockets = [held.enter_context(_open_listener(host, port)) for host, port in pairs]
        return [listening.getsockname()[1] for listening in sockets]


def _open_listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason, mend = f"port {port} is taken", "choose another, or 0 for a free one"
        else:
            reason, mend = f"{host}:{port}: {error.strerror}", "choose an address of this machine"
        raise StackError(reason, mend) from error


def fetch(url: str, data: bytes | None = None) -> bytes | None:
    """What our own server says, without a proxy; None where it does not answer, or refuses."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, data, timeout=5) as reply:
            return bytes(reply.read())
    except (urllib.error.URLError, OSError):
        return None


def _parent_death_prefix(ending: signal.Signals) -> list[str]:
    """What a command follows that is to get a signal when the thread that starts it ends."""
    return [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _PARENT_DEATH_CODE,
        str(os.getpid()),
        str(int(ending)),
    ]


class Server(ABC):
    """One process of a server that lives no longer than the thread that started it.

    Args:
        log: Where its output goes.

    Attributes:
        name: How errors call it.
        end_seconds: That it may take to end when it is asked to.
    """

    name: ClassVar[str]
    end_seconds: ClassVar[float]

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int:
        """Of the process; 0 when there is none."""
        return self._process.pid if self._process else 0

    @property
    def stop_seconds(self) -> float:
        """That `stop` may take."""
        return self.end_seconds

    @abstractmethod
    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready, or until `stopping` is set.

        Raises:
            StackError: it cannot start, ended by itself, is not ready in time, or was stopped.
        """

    def is_running(self) -> bool:
        """Whether its process runs, be it without one of its models."""
        return self._process is not None and self._process.poll() is None

    def is_healthy(self) -> bool:
        """Whether all of it runs."""
        return self.is_running()

    def stop(self) -> None:
        """End it politely, then by force; safe to call twice."""
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
        """Wait until it is ready, or until `stopping` is set; then it is ended.

        Raises:
            StackError: it ended by itself, is not ready in time, or was stopped.
        """
        try:
            self._wait(stopping or threading.Event())
        except BaseException:  # also on Ctrl-C: no server may outlive the attempt
            self.stop()
            raise

    @property
    @abstractmethod
    def start_seconds(self) -> float:
        """Until it must be ready."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it answers."""

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
            f"{self.name} is not ready after {self.start_seconds:g} s: {self._read_last_error()}",
            self._suggest_mend(),
        )

    def _make_ended_error(self) -> StackError:
        return StackError(f"{self.name} ended: {self._read_last_error()}", self._suggest_mend())

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
            folder: Where it works; the current one by default.
            politely: The kernel asks it to end with its parent, for it has processes of its own
                to end; else it is killed.
        """
        # What an earlier life of this server wrote says nothing of this one.
        self._log_offset = self.log.stat().st_size if self.log.is_file() else 0
        with self._outputs() as (output, errors):
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [*_parent_death_prefix(signal.SIGTERM if politely else signal.SIGKILL), *command],
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                # Ctrl-C is for whoever started it: what is in flight still needs it.
                start_new_session=True,
                umask=0o077,
            )

    @contextlib.contextmanager
    def _outputs(self) -> Iterator[tuple[IO[bytes] | None, IO[bytes] | int | None]]:
        """Its standard output and standard error."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab", opener=private) as output:
            yield output, subprocess.STDOUT

    def _read_log(self) -> str:
        """What it wrote in this life."""
        if not self.log.is_file():
            return ""
        return self.log.read_bytes()[self._log_offset :].decode(errors="replace")

    def _read_last_error(self) -> str:
        """The line of its log that tells a cause."""
        return (self._read_log().strip().splitlines() or ["without a word"])[-1]

    def _suggest_mend(self) -> str:
        return f"see {self.log}"
