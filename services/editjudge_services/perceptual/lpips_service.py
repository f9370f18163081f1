"""LPIPS behind Triton: role `lpips`, models `lpips_vgg` and `lpips_alex`.

DISTANCE is FP32[1], 0 or more and mostly below 1, lower is more alike (Zhang et al. 2018,
arXiv:1801.03924, v0.1 of the heads):

- without a MASK, of the whole images at the size they come in;
- with `region` `weight` the mean, over the region, of the map of the whole images: the network
  still sees the rest, but the rest does not count;
- with `region` `zero` of the images with everything outside the region black, averaged over
  the whole picture as Omni IIE Bench's text has it: a small region makes a small number;
- with `region` `stretched` likewise, on the input range of its official code (see
  `to_stretched`).

The taps of IMAGE_A are cached, since several edits are compared with one target, and several
regions of `weight` with one source.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from editjudge.base.contracts import LPIPS
from editjudge.base.errors import Abstention, ConfigError

from ..runtime.cache import BoundedCache, compute_missing, make_content_key
from ..runtime.onnx import ENGINES, ON_GPU, check_device
from ..runtime.preprocess import black_out
from ..runtime.serving import load_declared_artefact
from ..runtime.specialist import BadRequest, Outputs, Request, Specialist
from .network import (
    HEADS,
    TRUNK,
    Array,
    Layers,
    LpipsNetwork,
    Taps,
    cut_axis,
    draw_map,
    measure_distance,
    to_signed,
    to_stretched,
)

CACHE_MIB = "EDITJUDGE_LPIPS_CACHE_MIB"
"""Environment variable: MiB of taps that each model caches, by default 1024, enough for three
regions of one target of 768x768."""

# VGG16 has 64 channels at full size, and more pairs at once are no faster. A picture of more pixels
# than a square of this side is compared in parts, so that memory does not grow with it.
_PIXELS_AT_ONCE = 768 * 768
_SIDE = 1024


_Keys: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two images of one size, float32 (3, H, W); `weights`, bool (H, W), selects a region."""

    a: NDArray[np.float32]
    b: NDArray[np.float32]
    weights: NDArray[np.bool_] | None = None

    @property
    def keys(self) -> _Keys:
        """The cache keys of both images."""
        return make_content_key(self.a), make_content_key(self.b)


