"""Opened pictures of any mode as upright 8-bit RGB, and what was done to get there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageOps

from .depth import DepthError, Levels, as_picture, bands, is_deep, scaled

RGB: TypeAlias = NDArray[np.uint8]
TURNED = 0x0112
"""The EXIF tag that tells how a picture is turned."""


@dataclass(frozen=True, slots=True)
class Note:
    """What was converted on the way to a picture; `str` is what people read.

    Attributes:
        kind: `turned`, `depth`, `alpha` or `mode` (of pixels), `misnamed` (the file), `mask` (what
            was taken as white, and its size).
        text: In one line.
    """

    kind: Literal["turned", "depth", "alpha", "mode", "misnamed", "mask"]
    text: str

    def __str__(self) -> str:
        return self.text


Notes: TypeAlias = "tuple[Note, ...]"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file becomes 8-bit RGB.

    Attributes:
        to_8: What becomes of 16 bits.
        from_32: Whether 32-bit values say enough.
        over_white: Transparency is laid over white; else it is dropped.
    """

    to_8: Callable[[Levels], NDArray[np.uint8]] = scaled
    from_32: bool = False
    over_white: bool = True


def levels_of(picture: Pil.Image) -> Levels | None:
    """The 16-bit values of an opened picture; None where it has 8."""
    if picture.mode.startswith("I;16"):
        return np.asarray(picture)[..., None]
    if is_deep(picture):
        raise DepthError("16 bits per channel, of which Pillow reads 8; give the file")
    return None


def check_samples(picture: Pil.Image, reading: Reading) -> None:
    """Refuse samples whose black and white Pillow gets wrong; to be asked before it is loaded."""
    tags = getattr(picture, "tag_v2", {})
    bits, signs = tags.get(0x0102, (1,)), tags.get(0x0153, (1,))
    if 2 in signs and 8 in bits and not reading.from_32:
        raise ValueError("signed pixels have no defined black")
    if 12 in bits:
        raise ValueError("12 bits per channel; 8 or 16 are read")


def to_rgb(
    picture: Pil.Image, reading: Reading, levels: Levels | None, turned: int
) -> tuple[RGB, Notes]:
    """Upright 8-bit RGB of any mode, and what was done.

    Args:
        levels: Its values, where they have 16 bits.
        turned: Its orientation by EXIF.
    """
    notes: Notes = ()
    mode = picture.mode
    if levels is None and (mode.startswith("I") or mode == "F"):
        levels = _wide(picture, reading)
    if levels is not None:
        eight, levels = reading.to_8(levels), None
        picture = as_picture(eight)
        picture.getexif()[TURNED] = turned
        mode, notes = picture.mode, (Note("depth", "16 bits per channel reduced to 8"),)
    if turned not in {0, 1}:
        picture = ImageOps.exif_transpose(picture)
        notes = (Note("turned", "turned upright by its EXIF orientation"), *notes)
    over_white = picture.has_transparency_data and reading.over_white
    rgb, clear = _in_bands(picture, over_white=over_white)
    if clear:
        notes = (*notes, Note("alpha", "alpha laid over white"))
    elif mode not in {"RGB", "L", "1"} and not over_white:
        notes = (*notes, Note("mode", f"converted from {mode} to RGB"))
    return rgb, notes


def _in_bands(picture: Pil.Image, *, over_white: bool) -> tuple[RGB, bool]:
    """8-bit RGB, laid over white where it is clear; and whether any of it is.

    Every step is a copy of four bytes a pixel, so that it is taken for some rows at a time.
    """
    width, height = picture.size
    rgb = np.empty((height, width, 3), np.uint8)
    clear = False
    for rows in bands(width, height):
        band = picture.crop((0, rows.start, width, rows.stop))
        if over_white:
            band = band.convert("RGBA")
            if band.getchannel("A").getextrema() != (255, 255):
                clear = True
                band = Pil.alpha_composite(Pil.new("RGBA", band.size, "white"), band)
        rgb[rows] = np.asarray(band.convert("RGB"))
    return rgb, clear


def _wide(picture: Pil.Image, reading: Reading) -> Levels:
    """Values of 32 bits, as 1 where they are not zero."""
    if not reading.from_32:
        kind = "floating-point" if picture.mode == "F" else "signed or 32-bit"
        raise DepthError(f"{kind} pixels have no defined white: save 8 or 16 bits per channel")
    levels: Levels = (np.asarray(picture) != 0)[..., None].astype(np.uint16)
    return levels
