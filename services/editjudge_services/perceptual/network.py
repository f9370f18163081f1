"""The exported graphs of LPIPS, and the preparation of their images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..runtime.onnx import open_network
from ..zoo.artefact import Precision

Array = NDArray[np.float32]
TRUNK, HEADS = "trunk.onnx", "layers.onnx"
BLACK = -1.0
_STRIDE, _HALO = 16, 96
# In float64 and rounded once, as the official package does it.
_SIGNED_LEVELS = (np.arange(256) / 127.5 - 1).astype(np.float32)
_STRETCHED_LEVELS = 2 * _SIGNED_LEVELS - 1


Layers = Sequence[Array]
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
        """Compute distance (B,) and map (B, H, W) of images (B, 3, H, W)."""
        layers = self.compare(self.taps(a), self.taps(b))
        distances = [measure_distance([one[index] for one in layers]) for index in range(len(a))]
        size = a.shape[2], a.shape[3]
        maps = [draw_map([one[index] for one in layers], size) for index in range(len(a))]
        return np.array(distances, np.float32), np.stack(maps)

    def taps(self, images: Array) -> list[Taps]:
        """Compute the taps of each of the images (B, 3, H, W)."""
        ran = self._trunk(images)
        if len(images) == 1:
            return [tuple(ran)]
        # Copies: a slice would keep the whole batch in memory.
        return [tuple(t[i : i + 1].copy() for t in ran) for i in range(len(images))]

    def compare(self, a: Sequence[Taps], b: Sequence[Taps]) -> list[Array]:
        """Compute the weighted differences at each tap, (B, h, w), from B pairs of taps."""
        return [layer[:, 0] for layer in self._heads(*_stack_taps(a), *_stack_taps(b))]


def measure_distance(layers: Layers) -> float:
    """Compute the distance from the weighted differences (h, w) at each tap."""
    return sum(float(layer.mean(dtype=float)) for layer in layers)


def draw_map(layers: Layers, size: tuple[int, int]) -> Array:
    """Compute the map, float32 of `size`: each tap enlarged as torch's bilinear `interpolate` does.

    Its mean is close to the distance, not equal.
    """
    drawing = np.zeros(size, np.float32)
    for layer in layers:
        (top, bottom, down), (left, right, across) = map(_find_neighbours, layer.shape, size)
        rows = layer[top] * (1 - down)[:, None] + layer[bottom] * down[:, None]
        drawing += rows[:, left] * (1 - across) + rows[:, right] * across
    return drawing


def _find_neighbours(count: int, size: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Find the two cells, of `count`, between which each of `size` pixels lies, and how far."""
    place = np.maximum((np.arange(size) + 0.5) * count / size - 0.5, 0)
    first = place.astype(np.intp)
    return first, np.minimum(first + 1, count - 1), (place - first).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of one axis of a picture, and the pixels that the network needs to see for it.

    Attributes:
        start, stop: The part, pixels; a multiple of 16 but for the picture's end.
        first, last: What is shown to the network.
    """

    start: int
    stop: int
    first: int
    last: int

    def own(self, stride: int, count: int) -> slice:
        """The cells of a tap of this tile that belong to the part, of `count`."""
        start = (self.start - self.first) // stride
        return slice(start, count if self.stop == self.last else (self.stop - self.first) // stride)


def cut_axis(size: int, side: int) -> list[Tile]:
    """Cut an axis of `size` pixels into parts of which the network sees about `side` each.

    The last taps of both trunks see at most 90 pixels to either side of their cells of 16 pixels,
    so that parts give the taps of the whole but for rounding.
    """
    parts = 1 if size <= side else math.ceil(size / (side - 2 * _HALO))
    cuts = [_STRIDE * round(size * index / parts / _STRIDE) for index in range(parts)] + [size]
    return [Tile(start, stop, max(0, start - _HALO), min(size, stop + _HALO)) for start, stop in pairwise(cuts)]


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
