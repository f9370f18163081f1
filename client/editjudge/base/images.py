"""Images and masks, and the decoder that client and services share.

All other code sees upright 8-bit RGB. Each conversion on the way is recorded as a note. A file that
is not one still image, or that exceeds a limit, is refused with its name and the reason.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil
from PIL import UnidentifiedImageError

from .digest import content_digest
from .errors import ImageError, UnreadError
from .integrity import (
    check_exif,
    check_structure,
    inspect_image,
    media_type_of,
    prove_once,
    recall_image,
    remember_image,
)
from .objects import find_url, get_object_state, read_object
from .rgb import (
    ORIENTATION_TAG,
    DecodingRules,
    DepthError,
    Note,
    Notes,
    check_samples,
    is_deep,
    levels_of,
    read_16_bits,
    scale_clear_grey,
    states_white,
    to_black_or_not,
    to_rgb,
)
from .rgb import RGB as RGB  # noqa: PLC0414 - others have it from here
from .signature import implementation
from .text import one_line

_Unread: TypeAlias = "str | os.PathLike[str] | bytes | Pil.Image | NDArray[Any]"
ImageLike: TypeAlias = "_Unread | Image"

MAX_BYTES = 32 * 1024 * 1024
MAX_PIXELS = 64 * 1024 * 1024
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM")
MASK_THRESHOLD = 128
"""The lowest value that counts as white in a JPEG mask, because JPEG does not preserve zeros."""
_SUFFIXES = {f".{kind.lower()}": kind for kind in FORMATS} | {".jpg": "JPEG", ".tif": "TIFF"}
_JPEG = b"\xff\xd8"


_PICTURE = DecodingRules()
_MASK = DecodingRules(to_black_or_not, from_32=True)
_OPAQUE = DecodingRules(over_white=False)
MAX_PATH = 4096
"""The largest number of characters in a path (Linux)."""
_LONGEST = 1024
"""The largest number of characters of a path in an error message."""
_BOMBS = (Pil.DecompressionBombError, Pil.DecompressionBombWarning)


class DecodedPicture(NamedTuple):
    """A decoded image file.

    Attributes:
        rgb: uint8 of shape (H, W, 3), read-only.
        notes: Conversions made while decoding.
        media_type: The media type, if the file may be sent unchanged; see `Image`.
    """

    rgb: RGB
    notes: Notes
    media_type: str | None


class _Picture:
    """Base of images and masks.

    Attributes:
        name: Name in error messages and reports.
        encoded_bytes: The bytes that services receive: the file's own, or a PNG made of an array.
        notes: Conversions made while decoding.
        file: The path as the caller gave it; "" for an image that is not from a path.
    """

    name: str
    encoded_bytes: bytes
    notes: Notes
    file: str

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits of the encoded bytes; computed once."""
        # `cached_property` of Python 3.11 would share one lock among all images.
        own: dict[str, str] = vars(self)
        return own.get("_digest") or own.setdefault("_digest", content_digest(self.encoded_bytes))


class Image(_Picture):
    """One still image.

    Args:
        pixels: The decoded image. None for a file that was checked for completeness; it is then
            decoded when its pixels are first read.
        media_type: `image/png` or the like if `encoded_bytes` may be sent unchanged, that is, if
            nothing was converted while decoding and the file holds no metadata. None otherwise.
        size: Width and height; needed if `pixels` is None.
        digest: Its `digest`, where it is known.

    Attributes:
        size: Width and height in pixels.
    """

    def __init__(
        self,
        name: str,
        encoded_bytes: bytes,
        pixels: RGB | None,
        notes: Notes = (),
        *,
        media_type: str | None = None,
        size: tuple[int, int] | None = None,
        digest: str = "",
    ) -> None:
        self.name, self.encoded_bytes = name, encoded_bytes
        if digest:
            self._digest = digest
        if pixels is not None:
            size = pixels.shape[1], pixels.shape[0]
        elif size is None:
            raise ValueError(f"{name}: give pixels or a size")
        self.notes = notes
        self.file = ""
        self.media_type = media_type
        self.size = size
        self._pixels = pixels
        self._decoding = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in {"_pixels", "_decoding"}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _pixels=None, _decoding=Lock())

    @property
    def had_alpha(self) -> bool:
        """Whether the image had transparency, which was dropped or blended with white."""
        return any(note.kind == "alpha" for note in self.notes)

    @property
    def rgb(self) -> RGB:
        """Upright pixels: uint8 of shape (H, W, 3), 0..255, read-only. Any thread may read them."""
        with self._decoding:
            if self._pixels is None:
                try:
                    self._pixels = _decode(self.encoded_bytes, _PICTURE).rgb
                except ValueError as error:
                    raise _make_image_error(self.name, error) from error
            return self._pixels

    @property
    def memory_bytes(self) -> int:
        """Memory that the image takes now, in bytes; it grows when the pixels are decoded."""
        return len(self.encoded_bytes) + (0 if self._pixels is None else self._pixels.nbytes)


