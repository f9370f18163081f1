"""LPIPS as it was exported: images in, distance and map out, in two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..runtime.onnx import open_network
from ..zoo.artefact import Precision
from .pixels import HEADS, TRUNK

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What is compared of one image: five arrays, float32, (1, C, h, w).

    At 768x768 VGG16's take 275 MiB.
    """

    arrays: tuple[Array, ...]

    @property
    def nbytes(self) -> int:
        """Memory taken, bytes."""
        return sum(one.nbytes for one in self.arrays)


class LpipsNetwork:
    """Both graphs of an export.

    Args:
        folder: Of the export.

    Raises:
        ConfigError: this machine cannot compute in the precision, or a setting is malformed.
        MissingExtra: OpenVINO is needed and not installed.
    """

    def __init__(self, folder: Path, precision: Precision) -> None:
        self._trunk = open_network(folder / TRUNK, precision)
        self._heads = open_network(folder / HEADS, precision)

    def __call__(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Distance (B,) and map (B, 1, H, W) of images (B, 3, H, W)."""
        return self.compare(self.taps(a), self.taps(b), a)

    def taps(self, images: Array) -> list[Taps]:
        """The taps of each of the images (B, 3, H, W)."""
        ran = self._trunk(images)
        if len(images) == 1:
            return [Taps(tuple(ran))]
        # Copies: a slice would keep the whole batch in memory.
        return [Taps(tuple(t[i : i + 1].copy() for t in ran)) for i in range(len(images))]

    def compare(self, a: Sequence[Taps], b: Sequence[Taps], like: Array) -> tuple[Array, Array]:
        """Distance (B,) and map (B, 1, H, W) from the taps of as many images.

        Args:
            like: The images, for their size.
        """
        distance, where = self._heads(like, *_stacked(a), *_stacked(b))
        return distance, where


def _stacked(taps: Sequence[Taps]) -> list[Array]:
    if len(taps) == 1:
        return list(taps[0].arrays)
    return [np.concatenate(some) for some in zip(*(one.arrays for one in taps), strict=True)]
