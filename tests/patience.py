"""How long tests wait for what takes long on a busy machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

IDLE_LIMIT = 120.0
"""Seconds that a test may take on an idle machine."""


def patience(seconds: float) -> float:
    """What is to be waited where an idle machine needs at most `seconds`: more under load."""
    return seconds * (1.0 + os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], object], seconds: float = 20.0, pause: float = 0.02) -> None:
    """Block until a condition holds; a test that waits too long fails."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience(seconds), "waited too long"
        time.sleep(pause)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """`wait_until` that lets the event loop go on."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience(seconds), "waited too long"
        await asyncio.sleep(0.01)
