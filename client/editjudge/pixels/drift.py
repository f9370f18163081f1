"""How far the part of a picture that was to stay has moved, changed its colour and lost detail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.images import RGB
from ..base.signature import implementation
from .alignment import (
    Alignment,
    align_coarse_to_fine,
    equalise,
    find_coarse_keypoints,
    frame_corners,
    move_points,
    reduce_image,
    scaling_between,
    similarity_scale,
    square_matrix,
)
from .opencv import DISTRIBUTION, cv2
from .regions import Degenerate, Region

SIDE = 512
"""The longer side at which fits are checked and colours are compared."""
WINDOW = (31, 31)
AGREEING = 0.5
"""The local correlation from which a place of both pictures shows the same."""
LEAST_AGREEING, LEAST_TEXTURED = 0.25, 0.02
"""Shares: of the textured places that must agree, and of the frame that must be textured."""
LEAST_SPREAD = 0.1
"""The standard deviation of agreeing places along each axis, as a share of that side."""
NEAR_FIT = 4.0
"""Pixels: nearer fits are not compared with that of an edit that stands still."""
LEAST_KEPT = 0.05
MOST_GAIN = 4.0
TILES = ((1, 2), (2, 1), (2, 2), (3, 3))
_NEAR = 8.0
"""Grey levels by which kept pixels may differ at least, after the change of colours is undone."""
_FLOOR = 1.0
"""Squared grey levels of high frequencies that rounding alone makes, several times over."""


class Drift(NamedTuple):
    """What changed of what was to stay; 0 is best for each.

    Attributes:
        shift: Median displacement of the frame's four corners, in pixels of the source.
        zoom: Change of scale, in percent.
        rotation: Degrees.
        color: Mean CIE 1976 colour difference of a grey ramp under the change of colours, ΔE*ab.
        detail: Change of the energy of high frequencies, in dB.
        matrix: float64 (2, 3), from pixels of the edit to pixels of the source.
        evidence: The same with their signs: corners in px and % of the diagonal, the size of the
            frame, gains and offsets by channel, the ratio of energies, and the share of pixels that were kept.
    """

    shift: float
    zoom: float
    rotation: float
    color: float
    detail: float
    matrix: NDArray[np.float64]
    evidence: Mapping[str, Any]


@implementation(1, moved_by=DISTRIBUTION, usual="4")
def measure_drift(output: RGB, source: RGB, alignment: Alignment, mask: Region | None = None) -> Drift:
    """Measure the drift of an edit of its source's aspect ratio.

    The fit must be right, for a wrong one is worse than none: of the places with texture, at least
    a quarter must correlate by .5 in windows of 31 pixels at a longer side of 512, and they must
    spread over the frame. Where the edit as it stands agrees as well, it did not move. Pixels
    were kept outside the mask; without one, where the aligned pictures differ little after a
    robust change of colours (gain and offset of each channel) is undone. High frequencies are what
    a Gaussian blur of one pixel takes away. Their energy is measured before the edit is warped,
    and divided by the square of the gain.

    Args:
        output: The edit: uint8 (h, w, 3), RGB, 0..255.
        source: uint8 (H, W, 3), RGB, 0..255, of the same aspect ratio.
        alignment: Of the edit with the source.
        mask: bool (H, W), True = may change.

    Raises:
        Degenerate: No fit is certain, or too few pixels were kept to tell colours and detail.
    """
    height, width = source.shape[:2]
    at_rest = scaling_between(output, source)
    matrix = square_matrix(alignment.matrix)
    small, copy = reduce_image(source, SIDE), reduce_image(output, SIDE)
    outside = _outside(mask, small)
    if not outside.any():
        raise Degenerate("the mask leaves no part of the picture that was to stay")
    places = _Frame(small, copy, outside)
    to_small, from_copy = scaling_between(source, small), scaling_between(copy, output)
    best = places.fit((to_small @ matrix @ from_copy)[:2])
    if not best.is_certain:
        raise Degenerate(
            f"the best fit is not certain: {best.agreement:.0%} of the places with texture agree,"
            f" and {best.texture:.0%} of the frame has texture"
        )
    move, steps = _find_move(matrix, at_rest, width, height)
    if steps.max() > NEAR_FIT:  # in a pattern that repeats, a fit may be off by a period
        still = places.fit((to_small @ at_rest @ from_copy)[:2])
        if still.is_certain and still.agreement >= best.agreement:
            matrix, best = at_rest, still
            move, steps = _find_move(matrix, at_rest, width, height)
    shift, largest, diagonal = float(np.median(steps)), float(steps.max()), math.hypot(width, height)
    zoom, angle = similarity_scale(move[:2]) - 1, math.degrees(math.atan2(move[1, 0], move[0, 0]))
    centre = np.array([(width - 1) / 2, (height - 1) / 2, 1])
    gains, offsets, same = _match_colours(small, copy, best)
    grid = scaling_between(source, same)
    ratio = _compare_detail(output, source, (grid @ np.linalg.inv(move) @ np.linalg.inv(grid))[:2], gains, same)
    ramp = np.linspace(0, 255, 18)[:, None]
    color = float(np.linalg.norm(_to_lab(ramp * gains + offsets) - _to_lab(ramp + 0 * gains), axis=1).mean())
    evidence = {
        "frame": [width, height],
        "corners_px": {"median": round(shift, 3), "largest": round(largest, 3)},
        "corners_percent": {"median": round(100 * shift / diagonal, 4), "largest": round(100 * largest / diagonal, 4)},
        "translation": [round(float(v), 3) for v in move[:2] @ centre - centre[:2]],
        "zoom": round(1 + zoom, 5),
        "rotation_degrees": round(angle, 4),
        "gains": [round(float(g), 4) for g in gains],
        "offsets": [round(float(o), 2) for o in offsets],
        "detail_ratio": round(ratio, 4),
        "kept_share": round(float(same.mean()), 4),
        "agreement": round(best.agreement, 3),
    }
    return Drift(shift, 100 * abs(zoom), abs(angle), color, abs(10 * math.log10(ratio)), matrix[:2], evidence)


def _find_move(
    matrix: NDArray[np.float64], at_rest: NDArray[np.float64], width: int, height: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How the edit moved in the source's pixels, (3, 3), and the steps of the frame's corners."""
    move, frame = at_rest @ np.linalg.inv(matrix), frame_corners(width, height)
    return move, np.linalg.norm(move_points(move[:2], frame) - frame, axis=1)


