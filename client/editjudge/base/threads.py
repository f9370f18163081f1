"""Threads that work for a request: one that has begun cannot be ended, so it is waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """Threads that note for which request each piece of work is done."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do it in a thread, for the request that asks."""
        job = super().submit(work, *args, **kwargs)
        if (jobs := _JOBS.get()) is not None:
            jobs.add(job)
            job.add_done_callback(jobs.discard)
        return job


@contextlib.asynccontextmanager
async def through() -> AsyncIterator[None]:
    """Leave the block when all threads that work for it are through, also where it was cancelled.

    What has not begun is not begun any more. So places that are given back behind this block are
    free: no picture of a caller who has gone is still being decoded.
    """
    jobs: set[Future[Any]] = set()
    before = _JOBS.set(jobs)
    try:
        yield
    finally:
        _JOBS.reset(before)
        await _ended(jobs)


async def _ended(jobs: set[Future[Any]]) -> None:
    cancelled: asyncio.CancelledError | None = None
    for job in [each for each in list(jobs) if not each.cancel()]:
        ended = _end_of(job)
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError as error:  # it lasts no longer than a picture takes
                cancelled = error
    if cancelled is not None:
        raise cancelled


def _end_of(job: Future[Any]) -> asyncio.Event:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    return ended


_JOBS: ContextVar[set[Future[Any]] | None] = ContextVar("jobs", default=None)
