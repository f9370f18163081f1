"""Features of images already seen: several edits and several masks share one source."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..runtime.preprocess import Rule


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What a network says of one image.

    Attributes:
        embedding: Of the whole image, float32, (D,), not normalised.
        patches: Last-layer patch tokens, float32, (N, E), row by row; None where nobody
            can ask for a region of them.
    """

    embedding: NDArray[np.float32]
    patches: NDArray[np.float32] | None

    @property
    def nbytes(self) -> int:
        """Memory taken, bytes."""
        return self.embedding.nbytes + (0 if self.patches is None else self.patches.nbytes)


class Sized(Protocol):
    """Anything that tells what memory it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes."""


F = TypeVar("F", bound=Sized)


class FeatureCache(Generic[F]):
    """Keeps the most recently used features, up to a size.

    Args:
        budget: Bytes of features kept; 0 keeps none.

    Attributes:
        hits: Images whose features were there.
        misses: Images that needed a forward pass.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[str, F] = OrderedDict()
        self._size = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: str) -> F | None:
        """The features under a key, counted as a hit or a miss."""
        features = self._kept.get(key)
        if features is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return features

    def put(self, key: str, features: F) -> None:
        """Keep features, and forget the least recently used ones beyond the budget."""
        previous = self._kept.pop(key, None)
        self._size += features.nbytes - (previous.nbytes if previous else 0)
        self._kept[key] = features
        while self._size > self._budget:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.nbytes


def content_key(image: NDArray[Any], rule: Rule | None = None) -> str:
    """What the features of an image depend on: its pixels, and how they are resized."""
    digest = hashlib.sha256(f"{image.shape}{rule}".encode())
    digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()
