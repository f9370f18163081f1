"""Running blocking work in threads. A thread cannot be cancelled, so cancellation waits for it."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from threading import Condition, Lock
from typing import ParamSpec, TypeVar, TypeVarTuple

from .fair_queue import TEAM, FairQueue, Turn

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_MOST_THREADS = 64


class FairThreads(ThreadPoolExecutor):
    """Threads at which teams take turns (`FairQueue`), by the time that their work takes.

    Work belongs to the team of the task or thread that submits it (`TEAM`). What runs cannot be
    interrupted, so a team of which nothing runs has a thread at once, beside those that are busy.

    Args:
        count: How many threads are busy at a time, unless there are more teams; None for four more
            than cores.

    Attributes:
        count: Likewise; it may be changed.
    """

    def __init__(self, count: int | None = None, name: str = "editjudge") -> None:
        super().__init__(_MOST_THREADS, name)
        self.count = count or min(32, (os.cpu_count() or 1) + 4)
        self._busy = 0
        self._order: FairQueue[Callable[[], None]] = FairQueue(time.monotonic)
        self._lock = Lock()

    def submit(self, work: Callable[P, T], /, *args: P.args, **more: P.kwargs) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        job: Future[T] = Future()
        run = partial(_run, [job], partial(work, *args, **more))
        with self._lock:
            self._order.push(TEAM.get(), run)
            self._begin_turns()
        return job

    def _begin_turns(self) -> None:
        while self._busy < _MOST_THREADS:
            if (item := self._order.pop(may_share=self._busy < self.count)) is None:
                return
            team, run = item
            self._busy += 1
            super().submit(self._take_turn, self._order.begin(team), run)

    def _take_turn(self, turn: Turn, run: Callable[[], None]) -> None:
        run()
        with self._lock:
            self._busy -= 1
            self._order.end(turn)
            self._begin_turns()


async def in_thread(work: Callable[[*Ts], T], *args: *Ts, executor: Executor | None = None) -> T:
    """Run a function in a thread and return its result.

    If the caller is cancelled, work that has not begun is dropped, and work that has begun is
    waited for, so that no image of a caller who has gone is still being decoded.

    Args:
        executor: The pool of threads; None for the event loop's own.
    """
    job: Future[T] = Future()
    run = partial(_run, [job], partial(copy_context().run, work, *args))
    # The job itself is not awaited: that would wake the event loop a second time.
    end = asyncio.get_running_loop().run_in_executor(executor, run)
    try:
        await asyncio.shield(end)
        return job.result()
    except asyncio.CancelledError:
        while not job.cancel() and not job.done():
            try:
                await asyncio.wait([end])
            except asyncio.CancelledError:  # it lasts no longer than a picture takes
                continue
        raise
    finally:
        del job  # see `_run`


def _run(box: list[Future[T]], work: Callable[[], T]) -> None:
    """Do the work of a job, unless it was cancelled.

    The job is taken out of its box: an error keeps the frames that it passed through, and one of
    these that held the job would keep both, and what was worked on, until garbage is collected.
    """
    job = box.pop()
    if not job.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is told to who asked
        job.set_exception(error)
    else:
        job.set_result(result)
    finally:
        del job


class MemoryBudget:
    """Lets threads work while their memory fits a budget, first come, first served.

    A thread that needs more than the whole budget works beside those that fit it, one such at a
    time: it may take minutes, and others are not to wait for it.

    Args:
        budget: How much all threads that fit it may hold at once, for example in bytes.
    """

    def __init__(self, budget: int) -> None:
        self._budget = self._free = budget
        self._first = Lock()
        self._large = Lock()
        self._room = Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Wait until the budget has room, and hold it until the block ends.

        Args:
            size: How much the block needs.
        """
        if size > self._budget:
            with self._large:
                yield
            return
        with self._first, self._room:  # who waits for room holds up those behind
            self._room.wait_for(lambda: self._free >= size)
            self._free -= size
        try:
            yield
        finally:
            with self._room:
                self._free += size
                self._room.notify_all()
