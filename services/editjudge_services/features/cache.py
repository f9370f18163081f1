"""Features of images already seen: several edits and several masks share one source."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..runtime.preprocess import Rule

Arrays: TypeAlias = "tuple[NDArray[np.float32], ...]"


class FeatureCache:
    """Keeps what networks said of the most recently used images, up to a size.

    Args:
        budget: Bytes of arrays that are kept; 0 keeps none.

    Attributes:
        hits: Images whose features were there.
        misses: Images that needed a forward pass.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[str, Arrays] = OrderedDict()
        self._size = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str) -> Arrays | None:
        """The arrays under a key, counted as a hit or a miss."""
        arrays = self._kept.get(key)
        if arrays is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return arrays

    def put(self, key: str, arrays: Arrays) -> None:
        """Keep arrays, and forget the least recently used ones beyond the budget."""
        self._size += _bytes(arrays) - _bytes(self._kept.pop(key, ()))
        self._kept[key] = arrays
        while self._size > self._budget:
            _, oldest = self._kept.popitem(last=False)
            self._size -= _bytes(oldest)


def _bytes(arrays: Arrays) -> int:
    return sum(each.nbytes for each in arrays)


def content_key(image: NDArray[Any], rule: Rule | None = None) -> str:
    """What the features of an image depend on: its pixels, and how they are resized."""
    digest = hashlib.sha256(f"{image.shape}{rule}".encode())
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()
