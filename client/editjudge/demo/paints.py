"""What the demo edits do to pixels: each paint takes a photograph and gives it repainted whole.

The region of the edit decides where the paint shows, so a paint need not care about edges.
Nothing is drawn by lot: with the same releases of NumPy, OpenCV and Pillow, the same pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from .drawing import Colour, Ellipse, Panel, Point, Shape, blend, coverage
from .photographs import RGB, photograph

Paint: TypeAlias = Callable[[RGB], RGB]
_Float: TypeAlias = NDArray[np.float64]

_RIM = 4
_RIM_TOLERANCE = 20.0
_HEALING = 12.0
_MOONSHINE = (248.0, 243.0, 224.0)
_RED_WEIGHT, _GREEN_WEIGHT, _BLUE_WEIGHT = 0.299, 0.587, 0.114


def dyed(dye: tuple[float, float, float], *, colourful: tuple[float, float]) -> Paint:
    """Give everything of a warm colour (red to yellow) another hue, shading and gloss kept.

    Args:
        dye: Share of the pixel's colourfulness (largest minus smallest channel) that goes to
            red, green and blue.
        colourful: Colourfulness relative to brightness, 0..1, below which a pixel stays and
            above which it is dyed fully.
    """

    def paint(source: RGB) -> RGB:
        pixels = source.astype(np.float64)
        high, low = pixels.max(axis=2), pixels.min(axis=2)
        chroma = high - low
        start, full = colourful
        weight = np.clip((chroma / np.maximum(high, 1.0) - start) / (full - start), 0.0, 1.0)
        weight = weight * (pixels[..., 2] < pixels[..., 0])
        changed = low[..., None] + chroma[..., None] * np.array(dye)
        return _rounded(pixels + weight[..., None] * (changed - pixels))

    return paint


@dataclass(frozen=True, slots=True)
class Patch:
    """A shape to cover up, and where in its rows the cover is taken from.

    Attributes:
        across: Column x is covered with column `x + across`, or `across - x` if mirrored.
        feather: Blur of the cover's edge in pixels.
    """

    shape: Shape
    across: int
    mirrored: bool = False
    feather: float = 0.0


def healed(patches: Sequence[Patch]) -> Paint:
    """Cover things up with their surroundings, one patch after the other.

    As a healing brush does it: the texture is cloned, its colour is corrected by what differs
    along the outline, so no silhouette is left in a sky that is not even.
    """

    def paint(source: RGB) -> RGB:
        painted = source
        for patch in patches:
            painted = _heal(painted, patch)
        return painted

    return paint


def _heal(picture: RGB, patch: Patch) -> RGB:
    height, width = picture.shape[:2]
    columns = np.arange(width)
    taken = patch.across + (-columns if patch.mirrored else columns)
    cloned = picture[:, np.clip(taken, 0, width - 1)].astype(np.float64)
    inside = (coverage([patch.shape], (width, height)) > 0).astype(np.uint8)
    near = cv2.dilate(inside, np.ones((2 * _RIM + 1, 2 * _RIM + 1), np.uint8))
    differs = picture - cloned
    # Lamps and masts that the outline runs past would bleed into the patch.
    alike = np.abs(differs).max(axis=2) < _RIM_TOLERANCE
    rim = ((near > inside) & alike).astype(np.float64)
    weight, pull = _spread(rim), _spread(differs * rim[..., None])
    corrected = cloned + pull / np.maximum(weight, 1e-9)[..., None]
    alpha = coverage([patch.shape], (width, height), patch.feather)
    return blend(picture, _rounded(corrected), alpha)


def _spread(values: _Float) -> _Float:
    blurred = cv2.GaussianBlur(values, (0, 0), _HEALING, borderType=cv2.BORDER_REFLECT)
    return np.asarray(blurred, np.float64)


def magnified(centre: Point, factor: float) -> Paint:
    """Enlarge the picture about a point."""

    def paint(source: RGB) -> RGB:
        (x, y), keep = centre, 1.0 - factor
        matrix = np.array([(factor, 0.0, x * keep), (0.0, factor, y * keep)])
        size = (source.shape[1], source.shape[0])
        return np.asarray(cv2.warpAffine(source, matrix, size, flags=cv2.INTER_CUBIC), np.uint8)

    return paint


def pencilled(darkness: float) -> Paint:
    """Redraw in pencil on white paper; a higher `darkness` gives heavier lines."""

    def paint(source: RGB) -> RGB:
        grey = _grey(source)
        around = _blurred(_rounded(grey), 4.0).astype(np.float64)
        # Grey divided by its surroundings leaves the edges, which is what a pencil draws.
        line = np.minimum(grey / np.maximum(around, 1.0), 1.0)
        shade = 1.0 - darkness * (1.0 - line) - 0.12 * (1.0 - grey / 255.0)
        return _rounded(np.repeat(np.clip(shade, 0.1, 1.0)[..., None] * 250.0, 3, axis=2))

    return paint


def lit_by(gradient: tuple[tuple[int, Colour], ...], white: float) -> Paint:
    """Colour the picture by height, like a sky behind it; dark things stay dark.

    Args:
        gradient: (row, colour) from top to bottom, interpolated between rows.
        white: Grey level that takes the gradient's full colour.
    """

    def paint(source: RGB) -> RGB:
        rows = [row for row, _ in gradient]
        colours = np.array([colour for _, colour in gradient], np.float64)
        at = np.arange(source.shape[0])
        sky = np.stack([np.interp(at, rows, channel) for channel in colours.T], axis=1)
        return _rounded(sky[:, None, :] * (_grey(source) / white)[..., None])

    return paint


def replaced_by(name: str, brightness: float = 1.0) -> Paint:
    """Show another photograph of the same size instead."""

    def paint(source: RGB) -> RGB:
        del source
        return _rounded(photograph(name) * brightness)

    return paint


def with_moon(moon: Ellipse, plains: Sequence[Ellipse]) -> Paint:
    """Hang a full moon with a faint halo in the sky.

    Args:
        moon: Its disc, a circle.
        plains: Its darker parts, in radii from its centre.
    """

    def paint(source: RGB) -> RGB:
        (x, y), (radius, _) = moon.centre, moon.radii
        size = (source.shape[1], source.shape[0])
        placed = [
            Ellipse(
                (x + radius * plain.centre[0], y + radius * plain.centre[1]),
                (radius * plain.radii[0], radius * plain.radii[1]),
            )
            for plain in plains
        ]
        dark = coverage(placed, size, feather=radius / 14.0) / 255.0
        down, across = np.mgrid[: size[1], : size[0]].astype(np.float64)
        from_centre = ((across + 0.5 - x) ** 2 + (down + 0.5 - y) ** 2) / radius**2
        shade = 1.0 - 0.24 * dark - 0.12 * np.minimum(from_centre, 1.0)
        disc = _rounded(shade[..., None] * np.array(_MOONSHINE))
        halo = np.clip(1.6 - from_centre, 0.0, 0.6)[..., None] * np.array(_MOONSHINE) / 3.0
        return blend(_rounded(source + halo), disc, coverage([moon], size))

    return paint


def lettered(panel: Panel, support: tuple[tuple[Shape, Colour], ...] = ()) -> Paint:
    """Put up a lettered board on what supports it: shapes in one colour each, back to front."""

    def paint(source: RGB) -> RGB:
        size = (source.shape[1], source.shape[0])
        painted = source
        for shape, colour in support:
            flat = np.full_like(source, np.array(colour, np.uint8))
            painted = blend(painted, flat, coverage([shape], size))
        return panel.over(painted)

    return paint


def _grey(picture: RGB) -> _Float:
    red, green, blue = (picture[..., channel].astype(np.float64) for channel in range(3))
    grey: _Float = _RED_WEIGHT * red + _GREEN_WEIGHT * green + _BLUE_WEIGHT * blue
    return grey


def _blurred(picture: NDArray[np.uint8], sigma: float) -> NDArray[np.uint8]:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.uint8)


def _rounded(pixels: _Float) -> NDArray[np.uint8]:
    return np.asarray(np.clip(np.rint(pixels), 0, 255), np.uint8)