@dataclass(frozen=True, eq=False)
class Mask(_Picture):
    """The region in which an edit may change its source.

    Attributes:
        region: The region that may change (white in the file): bool of shape (H, W), read-only.
        stretches_to_frame: Whether `resize` stretches the mask to any aspect ratio. Official masks
            are square while their images are not, and an output may have another aspect ratio than
            the source that the mask was made for.
    """

    name: str
    encoded_bytes: bytes
    region: NDArray[np.bool_]
    notes: Notes = ()
    file: str = ""
    stretches_to_frame: bool = False

    @property
    def memory_bytes(self) -> int:
        """Memory that the mask takes, in bytes."""
        return len(self.encoded_bytes) + self.region.nbytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.region.shape[1], self.region.shape[0]

    def invert(self) -> Mask:
        """Return the mask with white and black exchanged."""
        return replace(self, region=~self.region, notes=(*self.notes, Note("mask", "mask inverted")))

    def resize(self, size: tuple[int, int]) -> Mask:
        """Resize the mask to (width, height) by nearest neighbour.

        Raises:
            ImageError: The aspect ratios differ by more than one pixel, so the mask belongs to
                another image. A mask that stretches to the frame is never refused.
        """
        if size == self.size:
            return self
        if not self.stretches_to_frame:
            self.check_fits(size)
        how = "stretched" if self.stretches_to_frame else "resized"
        (width, height), (w, h) = self.size, size
        note = Note("mask", f"mask {how} from {width}x{height} to {w}x{h} (nearest)")
        return replace(self, region=self._sample(size), notes=(*self.notes, note))

    def _sample(self, size: tuple[int, int]) -> NDArray[np.bool_]:
        if not self.stretches_to_frame:
            return np.asarray(Pil.fromarray(self.region).resize(size, Pil.Resampling.NEAREST), dtype=bool)
        # As OpenCV does in the benchmark's code: at the upper left corner of a pixel, not at its centre.
        columns, rows = (
            np.minimum(np.floor(np.arange(to) * (1.0 / (to / of))).astype(np.intp), of - 1)
            for of, to in zip(self.size, size, strict=True)
        )
        return np.asarray(self.region[rows[:, None], columns])

    def check_fits(self, size: tuple[int, int]) -> None:
        """Check that the mask has the size or the aspect ratio of an image of this (width, height).

        Raises:
            ImageError: The aspect ratios differ by more than one pixel.
        """
        (width, height), (w, h) = self.size, size
        if abs(width * h - height * w) > max(w, h, width, height):
            raise ImageError(
                self.name,
                f"mask of {width}x{height} for an image of {w}x{h}",
                "give a mask of the same size, or at least the same aspect ratio",
            )


def load_image(image: ImageLike, name: str = "", *, max_lazy_pixels: int = 0) -> Image:
    """Read an image from a path, encoded bytes, a Pillow image or an array.

    Args:
        image: The image. Arrays are uint8 of shape (H, W), (H, W, 3) or (H, W, 4), in RGB order.
        name: Name in error messages; by default the path. For bytes, the suffix of the name is
            treated as the file's suffix.
        max_lazy_pixels: Files of at most this many pixels that may be sent unchanged are decoded
            only when their pixels are read. Completeness is checked at once; see `base.integrity`.

    Raises:
        ImageError: The image is missing, empty, truncated, animated, larger than 32 MiB or 64
            megapixels, of 16 bits with no value above a quarter of the scale (see `base.rgb`), or
            not an image.
    """
    return image if isinstance(image, Image) else _load(image, name, _PICTURE, max_lazy_pixels)


