"""Coroutines for callers that await nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def completed(judging: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, by an event loop of its own.

    Where a loop runs already (a notebook, a web server) the coroutine has a thread. An
    interruption (KeyboardInterrupt) cancels it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(judging)
    return _in_a_thread(judging)


def _in_a_thread(judging: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, by a loop in a thread of its own; an interruption cancels it."""
    ready = threading.Event()
    cancel: list[Callable[[], object]] = []

    async def watched() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        ready.set()
        return await judging

    with ThreadPoolExecutor(1, "editjudge.loop") as pool:
        future: Future[T] = pool.submit(lambda: asyncio.run(watched()))
        try:
            return future.result()
        except BaseException:  # an interruption of this thread: the other must not judge on
            if not future.done():
                ready.wait()
                for interrupt in cancel:
                    interrupt()
            raise
