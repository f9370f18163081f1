"""Pictures with 16 bits a channel: Pillow reads grey ones whole, of colour the upper 8 bits only.

There is one rule. Values are scaled by their type (0 is black, 65535 white) and rounded, whatever
they are: a guess by the values of one file would read a source and its edit at two scales.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageFile

from .errors import MissingExtra

Levels: TypeAlias = NDArray[Any]
"""uint16 of shape (H, W, C), C = 1, 3 (RGB) or 4 (with alpha)."""

_WHITE = 65535
_TO_8 = _WHITE // 255
_DEEP = re.compile(r"^I;16[BLN]?$|;16[BLN]$")  # of raw modes; "BGR;16" has 16 bits in all three
_COLOURS = {"RGB", "RGBA"}
_BITS, _PHOTOMETRIC, _FORMAT = 258, 262, 339  # tags of TIFF
_WHITE_IS_ZERO, _SIGNED = 0, 2
_SAVE_8 = "save it with 8 bits per channel"
_BAND_PIXELS = 1024 * 1024


class DepthError(ValueError):
    """Values without a defined white, or that cannot be read exactly; the text says the mend."""


def bands(width: int, height: int) -> Iterator[slice]:
    """Rows of a picture, some at a time: what every step copies is then small."""
    rows = max(1, _BAND_PIXELS // width)
    for top in range(0, height, rows):
        yield slice(top, min(top + rows, height))


def is_deep(picture: Pil.Image) -> bool:
    """Whether a file has 16 bits per channel, unsigned; to be asked before it is loaded."""
    tags = getattr(picture, "tag_v2", {})
    if _SIGNED in tags.get(_FORMAT, ()):
        return False
    args = [
        each if isinstance(each, tuple) else (each,) for *_, each in getattr(picture, "tile", ())
    ]
    if picture.format == "PPM":
        # Pillow scales colour by what the file says is white, and grey to 16 bits.
        return picture.mode == "I" or any(_WHITE in each for each in args)
    if 16 in tags.get(_BITS, ()):
        return True
    # By raw mode alone: what stands beside it in a tile may be any number.
    return any(isinstance(each[0], str) and _DEEP.search(each[0]) for each in args if each)


def stored(picture: ImageFile.ImageFile, data: bytes) -> Levels:
    """The 16-bit values of a loaded file, as they are stored.

    Returns:
        uint16; transparency that is told by a colour is a fourth channel.

    Raises:
        DepthError: they cannot be read exactly.
    """
    if picture.mode.startswith("I"):
        return _grey(picture)
    if picture.mode not in _COLOURS:
        raise DepthError(f"16 bits per channel in mode {picture.mode}: {_SAVE_8}")
    try:
        import cv2
    except ImportError as error:
        missing = MissingExtra("16 bits per channel of colour", "pixels")
        raise DepthError(f"{missing}, or {_SAVE_8}") from error
    read: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if read is None or read.dtype != np.uint16 or read.ndim != 3:
        raise DepthError(f"16 bits per channel that cannot be read exactly: {_SAVE_8}")
    # Two decoders must agree on what both read: planes and premultiplied alpha fool either.
    levels: Levels = read
    if levels.shape[1::-1] != picture.size:
        raise DepthError(f"16 bits per channel that cannot be read exactly: {_SAVE_8}")
    for rows in bands(*picture.size):
        band = levels[rows]
        band[..., :3] = band[..., 2::-1].copy()  # from OpenCV's order
        seen = np.asarray(picture.crop((0, rows.start, picture.width, rows.stop)))[..., :3]
        upper = (band[..., :3] >> 8).astype(np.uint8)
        if np.any(np.asarray(cv2.absdiff(seen, upper)) > 1):
            raise DepthError(f"16 bits per channel that cannot be read exactly: {_SAVE_8}")
    return levels


def scaled(levels: Levels) -> NDArray[np.uint8]:
    """16-bit values to 8 bits, by their type, rounded: what is n/65535 becomes the nearest n/255.

    Raises:
        DepthError: no value is above 255, and some are above 0. They were not scaled when they
            were saved, and would read as black.
    """
    highest = int(levels[..., :3].max())
    if 0 < highest <= 255:
        raise DepthError(
            f"16 bits per channel with values up to {highest} only, which read as black: "
            "save it with 8 bits per channel, or multiply its values by 257"
        )
    half = _TO_8 // 2
    return _each(levels, lambda band: (np.minimum(band, _WHITE - half) + np.uint16(half)) // _TO_8)


def black_or_not(levels: Levels) -> NDArray[np.uint8]:
    """For masks: 0 stays 0, and no other value becomes 0."""
    return _each(levels, lambda band: np.where(band == 0, 0, (band >> 8).clip(1, 255)))


def _each(levels: Levels, reduced: Callable[[Levels], NDArray[Any]]) -> NDArray[np.uint8]:
    eight = np.empty(levels.shape, np.uint8)
    for rows in bands(levels.shape[1], levels.shape[0]):
        eight[rows] = reduced(levels[rows])
    return eight


def as_picture(eight: NDArray[np.uint8]) -> Pil.Image:
    """A picture of (H, W, C), C = 1, 3 or 4."""
    return Pil.fromarray(eight[..., 0] if eight.shape[2] == 1 else eight)


def _grey(picture: ImageFile.ImageFile) -> Levels:
    levels: Levels = np.asarray(picture).astype(np.uint16, copy=False)[..., None]
    if getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        levels = _WHITE - levels
    clear = picture.info.get("transparency")
    if not isinstance(clear, int):
        return levels
    told = np.empty((*levels.shape[:2], 4), np.uint16)
    told[..., :3] = levels
    told[..., 3:] = np.where(levels == clear, np.uint16(0), np.uint16(_WHITE))
    return told
