"""How far the part of a picture that was to stay has moved, changed its colour and lost detail."""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.images import RGB
from ..base.signature import implementation
from .alignment import Alignment, align_coarse_to_fine, equalise, frame_corners, reduce_image, scaling_between
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
TILES, TILING = ((1, 2), (2, 1), (2, 2), (3, 3)), (192, 192)
_NEAR = 8.0
"""Grey levels by which kept pixels may differ at least, after the change of colours is undone."""
_FLOOR = 1.0
"""Squared grey levels of high frequencies that rounding alone makes, several times over."""

_Floats: TypeAlias = NDArray[np.float64]


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
    matrix: _Floats
    evidence: dict[str, Any]


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
    matrix = np.vstack([alignment.matrix, (0, 0, 1)])
    small, copy = reduce_image(source, SIDE), reduce_image(output, SIDE)
    outside = _outside(mask, small)
    if not outside.any():
        raise Degenerate("the mask leaves no part of the picture that was to stay")
    places = _Frame(small, copy, outside)
    to_small, from_copy = scaling_between(source, small), scaling_between(copy, output)
    best = places.fit((to_small @ matrix @ from_copy)[:2])
    if not best.is_certain:
        raise Degenerate(f"no fit is certain: {best.agreement:.0%} of the places with texture agree")
    move, frame = at_rest @ np.linalg.inv(matrix), frame_corners(width, height)
    steps = np.linalg.norm(frame @ move[:2, :2].T + move[:2, 2] - frame, axis=1)
    if steps.max() > NEAR_FIT:  # in a pattern that repeats, a fit may be off by a period
        still = places.fit((to_small @ at_rest @ from_copy)[:2])
        if still.is_certain and still.agreement >= best.agreement:
            matrix, best, move, steps = at_rest, still, np.eye(3), np.zeros(4)
    shift, largest, diagonal = float(np.median(steps)), float(steps.max()), math.hypot(width, height)
    zoom, angle = math.hypot(move[0, 0], move[1, 0]) - 1, math.degrees(math.atan2(move[1, 0], move[0, 0]))
    centre = np.array([(width - 1) / 2, (height - 1) / 2, 1])
    gains, offsets, same = _match_colours(small, copy, best)
    grid = scaling_between(source, same)
    ratio = _compare_detail(output, source, (grid @ np.linalg.inv(move) @ np.linalg.inv(grid))[:2], gains, same)
    ramp = np.linspace(0, 1, 18)[:, None] * np.ones(3)
    lab = cv2.cvtColor(np.clip([ramp * gains + offsets / 255, ramp], 0, 1).astype(np.float32), cv2.COLOR_RGB2Lab)
    color = float(np.linalg.norm(lab[0] - lab[1], axis=1).mean())
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


def name_change(output: RGB, source: RGB) -> str:
    """Name what happened to an edit that no fit brings onto its source, if it is plain; "" else.

    Args:
        output: The edit: uint8 (h, w, 3), RGB, 0..255.
        source: uint8 (H, W, 3), RGB, 0..255.
    """
    if _is_tiled(output) and not _is_tiled(source):
        return "tiled: the edit shows several copies of one picture"
    mirror = np.ascontiguousarray(output[:, ::-1])
    try:
        align_coarse_to_fine(mirror, source)
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
    """

    move: _Floats
    cover: Region
    agreeing: Region
    agreement: float
    texture: float

    @property
    def is_certain(self) -> bool:
        if self.agreement < LEAST_AGREEING or self.texture < LEAST_TEXTURED:
            return False
        places = np.argwhere(self.agreeing[::4, ::4])
        return len(places) > 1 and bool((4 * places.std(axis=0) >= LEAST_SPREAD * np.array(self.agreeing.shape)).all())


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

    def fit(self, move: _Floats) -> _Fit:
        """See how well the edit agrees where it is moved by a transform (2, 3)."""
        size = self._outside.shape[::-1]
        image = cv2.warpAffine(self._edit, move, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
        inside = cv2.warpAffine(np.full_like(self._edit, 255), move, size, flags=cv2.INTER_NEAREST)
        cover = cv2.erode(inside, np.ones((9, 9), np.uint8), borderValue=[0]) > 0
        other = equalise(image).astype(np.float32) - 128
        powers = self._power * cv2.blur(other * other, WINDOW)
        places = self._texture & cover
        agreeing = places & (cv2.blur(self._equal * other, WINDOW) > AGREEING * cv2.sqrt(powers + 1))
        agreement = np.count_nonzero(agreeing) / max(1, np.count_nonzero(places))
        return _Fit(move, cover & self._outside, agreeing, agreement, np.count_nonzero(places) / places.size)


def _outside(mask: Region | None, small: RGB) -> Region:
    """Where a mask lets nothing change, at a smaller size; everywhere without one."""
    if mask is None:
        return np.ones(small.shape[:2], np.bool_)
    share = cv2.resize(mask.astype(np.float32), small.shape[1::-1], interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.dilate(share, np.ones((5, 5), np.uint8)) == 0)


def _match_colours(small: RGB, copy: RGB, fit: _Fit) -> tuple[_Floats, _Floats, Region]:
    """Fit gain and offset of each channel to the kept pixels; return these too, bool (h, w)."""
    edit = cv2.warpAffine(copy, fit.move, small.shape[1::-1], borderMode=cv2.BORDER_REFLECT)
    # Means of areas: a rest of misalignment and noise are small in them.
    height, width = (max(1, side // 4) for side in small.shape[:2])
    before, after, cover, agreeing = (
        cv2.resize(each, (width, height), interpolation=cv2.INTER_AREA).reshape(height * width, -1).T.astype(float)
        for each in (small, edit, fit.cover.astype(np.float32), fit.agreeing.astype(np.float32))
    )
    in_range = (cover[0] == 1) & np.logical_and.reduce((after > 2) & (after < 253))
    # What was painted over would pull a first fit to all pixels.
    same = in_range & (agreeing[0] == 1)
    for _ in range(8):
        count = np.count_nonzero(same)
        if count < max(1, LEAST_KEPT * np.count_nonzero(cover[0] == 1)):
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


def _compare_detail(output: RGB, source: RGB, move: _Floats, gains: _Floats, same: Region) -> float:
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


def _is_tiled(image: RGB) -> bool:
    """Whether a picture is made of equal copies."""
    grey = cv2.resize(
        cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY), TILING, interpolation=cv2.INTER_AREA
    )
    cuts = ([part.ravel() for row in np.split(grey, n) for part in np.split(row, m, 1)] for n, m in TILES)
    return any(np.std(tiles, axis=1).min() > 2 and np.corrcoef(tiles).min() > 0.9 for tiles in cuts)
