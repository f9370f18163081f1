"""Images and masks: one decoder for client and services, with limits.

Everything downstream sees upright 8-bit RGB. What had to be done to get there is noted,
and what cannot be one still picture is refused with its name and the reason.
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import ImageOps, UnidentifiedImageError

from .digest import content_digest
from .errors import ImageError
from .structure import check_structure

RGB: TypeAlias = NDArray[np.uint8]
ImageLike: TypeAlias = "str | os.PathLike[str] | bytes | Pil.Image | NDArray[Any] | Image"

MAX_BYTES = 32 * 1024 * 1024
MAX_PIXELS = 64 * 1024 * 1024
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM")
MASK_THRESHOLD = 128
_SUFFIXES = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".gif": "GIF",
    ".ppm": "PPM",
}
_DEEP = re.compile(r";16[BLN]S?$")  # of raw modes; "BGR;16" has 16 bits in all three
MAX_PATH = 4096
"""Characters; no longer one names a file (Linux)."""
_BAND_PIXELS = 1024 * 1024
_LONGEST = 1024
"""Characters of a path that errors show."""
_BOMBS = (Pil.DecompressionBombError, Pil.DecompressionBombWarning)


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


@dataclass(frozen=True, eq=False)
class _Picture:
    """What images and masks share.

    Attributes:
        name: How errors and reports call it.
        encoded: What travels to services: the file's own bytes, or PNG made from an array.
        pixels: The decoded picture, read-only.
        notes: What was converted on the way.
    """

    name: str
    encoded: bytes
    pixels: NDArray[Any]
    notes: Notes = ()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @cached_property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits, of the encoded bytes."""
        return content_digest(self.encoded)


class Image(_Picture):
    """One still picture."""

    @property
    def rgb(self) -> RGB:
        """uint8 of shape (H, W, 3), upright, 0..255, read-only."""
        return self.pixels


class Mask(_Picture):
    """Where an edit may change its source."""

    @property
    def selected(self) -> NDArray[np.bool_]:
        """Bool of shape (H, W); True may change (white in the file)."""
        return self.pixels

    def inverted(self) -> Mask:
        """Where this one may not change the source."""
        return replace(
            self, pixels=~self.pixels, notes=(*self.notes, Note("mask", "mask inverted"))
        )

    def fitted(self, size: tuple[int, int]) -> Mask:
        """The mask at another size (nearest neighbour).

        Raises:
            ImageError: the aspect ratio differs by more than a pixel's worth: the mask
                belongs to another picture.
        """
        if size == self.size:
            return self
        (width, height), (w, h) = self.size, size
        if abs(width * h - height * w) > max(w, h, width, height):
            raise ImageError(
                self.name,
                f"mask of {width}x{height} for an image of {w}x{h}",
                "give a mask of the same size, or at least the same aspect ratio",
            )
        picture = Pil.fromarray(self.selected).resize(size, Pil.Resampling.NEAREST)
        note = Note("mask", f"mask resized from {width}x{height} to {w}x{h} (nearest)")
        return replace(self, pixels=np.asarray(picture, dtype=bool), notes=(*self.notes, note))


def load_image(image: ImageLike, name: str = "") -> Image:
    """Read an image from a path, encoded bytes, a Pillow image or an array.

    Args:
        image: Arrays are uint8 of shape (H, W), (H, W, 3) or (H, W, 4), RGB order.
        name: How errors call it; the path by default.

    Raises:
        ImageError: missing, empty, truncated, animated, beyond 32 MiB or 64 megapixels,
            or not an image.
    """
    if isinstance(image, Image):
        return image
    if isinstance(image, bytes):
        return _from_bytes(image, name or "image bytes")
    if isinstance(image, Pil.Image):
        return _from_pillow(image, name or "image")
    if isinstance(image, np.ndarray):
        return _from_array(image, name or "image array")
    path = Path(image)
    shown = name or show_path(path)
    if len(str(path)) > MAX_PATH:
        raise ImageError(shown, f"a path of {len(str(path)):,} characters", "check the path")
    return _from_bytes(_read(path, shown), shown, suffix=path.suffix.lower())


