"""LPIPS behind Triton: role `lpips`, models `lpips_vgg` and `lpips_alex`.

DISTANCE is FP32[1], 0 or more and mostly below 1, lower is more alike (Zhang et al. 2018,
arXiv:1801.03924, v0.1 of the heads):

- without a MASK, of the whole images at the size they come in;
- with `region` `weight` the mean over the region of the map of the whole images: what lies
  outside is still seen by the network, but does not count;
- with `region` `zero` of the images with everything outside the region black, averaged over
  the whole picture as Omni IIE Bench's text has it: a small region makes a small number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from editjudge.errors import Abstained
from editjudge.images import RGB
from editjudge.panel.contracts import LPIPS

from ..runtime.onnx import ENGINES, open_network
from ..runtime.preprocess import blacked_out
from ..runtime.specialist import BadRequest, Outputs, Request, Specialist
from ..runtime.weights import declared_artefact
from .pixels import GRAPH, signed

# VGG16 keeps 64 channels at full size: a pair of 768x768 takes about 2 GiB on the way, and
# more pairs at once are no faster.
_PIXELS_AT_ONCE = 768 * 768


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two images of one size; `weights`, bool (H, W), where only a region counts."""

    a: RGB
    b: RGB
    weights: NDArray[np.bool_] | None


class LpipsSpecialist(Specialist):
    """What both trunks share.

    Attributes:
        smallest: Pixels that the shorter side must have for the last layer to see anything.
    """

    contract = LPIPS
    packages = ("numpy", "pillow")
    engines = ENGINES
    smallest: ClassVar[int]

    def load(self, declared: Mapping[str, str]) -> None:
        """Load the declared export and run it once.

        Raises:
            RuntimeError: it is absent, or not the declared one.
        """
        artefact = declared_artefact(self.entry, declared)
        self._network = open_network(artefact.folder / GRAPH, artefact.precision)
        blank = np.zeros((self.smallest, self.smallest, 3), dtype=np.uint8)
        self._distances([_Pair(blank, blank, None)])

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstained]:
        """Compare each pair; pairs of one size run together.

        Returns:
            For each request DISTANCE, or Abstained of kind `degenerate` where the mask
            selects nothing.

        Raises:
            BadRequest: the images, or a mask and its images, differ in size, or they are
                smaller than the network can see.
        """
        pairs = [self._pair(one) for one in batch]
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, pair in enumerate(pairs):
            if isinstance(pair, _Pair):
                groups[pair.a.shape].append(index)
        answers: dict[int, Outputs] = {}
        for shape, members in groups.items():
            for some in _chunks(members, max(1, _PIXELS_AT_ONCE // (shape[0] * shape[1]))):
                ran = self._distances([one for i in some if isinstance(one := pairs[i], _Pair)])
                for index, value in zip(some, ran, strict=True):
                    answers[index] = {"DISTANCE": np.array([value], dtype=np.float32)}
        return [
            one if isinstance(one, Abstained) else answers[index] for index, one in enumerate(pairs)
        ]

    def _pair(self, request: Request) -> _Pair | Abstained:
        a, b = request.tensors["IMAGE_A"], request.tensors["IMAGE_B"]
        mask = request.tensors.get("MASK")
        if a.shape != b.shape:
            raise BadRequest(f"IMAGE_A is {_size(a)}, but IMAGE_B is {_size(b)}")
        if min(a.shape[:2]) < self.smallest:
            raise BadRequest(f"IMAGE_A is {_size(a)}; the sides must have {self.smallest} pixels")
        if mask is None:
            return _Pair(a, b, None)
        if mask.shape != a.shape[:2]:
            raise BadRequest(f"MASK is {_size(mask)}, but IMAGE_A is {_size(a)}")
        if not mask.any():
            return Abstained("degenerate", "the mask is empty")
        if request.parameters["region"] == "zero":
            return _Pair(blacked_out(a, mask), blacked_out(b, mask), None)
        return _Pair(a, b, mask)

    def _distances(self, pairs: Sequence[_Pair]) -> list[float]:
        distances, maps = self._network(
            np.stack([signed(pair.a) for pair in pairs]),
            np.stack([signed(pair.b) for pair in pairs]),
        )
        return [
            float(distance if pair.weights is None else where[0][pair.weights].mean(dtype=float))
            for pair, distance, where in zip(pairs, distances, maps, strict=True)
        ]


class LpipsVgg(LpipsSpecialist):
    """LPIPS with VGG16, as Omni IIE Bench computes it."""

    name = "lpips_vgg"
    identity: ClassVar = {"implementation": "lpips.1"}
    entry = "lpips-vgg"
    smallest = 16


class LpipsAlex(LpipsSpecialist):
    """LPIPS with AlexNet, the authors' choice for comparing images."""

    name = "lpips_alex"
    identity: ClassVar = {"implementation": "lpips.1"}
    entry = "lpips-alex"
    smallest = 64


def _chunks(indices: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size]


def _size(picture: NDArray[np.uint8] | NDArray[np.bool_]) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
