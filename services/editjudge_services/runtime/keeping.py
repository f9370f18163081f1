"""Keeping servers alive: one that ends, or loses one of its models, is started again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from editjudge.base.errors import StackError

log = logging.getLogger(__name__)
MAX_RESTARTS = 5
_HEALTHY_SECONDS = 60.0
_PAUSE = 0.5


class Server(Protocol):
    """What is kept alive."""

    log: Path

    @property
    def stop_seconds(self) -> float:
        """That ending it may take."""

    def start(self, stopping: threading.Event | None = None) -> None:
        """Start it and wait until it is ready, or until `stopping` is set."""

    def alive(self) -> bool:
        """Whether all of it runs."""

    def running(self) -> bool:
        """Whether its process runs, be it without one of its models."""

    def stop(self) -> None:
        """End it."""


def keep_alive(
    servers: Sequence[Server],
    stopping: threading.Event,
    tell: Callable[[], None] = lambda: None,
    tend: Callable[[], None] = lambda: None,
) -> None:
    """Look after servers that were started, until `stopping` is set.

    Args:
        tell: Called when one was started again, or goes on without one of its models.
        tend: Called at every look, for what else wants looking after.

    Raises:
        StackError: one ended more than `MAX_RESTARTS` times in a row, or does not start again.
    """
    restarts = [0] * len(servers)
    lame: set[int] = set()
    since = [time.monotonic()] * len(servers)
    while not stopping.wait(_PAUSE):
        tend()
        for i, server in enumerate(servers):
            if server.alive() or (i in lame and server.running()):
                continue
            if time.monotonic() - since[i] > _HEALTHY_SECONDS:
                restarts[i] = 0
            restarts[i] += 1
            name = server.log.stem
            if restarts[i] > MAX_RESTARTS and server.running():
                log.error("%s loses a model again and again; it goes on without it", name)
                lame.add(i)
                tell()
                continue
            if restarts[i] > MAX_RESTARTS:
                raise StackError(f"{name} ended {restarts[i]} times in a row, see {server.log}")
            log.warning("%s ended, or lost a model; starting it again (%d)", name, restarts[i])
            server.stop()
            server.start(stopping)
            tell()  # its process has another id now
            since[i] = time.monotonic()