def load_mask(mask: ImageLike | NDArray[np.bool_] | Mask, name: str = "") -> Mask:
    """Read a mask: white (or 1 in a mask of 0 and 1) may change, black must stay.

    Raises:
        ImageError: as `load_image`, or the mask is coloured or transparent, so that what
            it selects cannot be told.
    """
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_:
        mask = mask.astype(np.uint8) * 255
    image = load_image(mask, name or ("mask" if isinstance(mask, np.ndarray) else ""))
    if any(note.kind == "alpha" for note in image.notes):
        raise ImageError(image.name, "mask with transparency", "save it as black and white")
    grey = image.rgb[..., 0]
    if np.any(image.rgb != grey[..., None]):
        raise ImageError(image.name, "mask in colour", "save it as black and white")
    levels = np.unique(grey)
    notes = image.notes
    if levels[-1] == 1:
        selected = grey == 1
        notes = (*notes, Note("mask", "mask of 0 and 1: 1 taken as white"))
    else:
        selected = grey >= MASK_THRESHOLD
        if np.any((levels > 0) & (levels < 255)):
            said = f"grey mask: {MASK_THRESHOLD} and above taken as white"
            notes = (*notes, Note("mask", said))
    return Mask(image.name, image.encoded, selected, notes)


def decode(data: bytes) -> tuple[RGB, Notes]:
    """Decode one still picture to upright 8-bit RGB, within the limits.

    Returns:
        A read-only uint8 array of shape (H, W, 3), and notes on what was converted.

    Raises:
        ValueError: one line saying what is wrong with the data.
    """
    if not data:
        raise ValueError("0 bytes")
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data):,} bytes, the limit is {MAX_BYTES:,}")
    check_structure(data)
    try:
        with Pil.open(io.BytesIO(data), formats=FORMATS) as picture:
            _check_header(picture)
            _check_samples(picture)
            deep = _is_deep(picture)
            picture.load()
            upright, turned = _upright(picture)
            rgb, notes = _to_rgb(upright, deep=deep)
    except UnidentifiedImageError:
        raise ValueError(f"not an image ({', '.join(FORMATS)} are read)") from None
    except _BOMBS:
        raise ValueError(f"more pixels than the limit of {MAX_PIXELS:,}") from None
    except ValueError as error:
        raise ValueError(_line(error)) from None
    except Exception as error:  # noqa: BLE001 - Pillow's plugins raise anything on damaged data
        raise ValueError(f"damaged or truncated: {_line(error)}") from None
    rgb.setflags(write=False)
    return rgb, turned + notes


def show_path(path: os.PathLike[str] | str) -> str:
    """A path as printable UTF-8, whatever bytes it holds; of a very long one its two ends."""
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    if len(shown) <= _LONGEST:
        return shown
    return f"{shown[: _LONGEST // 2]} … ({len(shown):,} characters) … {shown[-_LONGEST // 4 :]}"