def leave_encoded(data: bytes, name: str, max_pixels: int, suffix: str | None = None, digest: str = "") -> Image | None:
    """Make an image that is decoded only when its pixels are read.

    A file is checked once in a process; whether it was is known by its digest.

    Args:
        suffix: Of the file, in lower case; by default that of its name.
        digest: Of the file, where it is known.

    Returns:
        None for a file of more pixels, or where only decoding can tell whether it is an image.

    Raises:
        ImageError: The file is empty, or too large or too slow to decode.
    """
    suffix = PurePath(name).suffix.lower() if suffix is None else suffix
    name = name or "image bytes"
    digest, most = digest or content_digest(data), min(max_pixels, MAX_PIXELS)
    with prove_once(digest):
        info = recall_image(digest, most)
        if info is None:
            try:
                _check_cost(data)
                info = inspect_image(data, most)
            except ValueError as error:
                raise _make_image_error(name, error) from error
            if info is None:
                return None
            remember_image(digest, info)
    # A file whose suffix names another format gets a note, and is not sent unchanged.
    if info.media_type != f"image/{_SUFFIXES.get(suffix, info.media_type[6:]).lower()}":
        return None
    return Image(name, data, None, media_type=info.media_type, size=info.size, digest=digest)


def count_pixels(data: bytes) -> int:
    """Read the number of pixels from a file's header; 0 for a file that `decode` would refuse."""
    try:
        _check_cost(data)
        with Pil.open(io.BytesIO(data), formats=FORMATS) as picture:
            pixels = picture.width * picture.height
            return pixels if pixels <= MAX_PIXELS else 0
    except Exception:  # noqa: BLE001 - Pillow's plugins raise anything; decoding tells what
        return 0


@implementation(2)
def load_mask(mask: ImageLike | NDArray[np.bool_] | Mask, name: str = "") -> Mask:
    """Read a mask: the edit may change each pixel that is not zero, at any bit depth.

    In a JPEG, which does not preserve zeros, it may change pixels of 128 and above.

    Args:
        mask: The mask. Arrays may also be bool or of any integer dtype.
        name: Name in error messages; by default the path.

    Raises:
        ImageError: As for `load_image`; or the mask is coloured or transparent, so that its region
            is not defined.
    """
    if isinstance(mask, Mask):
        return mask
    unread: _Unread
    if isinstance(mask, Image):
        # Its pixels may have been reduced to 8 bits.
        unread, name = mask.encoded_bytes, name or mask.name
    elif isinstance(mask, np.ndarray) and mask.dtype.kind in "biu" and mask.dtype != np.uint8:
        unread, name = (mask != 0).astype(np.uint8) * 255, name or "mask"
    else:
        unread = mask
    image = _load(unread, name, _MASK)
    if image.had_alpha:
        raise ImageError(image.name, "mask with transparency", "save it as black and white")
    grey = image.rgb[..., 0]
    if np.any(image.rgb != grey[..., None]):
        raise ImageError(image.name, "mask in colour", "save it as black and white")
    lossy = image.encoded_bytes.startswith(_JPEG)
    region = grey >= MASK_THRESHOLD if lossy else grey > 0
    notes = image.notes
    if np.any(region * np.uint8(255) != grey):
        white_values = f"{MASK_THRESHOLD} and above" if lossy else "all that is not black"
        notes = (*notes, Note("mask", f"grey mask: {white_values} taken as white"))
    return Mask(image.name, image.encoded_bytes, region, notes, image.file)


def encode_mask(region: NDArray[np.bool_]) -> bytes:
    """Encode the region of a mask, of shape (H, W), as a 1-bit PNG."""
    buffer = io.BytesIO()
    Pil.fromarray(region).save(buffer, "PNG")
    return buffer.getvalue()


@implementation(3)
def decode(data: bytes) -> tuple[RGB, Notes]:
    """Decode one still image to upright 8-bit RGB, within the limits on bytes and pixels.

    Returns:
        A read-only uint8 array of shape (H, W, 3), and notes on what was converted.

    Raises:
        ValueError: The data cannot be decoded; the message is one line.
    """
    picture = _decode(data, _PICTURE)
    return picture.rgb, picture.notes


