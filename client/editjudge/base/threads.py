"""Threads that work for a request: one that has begun cannot be ended, so it is waited for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(work: Callable[[*Ts], T], *args: *Ts, executor: Executor | None = None) -> T:
    """Do it in a thread, for the request that asks; see `through`.

    It is for work on pictures and whatever else takes much. What others may be waiting for too is
    no request's: it takes `asyncio.to_thread`.

    Args:
        executor: Has the threads; None for the usual one.
    """
    job: Future[T] = Future()
    if (jobs := _JOBS.get()) is not None:
        jobs.add(job)
        job.add_done_callback(jobs.discard)
    context = copy_context()

    def run() -> None:
        if not job.set_running_or_notify_cancel():
            return
        try:
            result = context.run(work, *args)
        except BaseException as error:  # noqa: BLE001 - it is told to who asked
            job.set_exception(error)
        else:
            job.set_result(result)

    asyncio.get_running_loop().run_in_executor(executor, run)
    return await asyncio.wrap_future(job)


@contextlib.asynccontextmanager
async def through() -> AsyncIterator[None]:
    """Leave the block when all threads that work for it are through, also where it was cancelled.

    What has not begun is not begun any more. So places that are given back behind this block are
    free: no picture of a caller who has gone is still being decoded. These are the threads of
    `in_thread`.
    """
    jobs: set[Future[Any]] = set()
    before = _JOBS.set(jobs)
    try:
        yield
    finally:
        _JOBS.reset(before)
        await _ended(jobs)


@contextlib.contextmanager
def for_others() -> Iterator[None]:
    """Begin tasks that others wait for too: their threads are not those of who asks first."""
    before = _JOBS.set(None)
    try:
        yield
    finally:
        _JOBS.reset(before)


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
