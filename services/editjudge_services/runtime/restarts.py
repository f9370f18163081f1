"""Restarts servers that end or lose one of their models."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence

from editjudge.base.errors import StackError

from .process import Server

log = logging.getLogger(__name__)
MAX_RESTARTS = 5
_HEALTHY_SECONDS = 60.0
_CHECK_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 60.0


class _RestartedServer:
    """A running server with the state of its restarts.

    Args:
        server: A started server.
        is_dispensable: Whether the other servers work without it, so that the number of its
            restarts is not limited.
    """

    def __init__(self, server: Server, is_dispensable: bool) -> None:
        self._server = server
        self._is_dispensable = is_dispensable
        self._restarts = 0
        self._is_degraded = self._is_down = False
        self._since = time.monotonic()
        self._not_before = 0.0

    def restart_if_needed(self, stopping: threading.Event) -> bool:
        """Restart the server if it ended or lost a model; return whether its state changed."""
        now = time.monotonic()
        if self._server.is_healthy() or (self._is_degraded and self._server.is_running()):
            if now - self._since > _HEALTHY_SECONDS:
                self._restarts = 0
            return False
        if now < self._not_before:
            news, self._is_down = not self._is_down, True
            return news
        self._restarts += 1
        if self._restarts > MAX_RESTARTS and not self._is_dispensable:
            self._give_up()
        else:
            self._start_again(stopping)
        return True

    def _give_up(self) -> None:
        name = self._server.log.stem
        if not self._server.is_running():
            reason = f"{name} ended {self._restarts} times in a row, see {self._server.log}"
            raise StackError(reason)
        what = "%s lost a model %d times and runs on without it. Read %s, then start the services again."
        log.error(what, name, self._restarts, self._server.log)
        self._is_degraded = True

    def _start_again(self, stopping: threading.Event) -> None:
        name = self._server.log.stem
        what = "%s ended or lost a model; restart %d follows. If that repeats, read %s."
        log.warning(what, name, self._restarts, self._server.log)
        self._server.stop()
        try:
            self._server.start(stopping)
        except (StackError, OSError) as error:
            if not self._is_dispensable:
                raise
            what = "%s did not start: %s. The next attempt follows by itself."
            log.error(what, name, error)  # noqa: TRY400 - one line
        self._is_down = False
        self._since = time.monotonic()
        if self._is_dispensable:
            pause = _CHECK_SECONDS * 2 ** min(self._restarts, MAX_RESTARTS * 2)
            self._not_before = self._since + min(pause, _MAX_PAUSE_SECONDS)


def keep_running(
    servers: Sequence[Server],
    stopping: threading.Event,
    on_change: Callable[[], None] = lambda: None,
    dispensable: Collection[Server] = (),
) -> None:
    """Watch running servers and restart them if needed, until `stopping` is set.

    A server is restarted at most `MAX_RESTARTS` times in a row; a minute of healthy running resets
    the count. A server that is still running at the limit, but without a model, is left running.

    Args:
        on_change: Called after a server was restarted, was found to be down, or was left running
            without a model.
        dispensable: Servers that the others work without. Their restarts are not limited, and
            follow pauses that grow to a minute.

    Raises:
        StackError: a server that is not dispensable reached the limit or failed to start.
    """
    watched_servers = [_RestartedServer(server, server in dispensable) for server in servers]
    while not stopping.wait(_CHECK_SECONDS):
        for each in watched_servers:
            if each.restart_if_needed(stopping):
                on_change()
