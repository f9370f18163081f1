"""What was used last, up to a size: features of images, rules of requests."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")


def count_bytes(arrays: tuple[NDArray[Any], ...]) -> int:
    """What arrays take in memory."""
    return sum(each.nbytes for each in arrays)


class BoundedCache(Generic[V]):
    """Keeps the most recently used values, up to a size. Not for several threads at once.

    Args:
        budget: Of the sizes of all values; 0 keeps none.

    Attributes:
        size: Of all values.
        hits: Values that were there.
        misses: Values that were not.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._values: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str) -> V | None:
        """The value of a key, counted as a hit or a miss."""
        if key not in self._values:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: str, value: V, size: int) -> None:
        """Keep a value, and forget the least recently used ones beyond the budget."""
        if key in self._values:
            self.size -= self._values.pop(key)[1]
        self._values[key] = value, size
        self.size += size
        while self.size > self._budget:
            _, (_, oldest) = self._values.popitem(last=False)
            self.size -= oldest


def make_content_key(image: NDArray[Any], rule: object = None) -> str:
    """What the features of an image depend on: its pixels, and how they are resized."""
    digest = hashlib.sha256(f"{image.shape}{rule}".encode())
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()
