"""What all local servers are started with."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence

from editjudge.base.errors import StackError

LOOPBACK = "127.0.0.1"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ports(chosen: Sequence[int], hosts: Sequence[str] = ()) -> list[int]:
    """The ports asked for, free ones where 0 is; all different.

    Args:
        hosts: Where each is listened at, as numbers; all on loopback by default.

    Raises:
        StackError: one that was asked for is taken, or nobody can listen there.
    """
    with contextlib.ExitStack() as held:
        # Held open together, so that the free ones are different.
        pairs = zip(hosts or [LOOPBACK] * len(chosen), chosen, strict=True)
        sockets = [held.enter_context(_listening(host, port)) for host, port in pairs]
        return [listening.getsockname()[1] for listening in sockets]


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            told, mend = f"port {port} is taken", "choose another, or 0 for a free one"
        else:
            told, mend = f"{host}:{port}: {error.strerror}", "choose an address of this machine"
        raise StackError(told, mend) from error


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
