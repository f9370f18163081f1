"""Many edits side by side, a bounded number at a time; what fails costs only its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from ..base.errors import InputError

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 16
"""In progress by default: their pictures are in memory; calls have limits of their own."""


async def as_done(
    things: Iterable[T],
    work: Callable[[int, T], Coroutine[Any, Any, R]],
    at_once: int = AT_ONCE,
) -> AsyncGenerator[tuple[int, R], None]:
    """Work on what an iterable gives, which is asked for no more than can begin.

    Leaving it, or being cancelled, cancels what is in progress.

    Args:
        work: Gets the place, from 0, and what is there.
        at_once: How many are in progress at most.

    Yields:
        Place and result, each as soon as it is there.

    Raises:
        InputError: `at_once` is below 1.
    """
    if at_once < 1:
        raise InputError("concurrency", f"{at_once} edits at once", "give 1 or more")
    places: dict[asyncio.Task[R], int] = {}
    remaining = enumerate(things)
    more = True
    try:
        while True:
            while more and len(places) < at_once:
                following = next(remaining, None)
                if following is None:
                    more = False
                else:
                    place, each = following
                    places[asyncio.ensure_future(work(place, each))] = place
            if not places:
                return
            done, _ = await asyncio.wait(places, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=places.__getitem__):
                place = places.pop(task)
                yield place, task.result()
    finally:
        for task in places:
            task.cancel()
        await asyncio.gather(*places, return_exceptions=True)