def _line(error: BaseException) -> str:
    """What an error says in one line, or what it is."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _read(path: Path, shown: str) -> bytes:
    try:
        if path.is_dir():
            raise ImageError(shown, "is a directory", "give an image file")
        if not path.is_file():
            raise ImageError(shown, "no such file", "check the path")
        if path.stat().st_size > MAX_BYTES:
            raise ImageError(shown, f"{path.stat().st_size:,} bytes, the limit is {MAX_BYTES:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ImageError(shown, f"cannot be read: {reason}") from error


def _from_bytes(data: bytes, name: str, suffix: str = "") -> Image:
    try:
        rgb, notes = decode(data)
    except ValueError as error:
        raise ImageError(name, str(error), "give one still image") from error
    expected = _SUFFIXES.get(suffix)
    actual = _format(data)
    if expected and actual != expected:
        notes = (*notes, Note("misnamed", f"named {suffix} but holds {actual}"))
    return Image(name, data, rgb, notes)


def _from_pillow(picture: Pil.Image, name: str) -> Image:
    try:
        _check_header(picture)
        _check_samples(picture)
        upright, turned = _upright(picture)
        rgb, notes = _to_rgb(upright)
    except Exception as error:
        # One that was opened and not read yet is decoded here; see `decode`.
        raise ImageError(name, _line(error), "give one still image") from error
    return _encoded(rgb, name, turned + notes)


def _from_array(array: NDArray[Any], name: str) -> Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in {3, 4})
    if array.dtype != np.uint8 or not shaped or 0 in array.shape:
        raise ImageError(
            name,
            f"array of {array.dtype} and shape {array.shape}",
            "give uint8 of shape (H, W), (H, W, 3) or (H, W, 4)",
        )
    return _from_pillow(Pil.fromarray(array), name)


def _encoded(rgb: RGB, name: str, notes: Notes) -> Image:
    if rgb.shape[0] * rgb.shape[1] > MAX_PIXELS:
        raise ImageError(name, f"more pixels than the limit of {MAX_PIXELS:,}")
    buffer = io.BytesIO()
    # Level 1: three times as fast as the default for a tenth more bytes.
    Pil.fromarray(rgb).save(buffer, "PNG", compress_level=1)
    return Image(name, buffer.getvalue(), rgb, notes)


def _check_header(picture: Pil.Image) -> None:
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels, the limit is {MAX_PIXELS:,} in all")
    # An MPO is a JPEG whose further frames are the phone's previews of the first.
    # Whether there is another frame is known at once; to count them all takes as long as they like.
    if picture.format != "MPO" and getattr(picture, "is_animated", False):
        raise ValueError("more than one frame")


def _check_samples(picture: Pil.Image) -> None:
    """Refuse samples whose black and white Pillow gets wrong; to be asked before it is loaded."""
    tags = getattr(picture, "tag_v2", {})
    bits, signs = tags.get(0x0102, (1,)), tags.get(0x0153, (1,))
    if 2 in signs:
        raise ValueError("signed pixels have no defined black")
    if 12 in bits:
        raise ValueError("12 bits per channel; 8 or 16 are read")
    if tags.get(0x0106) == 0 and 16 in bits:
        raise ValueError("16 bits per channel with white as 0")
    if picture.format == "PNG" and "transparency" in picture.info and _is_deep(picture):
        raise ValueError("16 bits per channel with a transparent colour; give it an alpha channel")


def _is_deep(picture: Pil.Image) -> bool:
    """Whether the file has 16 bits per channel; to be asked before it is loaded."""
    # By raw mode alone: what stands beside it in a tile may be any number.
    tiles = getattr(picture, "tile", [])
    modes = (args if isinstance(args, tuple) else (args,) for *_, args in tiles)
    return any(isinstance(raw, str) and _DEEP.search(raw) for raw, *_ in filter(None, modes))


def _upright(picture: Pil.Image) -> tuple[Pil.Image, Notes]:
    turned = picture.getexif().get(0x0112, 1) not in {0, 1}
    if not turned:
        return picture, ()
    note = Note("turned", "turned upright by its EXIF orientation")
    return ImageOps.exif_transpose(picture), (note,)


def _to_rgb(picture: Pil.Image, *, deep: bool = False) -> tuple[RGB, Notes]:
    """8-bit RGB of any mode, and what was done."""
    mode = picture.mode
    if mode == "F":
        raise ValueError("floating-point pixels have no defined white")
    if mode.startswith("I"):
        wide = np.asarray(picture).astype(np.int64)
        if wide.min() < 0 or wide.max() > 65535:
            raise ValueError("integer pixels outside 0..65535")
        # Arrays of 8-bit values are often saved as 16-bit files; read as such they are black.
        shallow = wide.max() <= 255
        grey = (wide if shallow else np.round(wide / 257)).astype(np.uint8)
        note = "16-bit file of 8-bit values" if shallow else "16 bits per channel reduced to 8"
        return np.stack([grey] * 3, axis=-1), (Note("depth", note),)
    notes: Notes = (Note("depth", "16 bits per channel reduced to 8"),) if deep else ()
    rgb, clear = _in_bands(picture)
    if clear:
        notes = (*notes, Note("alpha", "alpha laid over white"))
    elif mode not in {"RGB", "L", "1"} and not picture.has_transparency_data:
        notes = (*notes, Note("mode", f"converted from {mode} to RGB"))
    return rgb, notes


def _in_bands(picture: Pil.Image) -> tuple[RGB, bool]:
    """8-bit RGB, laid over white where it is clear; and whether any of it is.

    Every step is a copy of four bytes a pixel, so that it is taken for some rows at a time.
    """
    width, height = picture.size
    rgb = np.empty((height, width, 3), np.uint8)
    rows = max(1, _BAND_PIXELS // width)
    has_alpha, clear = picture.has_transparency_data, False
    for top in range(0, height, rows):
        band = picture.crop((0, top, width, min(top + rows, height)))
        if has_alpha:
            band = band.convert("RGBA")
            if band.getchannel("A").getextrema() != (255, 255):
                clear = True
                band = Pil.alpha_composite(Pil.new("RGBA", band.size, "white"), band)
        rgb[top : top + rows] = np.asarray(band.convert("RGB"))
    return rgb, clear


def _format(data: bytes) -> str:
    with Pil.open(io.BytesIO(data), formats=FORMATS) as picture:
        # A JPEG with an MPF segment (several phones write it) is still a JPEG.
        return "JPEG" if picture.format == "MPO" else str(picture.format)


def check_image(name: str, image: RGB) -> None:
    """Check that an image is `uint8` of shape (H, W, 3) with at least one pixel.

    Args:
        name: What the message calls the image.
        image: The image.

    Raises:
        ValueError: The shape or the dtype is another one.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ValueError(
            f"{name} must be uint8 of shape (H, W, 3), not {image.dtype} of shape {image.shape}"
        )
