"""Checks of encoded image files without decoding: what decoding costs, and that none is truncated.

A decoder's work is bounded by bytes and pixels for every format but where a file may ask for the
same pixels again and again (scans of a JPEG), may come in countless tiny pieces, or is decoded by
Python code.

An image that may be sent as it is is checked for completeness without storing a pixel. All data
that a decoder reads is read: the deflated data of a PNG to its last byte and checksum, the
entropy-coded data of a JPEG to its last block. Only steps that cannot fail are left out: filters,
transforms, colours. A file that is not plain in every respect is decoded instead, so that the
decoder alone decides what is refused. The one exception is a stream with codes that the format does
not have but with a right checksum: libdeflate takes it and Pillow does not. No encoder writes it.
"""

from __future__ import annotations

import io
import re
from typing import NamedTuple

import deflate
from PIL import Image as Pil

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_CHANNELS = {0: 1, 2: 3}
"""By the colour type of a PNG: grey and RGB; others have a palette or transparency."""
_LENGTHS = {b"IHDR": 13, b"pHYs": 9, b"gAMA": 4, b"sRGB": 1, b"IEND": 0}
"""Of the chunks that may stand beside the data; any other may hold what is not to be sent."""
_HIGHEST_FILTER = 4
_CHECKSUM = 4
"""Bytes of the Adler-32 that ends a zlib stream."""
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
# What Pillow reads of a file that tells nothing about who made it, where or with what.
_HARMLESS = frozenset(
    {
        "jfif",
        "jfif_version",
        "jfif_unit",
        "jfif_density",
        "dpi",
        "progressive",
        "progression",
        "interlace",
        "loop",
        "background",
        "timestamp",
        "duration",
        "gamma",
        "srgb",
        "aspect",
    }
)

MAX_SCANS = 64
"""Of a JPEG; encoders write about ten, and each costs as much as the whole picture."""
MAX_PIECES = 1 << 18
"""Segments, chunks or blocks; 32 MiB in the longest blocks of a GIF are half as many."""
MAX_COMMENT = 1 << 20
"""Bytes of one comment of a GIF: Pillow's time grows with their square."""
MAX_SLOW = 8 * 1024 * 1024
"""Bytes of what Pillow decodes without C: numbers as text (PPM), run lengths (BMP)."""
MAX_REMARKS = 1000
"""In a picture of numbers as text, whose time grows with their square."""
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])")  # neither stuffing nor a restart
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_BARE = frozenset({0x01, 0xD8})
"""Markers of a JPEG without a segment; restarts are none of `_MARKER`."""


class ImageInfo(NamedTuple):
    """Facts of an image that was not decoded.

    Attributes:
        size: Width and height in pixels, upright.
        media_type: `image/png` or `image/jpeg`.
    """

    size: tuple[int, int]
    media_type: str


def media_type_of(picture: Pil.Image) -> str | None:
    """The media type of an opened file that holds only RGB or grey pixels; None otherwise.

    Load a PNG first: its metadata may stand at the end.
    """
    if picture.mode not in {"RGB", "L"} or set(picture.info) - _HARMLESS or picture.getexif():
        return None
    return _MEDIA_TYPES.get(str(picture.format))


def inspect_image(data: bytes, most: int) -> ImageInfo | None:
    """Check that a file is a complete, upright, opaque 8-bit image without metadata.

    Returns None if the file has to be decoded to know: it is too large, damaged or of another kind.

    Args:
        data: The content of the file, within the limits of `images`.
        most: Pixels.
    """
    if data.startswith(_SIGNATURE):
        return _inspect_png(data, most)
    if data.startswith(_JPEG):
        return _inspect_jpeg(data, most)
    return None


def _inspect_png(data: bytes, max_pixels: int) -> ImageInfo | None:
    chunks = _chunks(data)
    if not chunks or chunks[0][0] != b"IHDR" or chunks[-1][0] != b"IEND":
        return None
    kinds = [kind for kind, _ in chunks]
    first, last = kinds.index(b"IDAT"), len(kinds) - 1
    if kinds.count(b"IHDR") > 1 or set(kinds[first:last]) != {b"IDAT"}:
        return None
    header = chunks[0][1]
    width, height = int.from_bytes(header[:4]), int.from_bytes(header[4:8])
    depth, colour, *ways = header[8:13]
    if depth != 8 or colour not in _CHANNELS or any(ways) or not 0 < width * height <= max_pixels:
        return None
    stride = 1 + width * _CHANNELS[colour]
    stream = b"".join(content for _, content in chunks[first:last])
    return (
        ImageInfo((width, height), "image/png")
        if _is_complete_stream(stream, stride, height)
        else None
    )


