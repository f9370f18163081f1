"""Keeping servers alive: one that ends, or loses one of its models, is started again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence

from editjudge.base.errors import StackError

from .process import Server

log = logging.getLogger(__name__)
MAX_RESTARTS = 5
_HEALTHY_SECONDS = 60.0
_PAUSE = 0.5
_LONGEST_PAUSE = 60.0


class _RestartedServer:
    """A server, and how often it was started again.

    Args:
        server: That was started.
        retried: Whether it is tried for ever, since the others go on without it.
    """

    def __init__(self, server: Server, always_retried: bool) -> None:
        self._server = server
        self._always_retried = always_retried
        self._restarts = 0
        self._is_degraded = self._is_away = False
        self._since = time.monotonic()
        self._not_before = 0.0

    def restart_if_needed(self, stopping: threading.Event) -> bool:
        """Start it again if it has to be; whether there is something to tell."""
        now = time.monotonic()
        if self._server.is_healthy() or (self._is_degraded and self._server.is_running()):
            if now - self._since > _HEALTHY_SECONDS:
                self._restarts = 0
            return False
        if now < self._not_before:
            news, self._is_away = not self._is_away, True
            return news
        self._restarts += 1
        if self._restarts > MAX_RESTARTS and not self._always_retried:
            self._give_up()
        else:
            self._start_again(stopping)
        return True

    def _give_up(self) -> None:
        name = self._server.log.stem
        if not self._server.is_running():
            reason = f"{name} ended {self._restarts} times in a row, see {self._server.log}"
            raise StackError(reason)
        log.error("%s loses a model again and again; it goes on without it", name)
        self._is_degraded = True

    def _start_again(self, stopping: threading.Event) -> None:
        name = self._server.log.stem
        log.warning("%s ended, or lost a model; starting it again (%d)", name, self._restarts)
        self._server.stop()
        try:
            self._server.start(stopping)
        except (StackError, OSError) as error:
            if not self._always_retried:
                raise
            log.error("%s does not start, and is tried again: %s", name, error)  # noqa: TRY400
        self._is_away = False
        self._since = time.monotonic()
        if self._always_retried:
            pause = _PAUSE * 2 ** min(self._restarts, MAX_RESTARTS * 2)
            self._not_before = self._since + min(pause, _LONGEST_PAUSE)


def keep_running(
    servers: Sequence[Server],
    stopping: threading.Event,
    tell: Callable[[], None] = lambda: None,
    always_retried: Collection[Server] = (),
) -> None:
    """Look after servers that were started, until `stopping` is set.

    Args:
        tell: Called when one was started again, is away, or goes on without one of its models.
        retried: Without these the others go on. However often one ends, or does not start, it is
            tried again, after pauses that grow to a minute.

    Raises:
        StackError: another ended more than `MAX_RESTARTS` times in a row, or does not start again.
    """
    watched_servers = [_RestartedServer(server, server in always_retried) for server in servers]
    while not stopping.wait(_PAUSE):
        for each in watched_servers:
            if each.restart_if_needed(stopping):
                tell()
