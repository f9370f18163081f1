"""What alignments share: keypoints of a reference, found once, and a budget of memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition, Lock
from typing import TypeAlias

from ..base.images import Image
from ..pixels import Keypoints, find_keypoints

_Key: TypeAlias = "tuple[str, tuple[int, int]]"


class KeypointCache:
    """Keypoints of pictures, by their digest and size; those asked for last are kept.

    Threads that ask for the same picture share one search. It holds for all event loops of the
    process.

    Args:
        budget: Bytes that are kept at most; what is being searched comes on top.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._futures: dict[_Key, Future[Keypoints]] = {}
        self._lock = Lock()

    def of(self, image: Image) -> Future[Keypoints]:
        """A picture's keypoints: searched here and now, unless they are kept, or on their way.

        Those on their way are not waited for, so that a thread can do something else first.
        """
        key = (image.digest, image.size)
        with self._lock:
            earlier = self._futures.pop(key, None)
            future = self._futures[key] = Future() if earlier is None else earlier
        if earlier is None:
            self._search(image, key, future)
        return future

    @property
    def nbytes(self) -> int:
        """What is kept takes in memory."""
        return sum(future.result().nbytes for future in self._futures.values() if future.done())

    def _search(self, image: Image, key: _Key, future: Future[Keypoints]) -> None:
        try:
            sought = find_keypoints(image.rgb)
        except BaseException as error:
            with self._lock:
                del self._futures[key]
            future.set_exception(error)
            raise
        with self._lock:
            future.set_result(sought)
            self._drop_beyond_budget()

    def _drop_beyond_budget(self) -> None:
        free = self._budget - self.nbytes
        for key in [key for key, future in self._futures.items() if future.done()]:
            if free >= 0:
                return
            free += self._futures.pop(key).result().nbytes


class MemoryBudget:
    """Lets threads work while what they take fits a budget, first come, first served.

    What takes more than the whole budget is let in alone.

    Args:
        budget: How much may be taken at once, for example bytes.
    """

    def __init__(self, budget: int) -> None:
        self._budget = self._free = budget
        self._first = Lock()
        self._room = Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Wait for a turn, and have it until the block ends.

        Args:
            size: How much the work takes.
        """
        size = min(size, self._budget)
        with self._first, self._room:  # who waits for room holds up those behind
            self._room.wait_for(lambda: self._free >= size)
            self._free -= size
        try:
            yield
        finally:
            with self._room:
                self._free += size
                self._room.notify_all()
