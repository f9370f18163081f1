"""Pictures with 16 bits a channel: Pillow reads grey ones whole, of colour the upper 8 bits only.

There is one rule. Values are scaled by their type (0 is black, 65535 white) and rounded, whatever
they are: a guess by the values of one file would read a source and its edit at two scales.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageFile

Levels: TypeAlias = NDArray[Any]
"""uint16 of shape (H, W, C), C = 1, 3 (RGB) or 4 (with alpha)."""

_WHITE = 65535
_TO_8 = _WHITE // 255
_DEEP = re.compile(r"^I;16[BLN]?$|;16[BLN]$")  # of raw modes; "BGR;16" has 16 bits in all three
_COLOURS = {"RGB", "RGBA"}
_BITS, _PHOTOMETRIC, _FORMAT = 258, 262, 339  # tags of TIFF
_WHITE_IS_ZERO, _SIGNED = 0, 2
_SAVE_8 = "save it with 8 bits per channel"


class DepthError(ValueError):
    """Values without a defined white, or that cannot be read exactly; the text says the mend."""


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
    import cv2

    read: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if read is None or read.dtype != np.uint16 or read.ndim != 3:
        raise DepthError(f"16 bits per channel that cannot be read exactly: {_SAVE_8}")
    levels: Levels = read[..., [2, 1, 0, 3][: read.shape[2]]]
    # Two decoders must agree on what both read: planes and premultiplied alpha fool either.
    seen, upper = np.asarray(picture)[..., :3], (levels[..., :3] >> 8).astype(np.uint8)
    if seen.shape != upper.shape or np.any(np.asarray(cv2.absdiff(seen, upper)) > 1):
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
    rounded: NDArray[Any] = (np.minimum(levels, _WHITE - half) + np.uint16(half)) // _TO_8
    return rounded.astype(np.uint8)


def black_or_not(levels: Levels) -> NDArray[np.uint8]:
    """For masks: 0 stays 0, and no other value becomes 0."""
    eight = (levels >> 8).clip(1, 255).astype(np.uint8)
    return np.where(levels == 0, np.uint8(0), eight)


def as_picture(eight: NDArray[np.uint8]) -> Pil.Image:
    """A picture of (H, W, C), C = 1, 3 or 4."""
    return Pil.fromarray(eight[..., 0] if eight.shape[2] == 1 else eight)


def _grey(picture: ImageFile.ImageFile) -> Levels:
    levels: Levels = np.asarray(picture).astype(np.uint16)[..., None]
    if getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        levels = _WHITE - levels
    clear = picture.info.get("transparency")
    if not isinstance(clear, int):
        return levels
    alpha = np.where(levels == clear, 0, _WHITE).astype(np.uint16)
    return np.concatenate([levels, levels, levels, alpha], axis=2)
