"""Regions from hand-drawn outlines, and lettered panels: what the demo edits are drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from .photographs import RGB, extra_folder

Point: TypeAlias = tuple[float, float]
Colour: TypeAlias = tuple[int, int, int]
Coverage: TypeAlias = NDArray[np.uint8]

_SUPERSAMPLING = 4


@dataclass(frozen=True, slots=True)
class Polygon:
    """A closed outline in pixels; a hole takes away what was drawn before it."""

    points: tuple[Point, ...]
    hole: bool = False


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An upright ellipse in pixels; a hole takes away what was drawn before it."""

    centre: Point
    radii: Point
    hole: bool = False


Shape: TypeAlias = "Polygon | Ellipse"


def frame(width: int, height: int) -> Polygon:
    """The whole picture as a shape, to cut holes in."""
    return Polygon(((0, 0), (width, 0), (width, height), (0, height)))


def coverage(shapes: Sequence[Shape], size: tuple[int, int], feather: float = 0.0) -> Coverage:
    """How much of each pixel some shapes cover.

    Args:
        shapes: Drawn one over the other, holes erase.
        size: Width and height in pixels.
        feather: Standard deviation in pixels of the blur of the edge, 0 for a clean edge.

    Returns:
        uint8 of shape (H, W), 0 (outside) .. 255 (inside).
    """
    scale = _SUPERSAMPLING
    canvas = Image.new("L", (size[0] * scale, size[1] * scale), 0)
    draw = ImageDraw.Draw(canvas)
    for shape in shapes:
        fill = 0 if shape.hole else 255
        if isinstance(shape, Polygon):
            draw.polygon([(x * scale, y * scale) for x, y in shape.points], fill=fill)
        else:
            (x, y), (rx, ry) = shape.centre, shape.radii
            draw.ellipse(
                [(x - rx) * scale, (y - ry) * scale, (x + rx) * scale, (y + ry) * scale], fill=fill
            )
    covered = np.array(canvas.reduce(scale), dtype=np.uint8)
    if feather:
        # On uint8 OpenCV blurs in fixed point: the same bits on every processor.
        covered = np.asarray(cv2.GaussianBlur(covered, (0, 0), feather), np.uint8)
    return covered


def blend(below: RGB, above: RGB, alpha: Coverage) -> RGB:
    """Lay one picture over another of its size; where `alpha` is 0, `below` stays to the bit."""
    weight = alpha[..., None].astype(np.uint32)
    mixed = (below * (255 - weight) + above * weight + 127) // 255
    return np.asarray(mixed, np.uint8)


@dataclass(frozen=True, slots=True)
class Panel:
    """A lettered board.

    Attributes:
        corners: Of the board in the picture: top left, top right, bottom right, bottom left.
        size: Width and height of the board before it is fitted to the corners, in pixels.
        letters: Height of the font in pixels of `size`.
        border: Width of the frame in pixels of `size`, 0 for none.
        weight: Extra stroke width in pixels of `size`, for bold letters.
        han: The font with Han characters and kana, not Pillow's own Latin one.
    """

    text: str
    corners: tuple[Point, Point, Point, Point]
    size: tuple[int, int]
    letters: int
    ink: Colour
    paper: Colour
    border: int = 0
    weight: int = 0
    han: bool = False

    @property
    def outline(self) -> Polygon:
        """Where the board is in the picture."""
        return Polygon(self.corners)

    def over(self, picture: RGB) -> RGB:
        """Draw the board, and nothing beside it, over a picture of shape (H, W, 3)."""
        height, width = picture.shape[:2]
        board = np.array(self._board(), dtype=np.uint8)
        w, h = self.size
        flat = np.array([(0, 0), (w, 0), (w, h), (0, h)], np.float32)
        fitted = cv2.getPerspectiveTransform(flat, np.array(self.corners, np.float32))
        warped = cv2.warpPerspective(
            board, fitted, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        alpha = coverage([self.outline], (width, height))
        return blend(picture, np.asarray(warped, np.uint8), alpha)

    def _board(self) -> Image.Image:
        board = Image.new("RGB", self.size, self.paper)
        draw = ImageDraw.Draw(board)
        width, height = self.size
        if self.border:
            inset = self.border
            draw.rectangle(
                (inset, inset, width - 1 - inset, height - 1 - inset),
                outline=self.ink,
                width=self.border,
            )
        draw.text(
            (width / 2, height / 2),
            self.text,
            fill=self.ink,
            font=_font(self.letters, self.han),
            anchor="mm",
            stroke_width=self.weight,
            stroke_fill=self.ink,
        )
        return board


def _font(size: int, han: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if not han:
        return ImageFont.load_default(size)
    path = extra_folder("matplotlib_fontja") / "fonts" / "ipaexg.ttf"
    return ImageFont.truetype(str(path), size)
