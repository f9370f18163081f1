"""A cache of the most recently used values, with a limit on their total size."""

import hashlib
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")


def count_bytes(arrays: tuple[NDArray[Any], ...]) -> int:
    """The bytes that arrays take in memory."""
    return sum(each.nbytes for each in arrays)


class BoundedCache(Generic[V]):
    """Holds the most recently used values up to a total size; not safe for several threads.

    Args:
        budget: The largest total size; 0 holds nothing.

    Attributes:
        size: The total size of all values.
        hits: How many lookups found a value.
        misses: How many lookups found none.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str) -> V | None:
        """Look up a key; counts a hit or a miss."""
        if key not in self._values:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: V, size: int) -> None:
        """Store a value, and drop the least recently used ones beyond the budget."""
        if key in self._values:
            self.size -= self._values.pop(key)[1]
        self._values[key] = value, size
        self.size += size
        while self.size > self._budget:
            _, (_, oldest) = self._values.popitem(last=False)
            self.size -= oldest


def make_content_key(image: NDArray[Any], rule: object = None) -> str:
    """The digest of an image's shape and pixels, and of the rule by which it is resized."""
    digest = hashlib.sha256(f"{image.shape}{rule}".encode())
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()
