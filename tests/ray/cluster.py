"""Ray on this machine: each node has an address on loopback, and a token is asked for."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from editjudge_services.runtime.process import reserve_ports

from ..patience import wait_until
from ..postgres.server import PASSWORD

_OPTIONS = ("--disable-usage-stats", "--object-store-memory", "100000000")
_WORKER_PORTS = ("--min-worker-port", "0", "--max-worker-port", "0", "--block")


def find_processes(session: int, title: str = "") -> list[int]:
    """Find the processes of a node, by what they call themselves: they stay in its session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            is_alive = fields[0] != "Z"
            if is_alive and int(fields[3]) == session and title.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def find_port() -> int:
    """A port of the head that is free."""
    (port,) = reserve_ports([0], ["127.0.0.2"])
    return port


class Cluster:
    """A head, and nodes that can be added and killed.

    Attributes:
        jobs: Where jobs are handed in; "" for nowhere.
    """

    def __init__(
        self, processors: int = 2, *, takes_jobs: bool = False, variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ej-ray-")
        port, jobs_port = find_port(), find_port()
        self.address = f"127.0.0.2:{port}"
        self.jobs = f"http://127.0.0.2:{jobs_port}" if takes_jobs else ""
        self.variables = {
            **variables,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            # A dead node is to be found within seconds.
            "RAY_health_check_initial_delay_ms": "500",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "6",
        }
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._start(
            "127.0.0.2",
            *("--head", "--port", str(port), "--temp-dir", self._folder.name),
            *("--include-dashboard", str(takes_jobs).lower(), "--num-cpus", str(processors)),
            *("--dashboard-host", "127.0.0.2", "--dashboard-port", str(jobs_port)),
            *("--ray-client-server-port", str(find_port())),
        )

    def add(self, ip: str, processors: int = 2) -> int:
        """Add a node, and return its session."""
        return self._start(ip, "--address", self.address, "--num-cpus", str(processors))

    def _start(self, ip: str, *options: str) -> int:
        log_path = Path(self._folder.name) / f"{ip}-{secrets.token_hex(4)}.log"
        with log_path.open("ab") as log:
            node = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start"),
                    *("--node-ip-address", ip, *options, *_OPTIONS, *_WORKER_PORTS),
                    # By default each agent of a machine has the same port, and the second takes no jobs.
                    *("--dashboard-agent-listen-port", str(find_port())),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.variables, "PGPASSWORD": PASSWORD},
                start_new_session=True,
            )
        self._nodes[node.pid] = node
        wait_until(lambda: b"Ray runtime started" in log_path.read_bytes(), 300)
        return node.pid

    def workers(self, session: int) -> list[int]:
        """The processes of a node's workers that judge."""
        return find_processes(session, "ray::Worker")

    def kill(self, session: int) -> None:
        """Kill all processes of a node at once, as where its machine is gone."""
        while len(pids := find_processes(session)) > 0:  # some start others meanwhile
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._nodes[session].poll()
        self._nodes.pop(session).wait()

    def drain(self, session: int) -> None:
        """Give notice that a node is to go, and kill it when its time is over."""
        (raylet,) = find_processes(session, "raylet/raylet")
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
        self.kill(session)

    def close(self) -> None:
        for session in [*self._nodes]:
            self.kill(session)
        self._folder.cleanup()


@contextlib.contextmanager
def cluster(processors: int = 2, **options: Any) -> Iterator[Cluster]:
    started = Cluster(processors, **options)
    try:
        yield started
    finally:
        started.close()