def _check_cost(data: bytes) -> None:
    """Refuse data that is empty, too large or too slow to decode."""
    if not data:
        raise ValueError("0 bytes")
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data):,} bytes, the limit is {MAX_BYTES:,}")
    check_structure(data)


def _decode(data: bytes, reading: DecodingRules, least_side: int = 0) -> DecodedPicture:
    """Decode an image by the given rules for transparency and bit depth; see `decode`.

    Args:
        least_side: If given, a JPEG may be decoded smaller, down to this side.
    """
    _check_cost(data)
    try:
        with Pil.open(io.BytesIO(data), formats=FORMATS) as picture:
            _check_header(picture)
            check_samples(picture, reading)
            deep = is_deep(picture)
            may_be_dark = deep and states_white(picture)
            scale_clear_grey(picture)
            if least_side:
                picture.draft(None, (least_side, least_side))
            picture.load()
            check_exif(picture)
            turn = picture.getexif().get(ORIENTATION_TAG, 1)
            # No variable holds the 16-bit values, so their memory is freed during the reduction.
            rgb, notes = to_rgb(picture, reading, read_16_bits(picture, data) if deep else None, turn, may_be_dark)
            media_type = None if notes else media_type_of(picture)
    except UnidentifiedImageError:
        raise ValueError(f"not an image ({', '.join(FORMATS)} are read)") from None
    except _BOMBS:
        raise ValueError(f"more pixels than the limit of {MAX_PIXELS:,}") from None
    except DepthError:
        raise
    except ValueError as error:
        raise ValueError(one_line(error)) from None
    except Exception as error:  # noqa: BLE001 - Pillow's plugins raise anything on damaged data
        raise ValueError(f"damaged or truncated: {one_line(error)}") from None
    rgb.setflags(write=False)
    return DecodedPicture(rgb, notes, media_type)


def drop_alpha(image: Image) -> Image:
    """Decode an image again without its transparency, so that the hidden colours show.

    An image without transparency, or made of an array, is returned unchanged.
    """
    if not image.had_alpha:
        return image
    rgb, notes, _ = _decode(image.encoded_bytes, _OPAQUE)
    return make_ppm(image.name, rgb, (*notes, Note("alpha", "alpha dropped")))


def make_ppm(name: str, rgb: RGB, notes: Notes = ()) -> Image:
    """Make an image for one use: a PNG takes longer to pack and unpack than more bytes take to send."""
    buffer = io.BytesIO()
    Pil.fromarray(rgb).save(buffer, "PPM")
    return Image(name, buffer.getvalue(), rgb, notes)


def read_thumbnail(path: str | os.PathLike[str], side: int) -> RGB | None:
    """Read an image as a square thumbnail, whatever its shape; None if it cannot be read.

    Args:
        side: Its rows and columns. A JPEG is decoded at a fraction of its size, down to an eighth.

    Returns:
        uint8 of shape (side, side, 3), each pixel the mean of its part of the upright image.
    """
    try:
        rgb = _decode(_read_file(Path(path), ""), _PICTURE, 4 * side).rgb
    except (ImageError, ValueError):
        return None
    return np.asarray(Pil.fromarray(rgb).resize((side, side), Pil.Resampling.BOX))


