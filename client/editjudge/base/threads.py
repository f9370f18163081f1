"""Running blocking work in threads. A thread cannot be cancelled, so cancellation waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_thread(work: Callable[[*Ts], T], *args: *Ts, executor: Executor | None = None) -> T:
    """Run a function in a thread and return its result.

    If the caller is cancelled, work that has not begun is dropped, and work that has begun is
    waited for, so that no image of a caller who has gone is still being decoded.

    Args:
        executor: The pool of threads; None for the event loop's own.
    """
    job: Future[T] = Future()
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
    awaitable_job = asyncio.wrap_future(job)
    # A failure after its caller has gone is nobody's: asyncio would complain of it.
    awaitable_job.add_done_callback(lambda future: future.cancelled() or future.exception())
    try:
        return await asyncio.shield(awaitable_job)
    except asyncio.CancelledError:
        while not job.cancel() and not job.done():
            try:
                await asyncio.wait([awaitable_job])
            except asyncio.CancelledError:  # it lasts no longer than a picture takes
                continue
        raise
