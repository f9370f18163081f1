"""Work is let in while it fits a budget, in its order."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from editjudge.base.threads import MemoryBudget

from ...patience import patience, wait_until


class Work:
    """What has begun, until it is told to end."""

    def __init__(self, budget: int) -> None:
        self.turns = MemoryBudget(budget)
        self.begun: list[int] = []
        self.most = self.at_once = 0
        self._lock = threading.Lock()

    def do(self, size: int, end: threading.Event | None = None) -> None:
        with self.turns.of(size):
            with self._lock:
                self.begun.append(size)
                self.at_once += size
                self.most = max(self.most, self.at_once)
            if end is None:
                time.sleep(0.001)
            else:
                end.wait(patience(5))
            with self._lock:
                self.at_once -= size

    def until(self, count: int) -> None:
        """Wait until so many have begun, and a little longer."""
        end = time.monotonic() + patience(5)
        while len(self.begun) < count and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(0.01)


def test_what_fits_is_let_in_and_the_rest_in_its_order() -> None:
    work = Work(10)
    ends = [threading.Event() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for count, (size, end) in enumerate(zip((5, 2, 9), ends, strict=False), 1):
            pool.submit(work.do, size, end)
            work.until(min(count, 2))
        wait_until(work.turns._first.locked)  # the largest waits for room
        pool.submit(work.do, 3, ends[3])
        time.sleep(0.02)
        assert work.begun == [5, 2], "the small one behind does not overtake, though there is room for it"
        for end in ends:
            end.set()
        work.until(4)
    assert work.begun == [5, 2, 9, 3]


def test_nobody_waits_for_what_does_not_fit_but_another_such() -> None:
    work = Work(10)
    ends = [threading.Event() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for size, end in zip((98, 99, 10), ends, strict=True):
            pool.submit(work.do, size, end)
            work.until(1)
        work.until(2)
        assert work.begun == [98, 10], "the largest waits for the one that is like it"
        for end in ends:
            end.set()
    assert work.begun == [98, 10, 99]


def test_one_that_fails_gives_its_turn_back() -> None:
    turns = MemoryBudget(10)
    for size in (10, 11):
        with pytest.raises(RuntimeError, match="no"), turns.of(size):
            raise RuntimeError("no")
        with turns.of(size):
            pass


def test_never_more_at_once_than_there_is() -> None:
    work = Work(10)
    with ThreadPoolExecutor(8) as pool:
        done: list[Future[None]] = [pool.submit(work.do, 1 + i % 7) for i in range(100)]
    assert all(each.exception() is None for each in done)
    assert (len(work.begun), work.at_once) == (100, 0)
    assert work.most <= 10
