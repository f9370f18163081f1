"""A cache of the most recently used values, with a limit on their total size."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")
T = TypeVar("T")
A = TypeVar("A", bound="tuple[NDArray[Any], ...]")


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
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop the least recently used value; there must be one."""
        _, (_, size) = self._values.popitem(last=False)
        self.size -= size


def compute_missing(
    cache: BoundedCache[A], keys: Sequence[str], inputs: Sequence[T], compute: Callable[[list[T]], Iterable[A]]
) -> list[A]:
    """Look up a value for each key; compute and cache those that are missing.

    Args:
        inputs: What each value is computed from; equal keys have equal inputs.
        compute: Computes the values of several inputs at once.
    """
    values: dict[str, A] = {}
    new: dict[str, T] = {}
    for key, one in zip(keys, inputs, strict=True):
        if key in values or key in new:
            cache.hits += 1
        elif (value := cache.get(key)) is not None:
            values[key] = value
        else:
            new[key] = one
    for key, value in zip(new, compute(list(new.values())) if new else (), strict=True):
        values[key] = value
        cache.put(key, value, sum(array.nbytes for array in value))
    return [values[key] for key in keys]


def make_content_key(image: NDArray[Any], rule: object = None) -> str:
    """The digest of an image's shape and pixels, and of the rule by which it is resized."""
    digest = hashlib.sha256(f"{image.shape}{rule}".encode())
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()
