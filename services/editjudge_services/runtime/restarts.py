"""Restarts of servers: one that ends, or loses one of its models, is started again."""

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
    """A server, and the state of its restarts.

    Args:
        server: A server that was started.
        has_no_limit: Whether it is restarted however often it ends, since the others can do
            without it.
    """

    def __init__(self, server: Server, has_no_limit: bool) -> None:
        self._server = server
        self._has_no_limit = has_no_limit
        self._restarts = 0
        self._is_degraded = self._is_away = False
        self._since = time.monotonic()
        self._not_before = 0.0

    def restart_if_needed(self, stopping: threading.Event) -> bool:
        """Restart the server if it ended or lost a model; returns whether its state changed."""
        now = time.monotonic()
        if self._server.is_healthy() or (self._is_degraded and self._server.is_running()):
            if now - self._since > _HEALTHY_SECONDS:
                self._restarts = 0
            return False
        if now < self._not_before:
            news, self._is_away = not self._is_away, True
            return news
        self._restarts += 1
        if self._restarts > MAX_RESTARTS and not self._has_no_limit:
            self._give_up()
        else:
            self._start_again(stopping)
        return True

    def _give_up(self) -> None:
        name = self._server.log.stem
        if not self._server.is_running():
            reason = f"{name} ended {self._restarts} times in a row, see {self._server.log}"
            raise StackError(reason)
        log.error("%s lost a model %d times; it goes on without it", name, self._restarts)
        self._is_degraded = True

    def _start_again(self, stopping: threading.Event) -> None:
        name = self._server.log.stem
        log.warning("%s ended, or lost a model; starting it again (%d)", name, self._restarts)
        self._server.stop()
        try:
            self._server.start(stopping)
        except (StackError, OSError) as error:
            if not self._has_no_limit:
                raise
            log.error("%s did not start and will be tried again: %s", name, error)  # noqa: TRY400
        self._is_away = False
        self._since = time.monotonic()
        if self._has_no_limit:
            pause = _PAUSE * 2 ** min(self._restarts, MAX_RESTARTS * 2)
            self._not_before = self._since + min(pause, _LONGEST_PAUSE)


def keep_running(
    servers: Sequence[Server],
    stopping: threading.Event,
    on_change: Callable[[], None] = lambda: None,
    without_limit: Collection[Server] = (),
) -> None:
    """Watch servers that were started, and restart them, until `stopping` is set.

    A server that ran for a minute has its full number of restarts again. One that still runs but
    loses a model again and again goes on without the model.

    Args:
        on_change: Called when a server was restarted, is down, or goes on without a model.
        without_limit: Servers that the others can do without. They are restarted however often
            they end or fail to start, after pauses that grow to a minute.

    Raises:
        StackError: another server ended more than `MAX_RESTARTS` times in a row, or did not start
            again.
    """
    watched_servers = [_RestartedServer(server, server in without_limit) for server in servers]
    while not stopping.wait(_PAUSE):
        for each in watched_servers:
            if each.restart_if_needed(stopping):
                on_change()