def _chunks(data: bytes) -> list[tuple[bytes, memoryview]] | None:
    """Kind and content of every chunk of a plain PNG; None if one is damaged or of another kind."""
    chunks, at, view = [], len(_SIGNATURE), memoryview(data)
    while at < len(data):
        length, kind = int.from_bytes(view[at : at + 4]), bytes(view[at + 4 : at + 8])
        end = at + 8 + length
        if end + 4 > len(data) or (kind != b"IDAT" and _LENGTHS.get(kind) != length):
            return None
        checksum = int.from_bytes(view[end : end + 4])
        # Of the data the stream has a checksum of its own.
        if kind != b"IDAT" and deflate.crc32(view[at + 4 : end]) != checksum:
            return None
        chunks.append((kind, view[at + 8 : end]))
        at = end + 4
    return chunks if any(kind == b"IDAT" for kind, _ in chunks) else None


def _is_complete_stream(stream: bytes, stride: int, rows: int) -> bool:
    """Whether a stream is complete and holds this many rows, each with a valid filter."""
    try:
        # Never more than is due, whatever the stream would become.
        out = deflate.zlib_decompress(stream, stride * rows)
    except deflate.DeflateError:
        return False
    # What comes after the stream libdeflate passes over: the data has to end with the checksum of
    # what came out.
    ends = int.from_bytes(stream[-_CHECKSUM:]) == deflate.adler32(out)
    return ends and len(out) == stride * rows and max(out[::stride]) <= _HIGHEST_FILTER


def _inspect_jpeg(data: bytes, max_pixels: int) -> ImageInfo | None:
    try:
        with Pil.open(io.BytesIO(data), formats=("JPEG",)) as picture:
            size = picture.size
            media_type = media_type_of(picture)
            if media_type is None or size[0] * size[1] > max_pixels:
                return None
            # An eighth of the size: the same bits are read, most of the arithmetic is left out.
            picture.draft(None, (1, 1))
            picture.load()
    except Exception:  # noqa: BLE001 - Pillow raises anything on damaged data; decoding tells
        return None
    return ImageInfo(size, media_type)


def check_structure(data: bytes) -> None:
    """Refuse a file that takes its decoder much longer than its size in bytes and pixels suggests.

    Other formats and damaged files pass; the decoder refuses them.

    Raises:
        ValueError: one line that names the excess.
    """
    if data.startswith(_JPEG):
        _check_jpeg(data)
    elif data.startswith((b"GIF87a", b"GIF89a")):
        _check_gif(data)
    elif data.startswith(_SIGNATURE):
        _check_png(data)
    elif data.startswith((b"P1", b"P2", b"P3")):
        _check_slow(data, "numbers as text")
        if data.count(b"#") > MAX_REMARKS:
            raise ValueError(f"more than {MAX_REMARKS:,} comments")
    elif data.startswith(b"BM") and data[30:31] in {b"\x01", b"\x02"}:
        _check_slow(data, "run lengths")


def _check_slow(data: bytes, what: str) -> None:
    if len(data) > MAX_SLOW:
        raise ValueError(f"{len(data):,} bytes of {what}, the limit is {MAX_SLOW:,}")


def _check_jpeg(data: bytes) -> None:
    # Where the bytes of the marker are rare, there is no need to tell markers from what looks so.
    few = data.count(b"\xff\xda") <= MAX_SCANS
    scans = pieces = 0
    at = 2
    while marker := _MARKER.search(data, at):
        at, kind = marker.end(), marker[1][0]
        pieces += 1
        scans += kind == _START_OF_SCAN
        if pieces > MAX_PIECES:
            raise _too_many_pieces()
        if scans > MAX_SCANS:
            raise ValueError(f"more than {MAX_SCANS} scans")
        if kind == _END_OF_IMAGE or (few and scans):
            return
        if kind not in _BARE:
            at += int.from_bytes(data[at : at + 2])


def _check_gif(data: bytes) -> None:
    at = 13 + _colours(data, 10)
    pieces = 0
    while at < len(data):
        kind = data[at]
        if kind == 0x21:  # an extension, of a label and blocks
            comment, at = data[at + 1 : at + 2] == b"\xfe", at + 2
        elif kind == 0x2C:  # a frame, of 9 bytes, its colours, the size of a code and blocks
            comment, at = False, at + 11 + _colours(data, at + 9)
        elif kind == 0x3B:
            return
        else:
            at, pieces = at + 1, pieces + 1
            continue
        start = at
        while at < len(data) and data[at]:
            at, pieces = at + 1 + data[at], pieces + 1
            if pieces > MAX_PIECES:
                raise _too_many_pieces()
            if comment and at - start > MAX_COMMENT:
                raise ValueError(f"a comment of more than {MAX_COMMENT:,} bytes")
        at, pieces = at + 1, pieces + 1
        if pieces > MAX_PIECES:
            raise _too_many_pieces()


def _colours(data: bytes, at: int) -> int:
    """Bytes of the colour table that a GIF's flags announce."""
    flags = data[at] if at < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _check_png(data: bytes) -> None:
    at = 8
    for _ in range(MAX_PIECES):
        if at >= len(data):
            return
        at += 12 + int.from_bytes(data[at : at + 4])
    raise _too_many_pieces()


def _too_many_pieces() -> ValueError:
    return ValueError(f"in more than {MAX_PIECES:,} pieces")
