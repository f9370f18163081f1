"""Conversion of opened images of any mode and bit depth to upright 8-bit RGB.

Of 16 bits a channel, Pillow reads all of grey images but only the upper 8 bits of colour. Values
are scaled by their type (0 is black, 65535 white) and rounded: a scale guessed from the values of
one file could differ between a source and its edit.

Cameras and arrays of 10 to 14 bits are often saved in files of 16 without scaling, and would be
nearly black: two unrelated ones look alike. So a file whose largest value is below a quarter of
the scale is refused, whatever it says of its significant bits (sBIT of a PNG, MaxSampleValue of a
TIFF): writers that scale and writers that do not state the same. A real picture that is so dark is
refused too, since nothing tells it from the others; a note would still leave a wrong number. The
white of a PGM or PPM is part of the format, and Pillow scales by it. Where it is 65535, which
writers of arrays state whatever they hold, it says nothing.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageFile, ImageOps

from .errors import MissingExtra

RGB: TypeAlias = NDArray[np.uint8]
ORIENTATION_TAG = 0x0112
"""The EXIF tag of the orientation."""
Levels: TypeAlias = NDArray[Any]
"""uint16 of shape (H, W, C), C = 1, 3 (RGB) or 4 (with alpha)."""

_WHITE = 65535
_TO_8 = _WHITE // 255
_DARK = (_WHITE + 1) // 4
_STEPS = {"L;2": 85, "L;4": 17}
"""What Pillow multiplies grey of fewer than 8 bits by, by raw mode."""
_DEEP = re.compile(r"^I;16[BLN]?$|;16[BLN]$")  # of raw modes; "BGR;16" has 16 bits in all three
_COLOURS = {"RGB", "RGBA"}
_BITS, _PHOTOMETRIC, _FORMAT = 258, 262, 339  # tags of TIFF
_WHITE_IS_ZERO, _SIGNED_INTEGER = 0, 2
_SAVE_8 = "save it with 8 bits per channel"
_INEXACT = f"16 bits per channel that cannot be read exactly: {_SAVE_8}"
_BAND_PIXELS = 64 * 1024
"""So few that the memory of a band is in the processor's cache, and used again for the next."""
_WHOLE_PIXELS = 16 * 1024 * 1024
"""Up to here plain RGB is unpacked at once, in 6 bytes a pixel besides; beyond it in bands."""


class DepthError(ValueError):
    """Pixel values without a defined white, or not exactly readable; the text has the fix."""