def name_change(output: RGB, source: RGB) -> str:
    """Name what happened to an edit that no fit brings onto its source, if it is plain; "" else.

    Args:
        output: The edit: uint8 (h, w, 3), RGB, 0..255.
        source: uint8 (H, W, 3), RGB, 0..255.
    """
    if _count_tiles(output) > 1 and _count_tiles(source) == 1:
        return "tiled: the edit shows several copies of one picture"
    mirror = np.ascontiguousarray(output[:, ::-1])
    try:
        align_coarse_to_fine(mirror, source, find_coarse_keypoints(mirror))
    except Degenerate:
        return ""
    return "mirrored: the edit shows its source reversed"


class _Fit(NamedTuple):
    """How well an edit, moved into the frame of the reduced source, agrees with it.

    Attributes:
        move: float64 (2, 3), from pixels of the reduced edit to those of the reduced source.
        cover: bool (h, w), where the edit is and was to stay.
        agreeing: bool (h, w), the places with texture that agree.
        agreement: Share of the places with texture that agree.
        texture: Share of the frame that has texture.
        is_spread: Whether the agreeing places spread over the frame.
    """

    move: NDArray[np.float64]
    cover: Region
    agreeing: Region
    agreement: float
    texture: float
    is_spread: bool

    @property
    def is_certain(self) -> bool:
        return self.agreement >= LEAST_AGREEING and self.texture >= LEAST_TEXTURED and self.is_spread


