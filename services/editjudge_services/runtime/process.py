"""What all local servers are started with."""

from __future__ import annotations

import ctypes
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence

from editjudge.base.errors import StackError

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ports(chosen: Sequence[int]) -> list[int]:
    """The ports asked for on loopback, free ones where 0 is; all different.

    Raises:
        StackError: one that was asked for is taken.
    """
    # Held open together, so that the free ones are different.
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in chosen]
    free = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    for port in filter(None, chosen):
        try:
            socket.create_server((LOOPBACK, port)).close()
        except OSError as error:
            raise StackError(
                f"port {port} is taken", "choose another, or 0 for a free one"
            ) from error
    return [port or other for port, other in zip(chosen, free, strict=True)]


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent() -> None:
    """As `die_with_parent`, politely: it has processes of its own to end."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def asked(url: str, data: bytes | None = None) -> bytes | None:
    """What our own server says, without a proxy; None where it does not answer, or refuses."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, data, timeout=5) as reply:
            return bytes(reply.read())
    except (urllib.error.URLError, OSError):
        return None
