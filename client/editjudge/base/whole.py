"""Pictures that can be sent as they are, known to be whole without keeping a pixel.

Of a header, a decoder that stops early, and bytes that only look right, no more than a part can be
told. So all that a decoder reads is read: the deflated data of a PNG to its last byte and checksum,
the entropy-coded data of a JPEG to its last block. What is left out is what comes after and cannot
fail: undoing filters, transforms, colours. What is not plain in every respect is not judged here
but decoded: there is one rule of what is refused, and it is the decoder's. The exception is a
stream with codes that the format has not and whose checksum is right all the same: libdeflate
takes it and Pillow does not. No encoder writes it.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import deflate
from PIL import Image as Pil

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
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


class Whole(NamedTuple):
    """What is known of a picture that was not decoded.

    Attributes:
        size: Width and height in pixels, upright.
        media_type: `image/png` or `image/jpeg`.
    """

    size: tuple[int, int]
    media_type: str


def media_type_of(picture: Pil.Image) -> str | None:
    """The media type of an opened file that holds RGB or grey and nothing else; None otherwise.

    Of a PNG it is known after loading only: metadata may stand at the end.
    """
    if picture.mode not in {"RGB", "L"} or set(picture.info) - _HARMLESS or picture.getexif():
        return None
    return _MEDIA_TYPES.get(str(picture.format))


def whole(data: bytes, most: int) -> Whole | None:
    """What is known of an upright opaque 8-bit picture without metadata that is whole.

    None says nothing about a picture, but that it has to be decoded: it is too large, is damaged,
    or is of another kind.

    Args:
        data: The file, within the limits of `images`.
        most: Pixels.
    """
    if data.startswith(_SIGNATURE):
        return _png(data, most)
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data, most)
    return None


def _png(data: bytes, most: int) -> Whole | None:
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
    if depth != 8 or colour not in _CHANNELS or any(ways) or not 0 < width * height <= most:
        return None
    stride = 1 + width * _CHANNELS[colour]
    deflated = b"".join(content for _, content in chunks[first:last])
    return Whole((width, height), "image/png") if _inflates(deflated, stride, height) else None


def _chunks(data: bytes) -> list[tuple[bytes, memoryview]] | None:
    """Kind and content of every chunk of a plain PNG; None where one is broken or not plain."""
    chunks, at, view = [], len(_SIGNATURE), memoryview(data)
    while at < len(data):
        length, kind = int.from_bytes(view[at : at + 4]), bytes(view[at + 4 : at + 8])
        end = at + 8 + length
        if end + 4 > len(data) or (kind != b"IDAT" and _LENGTHS.get(kind) != length):
            return None
        told = int.from_bytes(view[end : end + 4])
        # Of the data the stream has a checksum of its own.
        if kind != b"IDAT" and deflate.crc32(view[at + 4 : end]) != told:
            return None
        chunks.append((kind, view[at + 8 : end]))
        at = end + 4
    return chunks if any(kind == b"IDAT" for kind, _ in chunks) else None


def _inflates(deflated: bytes, stride: int, rows: int) -> bool:
    """Whether a stream is whole and holds so many rows, each with a filter that there is."""
    try:
        # Never more than is due, whatever the stream would become.
        out = deflate.zlib_decompress(deflated, stride * rows)
    except deflate.DeflateError:
        return False
    # What comes after the stream libdeflate passes over: the data has to end with the checksum of
    # what came out.
    ends = int.from_bytes(deflated[-_CHECKSUM:]) == deflate.adler32(out)
    return ends and len(out) == stride * rows and max(out[::stride]) <= _HIGHEST_FILTER


def _jpeg(data: bytes, most: int) -> Whole | None:
    try:
        with Pil.open(io.BytesIO(data), formats=("JPEG",)) as picture:
            size = picture.size
            media_type = media_type_of(picture)
            if media_type is None or size[0] * size[1] > most:
                return None
            # An eighth of the size: the same bits are read, most of the arithmetic is left out.
            picture.draft(None, (1, 1))
            picture.load()
    except Exception:  # noqa: BLE001 - Pillow raises anything on damaged data; decoding tells
        return None
    return Whole(size, media_type)
