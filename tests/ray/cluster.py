"""Ray on this machine: each node has an address on loopback, and a token is asked for."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..patience import wait_until
from ..postgres.server import PASSWORD

_MARK = "EDITJUDGE_TEST_NODE"
_OPTIONS = ("--disable-usage-stats", "--object-store-memory", "100000000")
_WORKER_PORTS = ("--min-worker-port", "0", "--max-worker-port", "0", "--block")


def find_processes(value: str, title: str = "") -> list[int]:
    """Find the processes that inherited a variable from a node, by what they call themselves."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            is_ours = f"{_MARK}={value}".encode() in variables
            if is_ours and title.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def find_port() -> int:
    """A port of the head that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.2", 0))
        return int(free.getsockname()[1])


class Cluster:
    """A head, and nodes that can be added and killed.

    Attributes:
        jobs: Where jobs are handed in; "" for nowhere.
    """

    def __init__(self, processors: int = 2, *, takes_jobs: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ej-ray-")
        port, jobs_port = find_port(), find_port()
        self.address = f"127.0.0.2:{port}"
        self.jobs = f"http://127.0.0.2:{jobs_port}" if takes_jobs else ""
        self.variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            # A dead node is to be found within seconds.
            "RAY_health_check_initial_delay_ms": "500",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "6",
        }
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._start(
            "127.0.0.2",
            *("--head", "--port", str(port), "--temp-dir", self._folder.name),
            *("--include-dashboard", str(takes_jobs).lower(), "--num-cpus", str(processors)),
            *("--dashboard-host", "127.0.0.2", "--dashboard-port", str(jobs_port)),
        )

    def add(self, ip: str, processors: int = 2) -> str:
        """Add a node, and return its mark."""
        return self._start(ip, "--address", self.address, "--num-cpus", str(processors))

    def _start(self, ip: str, *options: str) -> str:
        mark = secrets.token_hex(8)
        with (Path(self._folder.name) / f"{ip}.log").open("ab") as log:
            self._nodes[mark] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start"),
                    *("--node-ip-address", ip, *options, *_OPTIONS, *_WORKER_PORTS),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.variables, _MARK: mark, "PGPASSWORD": PASSWORD},
            )
        begun = Path(self._folder.name) / f"{ip}.log"
        wait_until(lambda: b"Ray runtime started" in begun.read_bytes(), 60)
        return mark

    def workers(self, mark: str) -> list[int]:
        """The processes of a node's workers that judge."""
        return find_processes(mark, "ray::Worker")

    def kill(self, mark: str) -> None:
        """Kill all processes of a node at once, as where its machine is gone."""
        for pid in find_processes(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._nodes.pop(mark).wait()

    def drain(self, mark: str) -> None:
        """Give notice that a node is to go, and kill it when its time is over."""
        (raylet,) = find_processes(mark, "raylet/raylet")
        words = Path(f"/proc/{raylet}/cmdline").read_text().split("\0")
        (node_id,) = (word.partition("=")[2] for word in words if word.startswith("--node_id="))
        subprocess.run(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "drain-node"),
                *("--address", self.address, "--node-id", node_id),
                *("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"),
                *("--deadline-remaining-seconds", "2"),
            ],
            check=True,
            env={**os.environ, **self.variables},
        )
        time.sleep(2)
        self.kill(mark)

    def close(self) -> None:
        for mark in [*self._nodes]:
            self.kill(mark)
        self._folder.cleanup()


@contextlib.contextmanager
def cluster(processors: int = 2, *, takes_jobs: bool = False) -> Iterator[Cluster]:
    started = Cluster(processors, takes_jobs=takes_jobs)
    try:
        yield started
    finally:
        started.close()
