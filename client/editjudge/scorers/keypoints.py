"""A cache of keypoints, which alignments in several threads share."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import TypeAlias

from ..base.images import RGB, Image
from ..pixels.alignment import Keypoints, find_keypoints

_Key: TypeAlias = "tuple[str, tuple[int, int]]"


class KeypointCache:
    """A cache of images' keypoints, by digest and size; the least recently used go first.

    Threads that need the same image share one search, across all event loops of the process.

    Args:
        budget: Bytes that the cache holds at most; searches in progress come on top.
        find: Finds them; by default `find_keypoints`.
    """

    def __init__(self, budget: int, find: Callable[[RGB], Keypoints] | None = None) -> None:
        self._budget = budget
        self._find = find
        self._futures: dict[_Key, Future[Keypoints]] = {}
        self._lock = Lock()

    def of(self, image: Image) -> Future[Keypoints]:
        """Return a future of an image's keypoints, and search them in this thread if nobody has.

        A search in another thread is not waited for, so that this one can work meanwhile.
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
        """The memory that the cached keypoints take, in bytes."""
        return sum(future.result().nbytes for future in self._futures.values() if future.done())

    def _search(self, image: Image, key: _Key, future: Future[Keypoints]) -> None:
        try:
            sought = (self._find or find_keypoints)(image.rgb)
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