def format_path(path: os.PathLike[str] | str) -> str:
    """Format a path, or its URL, as printable UTF-8; beyond 1,024 characters it is cut."""
    text = os.fsencode(find_url(path) or path).decode("utf-8", "backslashreplace")
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … ({len(text):,} characters) … {text[-_LONGEST // 4 :]}"


def _read_file(path: Path, name: str) -> bytes:
    try:
        if url := find_url(path):
            if (size := get_object_state(url).size) > MAX_BYTES:
                raise ImageError(name, f"{size:,} bytes, the limit is {MAX_BYTES:,}")
            return read_object(url)
        if path.is_dir():
            raise ImageError(name, "is a directory", "give an image file")
        if not path.is_file():
            raise UnreadError(name, "no such file", "check the path")
        if path.stat().st_size > MAX_BYTES:
            raise ImageError(name, f"{path.stat().st_size:,} bytes, the limit is {MAX_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise UnreadError(name, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ImageError(name, f"cannot be read: {error}") from error


def _load(image: _Unread, name: str, reading: DecodingRules, lazy_limit: int = 0) -> Image:
    if isinstance(image, bytes):
        suffix = PurePath(name).suffix.lower()
        return _from_bytes(image, name or "image bytes", reading, lazy_limit, suffix)
    if isinstance(image, Pil.Image):
        return _from_pillow(image, name or "image", reading)
    if isinstance(image, np.ndarray):
        return _from_array(image, name or "image array", reading)
    if not isinstance(image, str | os.PathLike):
        raise ImageError(
            name or "image", f"{type(image).__name__} is not an image", "give a path, bytes, a Pillow image or an array"
        )
    path = Path(image)
    label = name or format_path(path)
    suffix = path.suffix.lower()
    picture = _from_bytes(_read_file(path, label), label, reading, lazy_limit, suffix)
    picture.file = os.fspath(image)
    return picture


def _from_bytes(data: bytes, name: str, reading: DecodingRules, lazy_limit: int, suffix: str = "") -> Image:
    expected_format = _SUFFIXES.get(suffix)
    if lazy_limit and (image := leave_encoded(data, name, lazy_limit, suffix)):
        return image
    try:
        rgb, notes, media_type = _decode(data, reading)
    except ValueError as error:
        raise _make_image_error(name, error) from error
    actual_format = _format(data) if expected_format else expected_format
    if actual_format != expected_format:
        notes = (*notes, Note("misnamed", f"named {suffix} but holds {actual_format}"))
        media_type = None
    return Image(name, data, rgb, notes, media_type=media_type)


def _from_pillow(picture: Pil.Image, name: str, reading: DecodingRules) -> Image:
    try:
        _check_header(picture)
        check_samples(picture, reading)
        levels = levels_of(picture)
        rgb, notes = to_rgb(picture, reading, levels, picture.getexif().get(ORIENTATION_TAG, 1))
    except Exception as error:
        # A Pillow image that is open but not loaded is decoded here; see `decode`.
        raise _make_image_error(name, error) from error
    return _encode(rgb, name, notes)


def _make_image_error(name: str, error: Exception) -> ImageError:
    """Make the error of an image that cannot be read; a `DepthError` already names the fix."""
    if isinstance(error, DepthError):
        return ImageError(name, str(error))
    return ImageError(name, one_line(error), "give one still image")


def _from_array(array: NDArray[Any], name: str, reading: DecodingRules) -> Image:
    has_image_shape = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in {3, 4})
    if array.dtype != np.uint8 or not has_image_shape or 0 in array.shape:
        raise ImageError(
            name,
            f"array of {array.dtype} and shape {array.shape}",
            "give uint8 of shape (H, W), (H, W, 3) or (H, W, 4)",
        )
    return _from_pillow(Pil.fromarray(array), name, reading)


def _encode(rgb: RGB, name: str, notes: Notes) -> Image:
    if rgb.shape[0] * rgb.shape[1] > MAX_PIXELS:
        raise ImageError(name, f"more pixels than the limit of {MAX_PIXELS:,}")
    buffer = io.BytesIO()
    # Level 1: three times as fast as the default for a tenth more bytes.
    Pil.fromarray(rgb).save(buffer, "PNG", compress_level=1)
    rgb.setflags(write=False)
    return Image(name, buffer.getvalue(), rgb, notes, media_type=None if notes else "image/png")


def _check_header(picture: Pil.Image) -> None:
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels, the limit is {MAX_PIXELS:,} in all")
    # An MPO is a JPEG whose further frames are the phone's previews of the first.
    # Pillow knows at once whether there is another frame; counting all may take any time.
    if picture.format != "MPO" and getattr(picture, "is_animated", False):
        raise ValueError("more than one frame")


def _format(data: bytes) -> str:
    with Pil.open(io.BytesIO(data), formats=FORMATS) as picture:
        # A JPEG with an MPF segment (several phones write it) is still a JPEG.
        return "JPEG" if picture.format == "MPO" else str(picture.format)


def check_image(name: str, image: RGB) -> None:
    """Check that an image is `uint8` of shape (H, W, 3) with at least one pixel.

    Args:
        name: Name of the image in the message.
        image: The image.

    Raises:
        ValueError: The image has another shape or dtype, or no pixels.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ValueError(f"{name} must be uint8 of shape (H, W, 3), not {image.dtype} of shape {image.shape}")