def row_bands(width: int, height: int) -> Iterator[slice]:
    """Split the rows of an image into bands, so that each step copies little memory."""
    rows = max(1, _BAND_PIXELS // width)
    for top in range(0, height, rows):
        yield slice(top, min(top + rows, height))


def is_deep(picture: Pil.Image) -> bool:
    """Whether a file has unsigned 16 bits per channel; call it before the file is loaded."""
    tags = getattr(picture, "tag_v2", {})
    if _SIGNED_INTEGER in tags.get(_FORMAT, ()):
        return False
    args = [each if isinstance(each, tuple) else (each,) for *_, each in getattr(picture, "tile", ())]
    if picture.format == "PPM":
        # Pillow scales colour by what the file says is white, and grey to 16 bits.
        return picture.mode == "I" or any(_WHITE in each for each in args)
    if 16 in tags.get(_BITS, ()):
        return True
    # By raw mode alone: what stands beside it in a tile may be any number.
    return any(isinstance(each[0], str) and _DEEP.search(each[0]) for each in args if each)


def read_16_bits(picture: ImageFile.ImageFile, data: bytes) -> Levels:
    """Read the 16-bit values of a loaded file.

    Returns:
        uint16, see `Levels`; a transparent colour becomes a fourth channel.

    Raises:
        DepthError: they cannot be read exactly.
    """
    if picture.mode.startswith("I"):
        return _read_grey(picture)
    if picture.mode not in _COLOURS:
        raise DepthError(f"16 bits per channel in mode {picture.mode}: {_SAVE_8}")
    try:
        import cv2
    except ImportError as error:
        missing = MissingExtra("16 bits per channel of colour", "pixels")
        raise DepthError(f"{missing}, or {_SAVE_8}") from error
    read: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if read is None or read.dtype != np.uint16 or read.ndim != 3:
        raise DepthError(_INEXACT)
    # Two decoders must agree on what both read: planes and premultiplied alpha fool either.
    levels: Levels = read
    if levels.shape[1::-1] != picture.size:
        raise DepthError(_INEXACT)
    for rows in row_bands(*picture.size):
        band = levels[rows]
        band[..., :3] = band[..., 2::-1].copy()  # from OpenCV's order
        pillow_values = np.asarray(picture.crop((0, rows.start, picture.width, rows.stop)))[..., :3]
        upper = (band[..., :3] >> 8).astype(np.uint8)
        if np.any(np.asarray(cv2.absdiff(pillow_values, upper)) > 1):
            raise DepthError(_INEXACT)
    return levels


def states_white(picture: Pil.Image) -> bool:
    """Whether a file of 16 bits says itself what is white, so that Pillow scales by it."""
    args = picture.tile[0][3] if picture.format == "PPM" else ()  # type: ignore[attr-defined]
    return isinstance(args, tuple) and bool(args) and _WHITE not in args


def scale_clear_grey(picture: ImageFile.ImageFile) -> None:
    """Scale the transparent grey of a PNG of 2 or 4 bits as Pillow scales its pixels, to 8 bits.

    Call it before the file is loaded.
    """
    clear = picture.info.get("transparency")
    if isinstance(clear, int) and picture.tile:
        picture.info["transparency"] = clear * _STEPS.get(str(picture.tile[0][3]), 1)


def scale_to_8_bits(levels: Levels, may_be_dark: bool) -> NDArray[np.uint8]:
    """Scale 16-bit values to 8 bits, rounded: n/65535 becomes the nearest n/255.

    Args:
        may_be_dark: Whether a picture without a value above a quarter of the scale is what it is.

    Raises:
        DepthError: the values were probably saved without scaling: they would be read as black.
    """
    highest = int(levels[..., :3].max())
    if 0 < highest < _DARK and not may_be_dark:
        raise DepthError(
            f"16 bits per channel with values up to {highest:,} only, which read as nearly black:"
            f" {_SAVE_8}, or rescale its values to 0..65535 (of 8 bits, multiply its values by 257)"
        )
    half = _TO_8 // 2
    return _convert_bands(levels, lambda band: (np.minimum(band, _WHITE - half) + np.uint16(half)) // _TO_8)


def to_black_or_not(levels: Levels, _: bool) -> NDArray[np.uint8]:
    """Reduce 16-bit values of a mask to 8 bits, so that 0 alone becomes 0; at any scale."""
    return _convert_bands(levels, lambda band: np.where(band == 0, 0, (band >> 8).clip(1, 255)))


def _convert_bands(levels: Levels, reduce: Callable[[Levels], NDArray[Any]]) -> NDArray[np.uint8]:
    eight = np.empty(levels.shape, np.uint8)
    for rows in row_bands(levels.shape[1], levels.shape[0]):
        eight[rows] = reduce(levels[rows])
    return eight


def _read_grey(picture: ImageFile.ImageFile) -> Levels:
    levels: Levels = np.asarray(picture).astype(np.uint16, copy=False)[..., None]
    if getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO:
        levels = _WHITE - levels
    clear = picture.info.get("transparency")
    if not isinstance(clear, int):
        return levels
    with_alpha = np.empty((*levels.shape[:2], 4), np.uint16)
    with_alpha[..., :3] = levels
    with_alpha[..., 3:] = np.where(levels == clear, np.uint16(0), np.uint16(_WHITE))
    return with_alpha


@dataclass(frozen=True, slots=True)
class Note:
    """One conversion made while an image was decoded; `str` is the text for people.

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
class DecodingRules:
    """Rules by which a file is converted to 8-bit RGB.

    Attributes:
        to_8: Converts 16-bit values to 8 bits, given whether a picture may be dark.
        from_32: Whether 32-bit values are accepted.
        over_white: Whether transparency is blended with white; otherwise it is dropped.
    """

    to_8: Callable[[Levels, bool], NDArray[np.uint8]] = scale_to_8_bits
    from_32: bool = False
    over_white: bool = True


def levels_of(picture: Pil.Image) -> Levels | None:
    """Read the 16-bit values of a Pillow image; None if it has 8 bits."""
    if picture.mode.startswith("I;16"):
        return np.asarray(picture)[..., None]
    if is_deep(picture):
        raise DepthError("16 bits per channel, of which Pillow reads 8; give the file")
    return None


def check_samples(picture: Pil.Image, reading: DecodingRules) -> None:
    """Refuse sample formats whose black and white Pillow gets wrong; call it before loading."""
    tags = getattr(picture, "tag_v2", {})
    bits, signs = tags.get(_BITS, (1,)), tags.get(_FORMAT, (1,))
    if _SIGNED_INTEGER in signs and 8 in bits and not reading.from_32:
        raise ValueError("signed pixels have no defined black")
    if 12 in bits:
        raise ValueError("12 bits per channel; 8 or 16 are read")


def to_rgb(
    picture: Pil.Image, reading: DecodingRules, levels: Levels | None, orientation: int, may_be_dark: bool = False
) -> tuple[RGB, Notes]:
    """Upright 8-bit RGB of any mode, and what was done.

    Args:
        levels: Its values, where they have 16 bits.
        orientation: Its orientation by EXIF, 1 to 8.
        may_be_dark: See `scale_to_8_bits`.
    """
    notes: Notes = ()
    mode = picture.mode
    if levels is None and (mode.startswith("I") or mode == "F"):
        levels = _read_32_bits(picture, reading)
    if levels is not None:
        eight, levels = reading.to_8(levels, may_be_dark), None
        picture = Pil.fromarray(eight[..., 0] if eight.shape[2] == 1 else eight)
        picture.getexif()[ORIENTATION_TAG] = orientation
        mode, notes = picture.mode, (Note("depth", "16 bits per channel reduced to 8"),)
    if orientation not in {0, 1}:
        picture = ImageOps.exif_transpose(picture)
        notes = (Note("turned", "turned upright by its EXIF orientation"), *notes)
    over_white = picture.has_transparency_data and reading.over_white
    rgb, clear = _convert_in_bands(picture, over_white=over_white)
    if clear:
        notes = (*notes, Note("alpha", "alpha laid over white"))
    elif mode not in {"RGB", "L", "1"} and not over_white:
        notes = (*notes, Note("mode", f"converted from {mode} to RGB"))
    return rgb, notes


def _convert_in_bands(picture: Pil.Image, *, over_white: bool) -> tuple[RGB, bool]:
    """Convert to 8-bit RGB, blended with white; and tell whether any pixel is transparent.

    Every step copies four bytes a pixel, so it is made in bands of rows.
    """
    width, height = picture.size
    if picture.mode == "RGB" and not over_white and width * height <= _WHOLE_PIXELS:
        return np.frombuffer(picture.tobytes(), np.uint8).reshape(height, width, 3), False
    rgb = np.empty((height, width, 3), np.uint8)
    clear = False
    for rows in row_bands(width, height):
        band = picture.crop((0, rows.start, width, rows.stop))
        if over_white:
            band = band.convert("RGBA")
            if band.getchannel("A").getextrema() != (255, 255):
                clear = True
                band = Pil.alpha_composite(Pil.new("RGBA", band.size, "white"), band)
        rgb[rows] = np.asarray(band.convert("RGB"))
    return rgb, clear


def _read_32_bits(picture: Pil.Image, reading: DecodingRules) -> Levels:
    """Read 32-bit values as 1 where they are not zero."""
    if not reading.from_32:
        kind = "floating-point" if picture.mode == "F" else "signed or 32-bit"
        raise DepthError(f"{kind} pixels have no defined white: save 8 or 16 bits per channel")
    levels: Levels = (np.asarray(picture) != 0)[..., None].astype(np.uint16)
    return levels
