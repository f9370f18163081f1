"""The exported graphs of LPIPS, and the preparation of their images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..runtime.onnx import open_network
from ..zoo.artefact import Precision

Array = NDArray[np.float32]
TRUNK, HEADS = "trunk.onnx", "heads.onnx"
BLACK = -1.0
# In float64 and rounded once, as the official package does it.
_SIGNED_LEVELS = (np.arange(256) / 127.5 - 1).astype(np.float32)
_STRETCHED_LEVELS = 2 * _SIGNED_LEVELS - 1


Taps = tuple[Array, ...]
"""The features of an image that LPIPS compares: five arrays, float32, (1, C, h, w).

VGG16's taps of a 768x768 image take 275 MiB.
"""


class LpipsNetwork:
    """Runs both graphs of an export.

    Args:
        folder: Folder of the export.

    Raises:
        ConfigError: this machine cannot compute in the precision, or a setting is malformed.
        MissingExtra: OpenVINO is needed and not installed.
    """

    def __init__(self, folder: Path, precision: Precision) -> None:
        self._trunk = open_network(folder / TRUNK, precision)
        self._heads = open_network(folder / HEADS, precision)

    def __call__(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Compute distance (B,) and map (B, 1, H, W) of images (B, 3, H, W)."""
        return self.compare(self.taps(a), self.taps(b), a)

    def taps(self, images: Array) -> list[Taps]:
        """Compute the taps of each of the images (B, 3, H, W)."""
        ran = self._trunk(images)
        if len(images) == 1:
            return [tuple(ran)]
        # Copies: a slice would keep the whole batch in memory.
        return [tuple(t[i : i + 1].copy() for t in ran) for i in range(len(images))]

    def compare(self, a: Sequence[Taps], b: Sequence[Taps], like: Array) -> tuple[Array, Array]:
        """Compute distance (B,) and map (B, 1, H, W) from the taps of B pairs of images.

        Args:
            like: Images of the same size; their pixels do not count.
        """
        distance, where = self._heads(like, *_stack_taps(a), *_stack_taps(b))
        return distance, where


def _stack_taps(taps: Sequence[Taps]) -> list[Array]:
    if len(taps) == 1:
        return list(taps[0])
    return [np.concatenate(some) for some in zip(*taps, strict=True)]


def to_signed(image: RGB) -> NDArray[np.float32]:
    """Convert an image for LPIPS: uint8 (H, W, 3) to float32 (3, H, W) in [-1, 1]."""
    return _SIGNED_LEVELS[image.transpose(2, 0, 1)]


def to_stretched(image: RGB, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Convert a region as Omni IIE Bench's official code does, on twice the correct range.

    Pixels in [-1, 1] are multiplied with the mask, and then treated as pixels in [0, 1] and
    mapped to [-1, 1] again.

    Args:
        image: RGB, uint8, (H, W, 3).
        mask: bool, (H, W), True in the region.

    Returns:
        float32, (3, H, W), in [-3, 1] within the region and -1 outside it.
    """
    return np.where(mask, _STRETCHED_LEVELS[image.transpose(2, 0, 1)], np.float32(BLACK))