class LpipsSpecialist(Specialist):
    """Base class of LPIPS with either trunk.

    Attributes:
        smallest: Fewest pixels of the shorter side from which the last layer has an output.
        strides: Pixels of the image between two cells of each tap.
        cache: Taps of recent first images.
    """

    contract = LPIPS
    packages = ("numpy", "pillow")
    engines = ENGINES
    on_gpu = ON_GPU
    # A pair of 768x768 takes seconds on a processor, and requests come three at a time.
    queue_seconds = 300.0
    smallest: ClassVar[int]
    strides: ClassVar[tuple[int, ...]]

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load the declared export and run it once.

        Raises:
            ConfigError: the export is absent, or not the declared one.
        """
        artefact = load_declared_artefact(self.entry, parameters)
        if not {TRUNK, HEADS} <= artefact.files.keys():
            fix = f"run: editjudge models export {self.entry}"
            raise ConfigError(f"{self.entry} was exported by another version", fix)
        check_device(artefact)
        self._network = LpipsNetwork(artefact.folder, artefact.precision)
        self.cache: BoundedCache[Taps] = BoundedCache(int(os.environ.get(CACHE_MIB, "1024")) << 20)
        blank = to_signed(np.zeros((self.smallest, self.smallest, 3), dtype=np.uint8))[None]
        self._network(blank, blank)

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Compare each pair; pairs of one size run together, equal pairs once.

        Returns:
            For each request DISTANCE, or Abstention of kind `degenerate` where the mask
            selects nothing.

        Raises:
            BadRequest: the images, or a mask and its images, differ in size, or they are
                smaller than the network can see.
        """
        read = [self._pair(one) for one in batch]
        pairs = {index: pair for index, pair in enumerate(read) if isinstance(pair, _Pair)}
        alike: dict[_Keys, list[int]] = defaultdict(list)
        for index, pair in pairs.items():
            alike[pair.keys].append(index)
        answers: dict[int, Outputs] = {}
        for keys in _group_runs({key: pairs[same[0]].a.shape for key, same in alike.items()}):
            ran = self._compare(keys, [pairs[alike[key][0]] for key in keys])
            for key, layers in zip(keys, ran, strict=True):
                for index in alike[key]:
                    value = _distance_in_region(layers, pairs[index].weights)
                    answers[index] = {"DISTANCE": np.array([value], dtype=np.float32)}
        return [one if isinstance(one, Abstention) else answers[i] for i, one in enumerate(read)]

    def _pair(self, request: Request) -> _Pair | Abstention:
        a, b = request.tensors["IMAGE_A"], request.tensors["IMAGE_B"]
        mask = request.tensors.get("MASK")
        if a.shape != b.shape:
            raise BadRequest(f"IMAGE_A is {_format_size(a)}, but IMAGE_B is {_format_size(b)}")
        if min(a.shape[:2]) < self.smallest:
            raise BadRequest(f"IMAGE_A is {_format_size(a)}; the sides must have {self.smallest} pixels")
        if mask is None:
            return _Pair(to_signed(a), to_signed(b))
        if mask.shape != a.shape[:2]:
            raise BadRequest(f"MASK is {_format_size(mask)}, but IMAGE_A is {_format_size(a)}")
        if not mask.any():
            return Abstention("degenerate", "the mask is empty")
        match request.parameters["region"]:
            case "zero":
                return _Pair(to_signed(black_out(a, mask)), to_signed(black_out(b, mask)))
            case "stretched":
                return _Pair(to_stretched(a, mask), to_stretched(b, mask))
        return _Pair(to_signed(a), to_signed(b), mask)

    def _compare(self, keys: Sequence[_Keys], pairs: Sequence[_Pair]) -> list[Layers]:
        """Compute the differences (h, w) at each tap of pairs of one size."""
        height, width = pairs[0].a.shape[1:]
        if height * width > _SIDE**2:
            return [self._compare_parts(pair, height, width) for pair in pairs]
        layers = self._compare_whole([a for a, _ in keys], pairs)
        return [[layer[index] for layer in layers] for index in range(len(pairs))]

    def _compare_whole(self, keys: Sequence[str], pairs: Sequence[_Pair]) -> list[Array]:
        taps = compute_missing(self.cache, keys, [pair.a for pair in pairs], self._taps)
        return self._network.compare(taps, self._taps([pair.b for pair in pairs]))

    def _taps(self, images: Sequence[NDArray[np.float32]]) -> list[Taps]:
        return self._network.taps(np.stack(images))

    def _compare_parts(self, pair: _Pair, height: int, width: int) -> Layers:
        """Compute the differences of one pair part by part."""
        rows: list[list[list[Array]]] = []
        for down in cut_axis(height, _SIDE):
            rows.append([])
            for across in cut_axis(width, _SIDE):
                window = np.s_[:, down.first : down.last, across.first : across.last]
                part = _Pair(pair.a[window], pair.b[window])
                layers = self._compare_whole([part.keys[0]], [part])
                both = zip((layer[0] for layer in layers), self.strides, strict=True)
                rows[-1].append(
                    [layer[down.own(s, layer.shape[0]), across.own(s, layer.shape[1])] for layer, s in both]
                )
        return [np.block([[part[index] for part in row] for row in rows]) for index in range(len(self.strides))]


class LpipsVgg(LpipsSpecialist):
    """LPIPS with VGG16, as Omni IIE Bench computes it."""

    name = "lpips_vgg"
    identity: ClassVar = {"implementation": "lpips.1"}
    entry = "lpips-vgg"
    smallest = 16
    strides = (1, 2, 4, 8, 16)


class LpipsAlex(LpipsSpecialist):
    """LPIPS with AlexNet, the authors' choice for comparing images."""

    name = "lpips_alex"
    identity: ClassVar = {"implementation": "lpips.1"}
    entry = "lpips-alex"
    smallest = 64
    strides = (4, 8, 16, 16, 16)


def _group_runs(shapes: Mapping[_Keys, tuple[int, ...]]) -> list[list[_Keys]]:
    """Group pairs of one shape into runs of limited size; pairs of one target stay together.

    Args:
        shapes: Shapes of the images, by pair.
    """
    runs: list[list[_Keys]] = []
    by_shape: dict[tuple[int, ...], list[_Keys]] = defaultdict(list)
    for key in sorted(shapes):
        by_shape[shapes[key]].append(key)
    for (_, height, width), keys in by_shape.items():
        size = max(1, _PIXELS_AT_ONCE // (height * width))
        runs += [keys[start : start + size] for start in range(0, len(keys), size)]
    return runs


def _distance_in_region(layers: Layers, weights: NDArray[np.bool_] | None) -> float:
    if weights is None:
        return measure_distance(layers)
    height, width = weights.shape
    return float(draw_map(layers, (height, width))[weights].mean(dtype=float))


def _format_size(picture: NDArray[np.uint8] | NDArray[np.bool_]) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