class _Frame:
    """The reduced source and its texture, with which fits of a reduced edit are compared."""

    def __init__(self, small: RGB, copy: RGB, outside: Region) -> None:
        self._outside = outside
        grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)
        self._edit = cv2.cvtColor(copy, cv2.COLOR_RGB2GRAY)
        values = grey.astype(np.float32)
        texture = cv2.blur(values * values, WINDOW) - cv2.blur(values, WINDOW) ** 2
        self._texture = (texture > 16) & outside
        self._equal = equalise(grey).astype(np.float32) - 128
        self._power = cv2.blur(self._equal * self._equal, WINDOW)

    def fit(self, move: NDArray[np.float64]) -> _Fit:
        """See how well the edit agrees where it is moved by a transform (2, 3)."""
        height, width = self._outside.shape
        size = width, height
        image = cv2.warpAffine(self._edit, move, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
        inside = cv2.warpAffine(np.full_like(self._edit, 255), move, size, flags=cv2.INTER_NEAREST)
        cover = cv2.erode(inside, np.ones((9, 9), np.uint8), borderValue=[0]) > 0
        other = equalise(image).astype(np.float32) - 128
        correlation = cv2.blur(self._equal * other, WINDOW) / cv2.sqrt(
            self._power * cv2.blur(other * other, WINDOW) + 1
        )
        places = self._texture & cover
        agreeing = places & (correlation > AGREEING)
        rows, columns = np.nonzero(agreeing[::4, ::4])
        is_spread = len(rows) > 1 and bool(
            4 * rows.std() >= LEAST_SPREAD * height and 4 * columns.std() >= LEAST_SPREAD * width
        )
        agreement = np.count_nonzero(agreeing) / max(1, np.count_nonzero(places))
        share = np.count_nonzero(places) / places.size
        return _Fit(move, cover & self._outside, agreeing, agreement, share, is_spread)


def _outside(mask: Region | None, small: RGB) -> Region:
    """Where a mask lets nothing change, at a smaller size; everywhere without one."""
    if mask is None:
        return np.ones(small.shape[:2], np.bool_)
    share = cv2.resize(mask.astype(np.float32), small.shape[1::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.dilate(share, np.ones((5, 5), np.uint8)) == 0)


def _match_colours(small: RGB, copy: RGB, fit: _Fit) -> tuple[NDArray[np.float64], NDArray[np.float64], Region]:
    """Fit gain and offset of each channel to the kept pixels; return these too, bool (h, w)."""
    edit = cv2.warpAffine(copy, fit.move, small.shape[1::-1], borderMode=cv2.BORDER_REFLECT)
    # Means of areas: a rest of misalignment and noise are small in them.
    height, width = (max(1, side // 4) for side in small.shape[:2])
    before, after, cover, agreeing = (
        cv2.resize(each, (width, height), interpolation=cv2.INTER_AREA).reshape(height * width, -1).T.astype(float)
        for each in (small, edit, fit.cover.astype(np.float32), fit.agreeing.astype(np.float32))
    )
    in_range = (cover[0] == 1) & np.logical_and.reduce((after > 2) & (after < 253))
    least = LEAST_KEPT * np.count_nonzero(cover[0] == 1)
    # What was painted over would pull a first fit to all pixels.
    same = in_range & (agreeing[0] == 1)
    gains, offsets = np.ones(3), np.zeros(3)
    for _ in range(8):
        count = np.count_nonzero(same)
        if count < max(1, least):
            raise Degenerate(f"{count / same.size:.1%} of the pixels were kept, too few to compare colours")
        weights = same / count
        mean, mean_after = before @ weights, after @ weights
        power = (before * before) @ weights - mean**2
        # A channel of one value tells no gain.
        gains = np.where(power > 4, ((before * after) @ weights - mean * mean_after) / np.maximum(power, 1e-9), 1.0)
        gains = np.clip(gains, 1 / MOST_GAIN, MOST_GAIN)
        offsets = mean_after - gains * mean
        residual = np.maximum.reduce(abs(after - before * gains[:, None] - offsets[:, None]))
        last, near = same, max(_NEAR, 2.5 * 1.4826 * float(np.median(residual[in_range])))
        same = in_range & (residual <= near)
        if np.array_equal(same, last):
            break
    return gains, offsets, same.reshape(height, width)


def _compare_detail(
    output: RGB, source: RGB, move: NDArray[np.float64], gains: NDArray[np.float64], same: Region
) -> float:
    """The energy of high frequencies of the kept pixels: of the edit over that of the source."""
    size = source.shape[1::-1]
    if output.shape != source.shape:
        way = cv2.INTER_AREA if output.shape[1] > size[0] else cv2.INTER_LANCZOS4
        output = np.asarray(cv2.resize(output, size, interpolation=way), np.uint8)
    energies = []
    for image in (source, output):
        grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY).astype(np.float32)
        grey -= cv2.GaussianBlur(grey, (7, 7), 1.0)
        energies.append(cv2.resize(grey * grey, same.shape[::-1], interpolation=cv2.INTER_AREA))
    before, after = energies[0], cv2.warpAffine(energies[1], move, same.shape[::-1], borderMode=cv2.BORDER_REFLECT)
    # The edge of what was painted over is no detail of what was kept.
    inner = cv2.erode(same.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    where = inner if inner.any() else same
    gain = float(gains @ (0.299, 0.587, 0.114))
    return float((after[where].mean() / gain**2 + _FLOOR) / (before[where].mean() + _FLOOR))


def _to_lab(colours: NDArray[np.float64]) -> NDArray[np.float32]:
    """CIE L*a*b* (D65) of sRGB colours (n, 3) in 0..255, which are clipped to that range."""
    unit = (np.clip(colours, 0, 255) / 255).astype(np.float32)[None]
    return np.asarray(cv2.cvtColor(unit, cv2.COLOR_RGB2Lab)[0])


def _count_tiles(image: RGB) -> int:
    """How many equal copies a picture is made of: 1 for most."""
    for down, across in TILES:
        height, width = 64 * down, 64 * across
        grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
        small = cv2.resize(grey, (width, height), interpolation=cv2.INTER_AREA).astype(np.float64)
        tiles = small.reshape(down, 64, across, 64).swapaxes(1, 2).reshape(down * across, -1)
        if tiles.std(axis=1).min() > 2 and np.corrcoef(tiles).min() > 0.9:
            return down * across
    return 1
