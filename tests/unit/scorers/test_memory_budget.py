"""Work is let in while it fits a budget, in its order."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from editjudge.scorers.keypoints import MemoryBudget

from ...patience import patience


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
    ends = [threading.Event() for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        for size, end in zip((6, 4, 9, 1, 99), ends, strict=True):
            pool.submit(work.do, size, end)
            time.sleep(0.02)
        work.until(2)
        assert work.begun == [6, 4], "the small one behind does not overtake"
        ends[0].set()
        ends[1].set()
        work.until(4)
        assert work.begun == [6, 4, 9, 1], "more than there is waits until it is alone"
        ends[2].set()
        ends[3].set()
        work.until(5)
        ends[4].set()
    assert work.begun[-1] == 99


def test_one_that_fails_gives_its_turn_back() -> None:
    turns = MemoryBudget(10)
    with pytest.raises(RuntimeError, match="no"), turns.of(10):
        raise RuntimeError("no")
    with turns.of(10):
        pass


def test_never_more_at_once_than_there_is() -> None:
    work = Work(10)
    with ThreadPoolExecutor(8) as pool:
        done: list[Future[None]] = [pool.submit(work.do, 1 + i % 7) for i in range(100)]
    assert all(each.exception() is None for each in done)
    assert (len(work.begun), work.at_once) == (100, 0)
    assert work.most <= 10
