"""Checks of encoded image files without decoding: the cost of decoding, and completeness.

Cost: limits on bytes and pixels bound a decoder's work, with four exceptions, which are checked
here. A file may ask for the same pixels again and again (scans of a JPEG), may come in a huge
number of tiny pieces, may have a header of any length that is read byte by byte, or may be of a
kind that Python code decodes.

Completeness: an image that may be sent unchanged is checked without storing a pixel. The check
reads all data that a decoder reads: the deflated data of a PNG to its last byte and checksum, the
entropy-coded data of a JPEG to its last block. It leaves out only steps that cannot fail: filters,
transforms, colours. A file that is unusual in any respect is decoded instead, so that the decoder
alone decides what is refused. There is one exception: libdeflate accepts, and Pillow refuses, a
stream with codes outside the format whose checksum is right. No encoder writes such a stream.
"""

import io
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Literal, NamedTuple
from weakref import WeakValueDictionary

import deflate
import numpy as np
from PIL import Image as Pil

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_MAX_PROOFS = 1 << 15
"""Files that this process has found complete and remembers, in some 10 MB."""
_CHANNELS = {0: 1, 2: 3}
"""Channels by the colour type of a PNG: grey and RGB. Others have a palette or transparency."""
_LENGTHS = {b"IHDR": 13, b"pHYs": 9, b"gAMA": 4, b"sRGB": 1, b"IEND": 0}
"""Length in bytes of each chunk that is allowed beside the data; others may hold metadata."""
_HIGHEST_FILTER = 4
_CHECKSUM = 4
"""Bytes of the Adler-32 that ends a zlib stream."""
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
# Properties that Pillow reads from a file and that reveal nothing about who made it, where or how.
_HARMLESS = frozenset(
    {
        "jfif", "jfif_version", "jfif_unit", "jfif_density", "dpi", "progressive", "progression", "interlace", "loop",
        "background", "timestamp", "duration", "gamma", "srgb", "aspect",
    }
)  # fmt: skip

MAX_SCANS = 64
"""Scans of a JPEG. Encoders write about ten; each costs as much as decoding the whole image."""
MAX_PIECES = 1 << 15
"""Chunks of a PNG, or segments of a JPEG with the bytes between them, which Python code reads."""
MAX_BLOCKS = 1 << 18
"""Blocks of a GIF; one of 32 MiB in blocks of full length has half as many."""
MAX_HEADER = 1024
"""Bytes of a PPM's header; Pillow reads it byte by byte."""
MAX_EXIF = 1 << 20
"""Bytes of EXIF in a JPEG; Pillow's time grows with the square of its segments."""
MAX_PROFILES = 16
"""Colour profiles in a PNG, of which each is decompressed; the format allows one."""
MAX_TAGS = 4096
"""Tags of a TIFF, or of the EXIF in any file."""
MAX_STRIPS = 1 << 16
"""Strips or tiles of a TIFF; as many tiles of 32x32 pixels are the most pixels."""
MAX_COMMENT = 1 << 20
"""Bytes of one comment in a GIF; Pillow's time grows with the square of its length."""
MAX_SLOW = 8 * 1024 * 1024
"""Bytes of files that Pillow decodes in Python: numbers as text (PPM), run lengths (BMP)."""
MAX_REMARKS = 1000
"""Comments in a PPM of numbers as text; Pillow's time grows with the square of their number."""
_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])")  # neither stuffing nor a restart
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_EXIF = b"Exif\0\0"
_REMARK = re.compile(rb"#[^\r\n]*[\r\n]?")
_PPM_HEADER = re.compile(rb"P[14](\s+\S+){2}\s|P\S*(\s+\S+){3}\s")
"""A kind, width, height and, where the format has one, the highest value."""
_STRIPS = frozenset({273, 279, 324, 325})
_BARE = frozenset({0x01, 0xD8})
"""JPEG markers without a segment; restart markers do not match `_MARKER`."""


class ImageInfo(NamedTuple):
    """Size and type of an image file that was checked but not decoded.

    Attributes:
        size: Width and height in pixels, upright.
        media_type: `image/png` or `image/jpeg`.
    """

    size: tuple[int, int]
    media_type: str


def media_type_of(picture: Pil.Image) -> str | None:
    """Return the media type of an opened RGB or grey file without metadata; None for any other.

    A PNG must be loaded first, because its metadata may stand at the end of the file.
    """
    if picture.mode not in {"RGB", "L"} or set(picture.info) - _HARMLESS or picture.getexif():
        return None
    return _MEDIA_TYPES.get(str(picture.format))


_proofs: OrderedDict[str, ImageInfo] = OrderedDict()
_proofs_at_work: WeakValueDictionary[str, Lock] = WeakValueDictionary()
_lock = Lock()


@contextmanager
def prove_once(digest: str) -> Iterator[None]:
    """Check a file inside the block, one thread at a time: the next one finds what the first remembers.

    Edits of one source come together, and each would check it.
    """
    with _lock:
        own = _proofs_at_work.setdefault(digest, Lock())
    with own:
        yield


def recall_image(digest: str, max_pixels: int) -> ImageInfo | None:
    """What `inspect_image` found for a file in this process; None if it is not known."""
    with _lock:
        info = _proofs.get(digest)
    return info if info and info.size[0] * info.size[1] <= max_pixels else None


def remember_image(digest: str, info: ImageInfo) -> None:
    """Remember what `inspect_image` found, so that a file is checked once."""
    with _lock:
        _proofs[digest] = info
        if len(_proofs) > _MAX_PROOFS:
            _proofs.popitem(last=False)


def inspect_image(data: bytes, max_pixels: int) -> ImageInfo | None:
    """Check that a file is a complete, upright, opaque 8-bit image without metadata.

    Args:
        data: The content of the file, within the limits of `images`.
        max_pixels: The largest number of pixels.

    Returns:
        Size and media type; None if only decoding can tell, for a file that is too large, damaged
        or of another kind.
    """
    if data.startswith(_SIGNATURE):
        return _inspect_png(data, max_pixels)
    if data.startswith(_JPEG):
        return _inspect_jpeg(data, max_pixels)
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
    return ImageInfo((width, height), "image/png") if _is_complete_stream(stream, stride, height) else None


def _chunks(data: bytes) -> list[tuple[bytes, memoryview]] | None:
    """List the kind and content of each chunk of a PNG.

    Returns:
        None if a chunk is damaged or of a kind that may hold metadata.
    """
    chunks, at, view = [], len(_SIGNATURE), memoryview(data)
    while at < len(data):
        length, kind = int.from_bytes(view[at : at + 4]), bytes(view[at + 4 : at + 8])
        end = at + 8 + length
        if end + 4 > len(data) or (kind != b"IDAT" and _LENGTHS.get(kind) != length):
            return None
        checksum = int.from_bytes(view[end : end + 4])
        # The stream in the data chunks has its own checksum.
        if kind != b"IDAT" and deflate.crc32(view[at + 4 : end]) != checksum:
            return None
        chunks.append((kind, view[at + 8 : end]))
        at = end + 4
    return chunks if any(kind == b"IDAT" for kind, _ in chunks) else None


def _is_complete_stream(stream: bytes, stride: int, rows: int) -> bool:
    """Whether a stream is complete and holds this many rows, each with a valid filter."""
    try:
        # The size limits the output, however much the stream would expand to.
        out = deflate.zlib_decompress(stream, stride * rows)
    except deflate.DeflateError:
        return False
    # libdeflate ignores data after the stream, so the data must end with the output's checksum.
    ends = int.from_bytes(stream[-_CHECKSUM:]) == deflate.adler32(out)
    return ends and len(out) == stride * rows and max(out[::stride]) <= _HIGHEST_FILTER


def _inspect_jpeg(data: bytes, max_pixels: int) -> ImageInfo | None:
    try:
        with Pil.open(io.BytesIO(data), formats=("JPEG",)) as picture:
            size = picture.size
            media_type = media_type_of(picture)
            if media_type is None or size[0] * size[1] > max_pixels:
                return None
            # Grey at an eighth of the size: the same bits are read, most of the arithmetic is left out.
            picture.draft("L", (1, 1))
            picture.load()
    except Exception:  # noqa: BLE001 - Pillow raises anything on damaged data; decoding tells
        return None
    return ImageInfo(size, media_type)


def check_structure(data: bytes) -> None:
    """Refuse a file that takes far longer to decode than its bytes and pixels suggest.

    Files of other formats and damaged files pass; the decoder refuses them.

    Args:
        data: The content of the file. Its first two kibibytes alone are checked as far as they go.

    Raises:
        ValueError: The file exceeds a limit; the message is one line that names it.
    """
    if data.startswith(_JPEG):
        _check_jpeg(data)
    elif data.startswith((b"GIF87a", b"GIF89a")):
        _check_gif(data)
    elif data.startswith(_SIGNATURE):
        _check_png(data)
    elif data.startswith(b"P") and data[1:2] in b"0123456fy":
        _check_ppm(data)
    elif data[:2] in {b"II", b"MM"} and data[2:4] in {b"*\0", b"\0*", b"+\0", b"\0+"}:
        _check_tags(data)
    elif data.startswith(b"BM") and data[30:31] in {b"\x01", b"\x02"}:
        _limit(len(data), MAX_SLOW, "bytes of run lengths")


def check_exif(picture: Pil.Image) -> None:
    """Refuse an opened file whose EXIF takes long to read; see `check_structure`."""
    _check_tags(picture.info.get("exif", b"").removeprefix(_EXIF))


def _limit(count: int, most: int, what: str) -> None:
    if count > most:
        raise ValueError(f"more than {most:,} {what}")


def _check_ppm(data: bytes) -> None:
    header = _REMARK.sub(b" ", data[: MAX_HEADER + 1])
    if not _PPM_HEADER.match(header):  # of a shorter file it is cut, which Pillow finds
        _limit(len(data), MAX_HEADER, "bytes of header")
    if data.startswith((b"P1", b"P2", b"P3")):
        _limit(len(data), MAX_SLOW, "bytes of numbers as text")
        _limit(data.count(b"#"), MAX_REMARKS, "comments")


def _check_tags(data: bytes) -> None:
    """Check the first directory of a TIFF or of EXIF."""
    order: Literal["little", "big"] = "little" if data.startswith(b"I") else "big"
    is_big = data[2:4] in {b"+\0", b"\0+"}
    size, step = (8, 20) if is_big else (4, 12)

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order)

    start = number(size, size)
    first = start + (8 if is_big else 2)
    tags = number(start, first - start)
    _limit(tags, MAX_TAGS, "tags")
    for at in range(first, first + step * tags, step):
        if number(at, 2) in _STRIPS:
            _limit(number(at + 4, size), MAX_STRIPS, "strips or tiles")


def _check_jpeg(data: bytes) -> None:
    # If the bytes of the marker are rare, even all of them as real scans are within the limit.
    pairs = (np.frombuffer(data, "<u2", (len(data) - at) // 2, at) for at in (0, 1))
    few = sum(np.count_nonzero(each == 0xDAFF) for each in pairs) <= MAX_SCANS  # a fourth of `count`'s time
    scans = pieces = exif = 0
    at = 2
    while marker := _MARKER.search(data, at):
        # Before the first scan Pillow reads what is between segments byte by byte.
        pieces += 1 if scans else marker.end() - at - 1
        at, kind = marker.end(), marker[1][0]
        length = int.from_bytes(data[at : at + 2])
        scans += kind == _START_OF_SCAN
        exif += length if data.startswith(_EXIF, at + 2) else 0
        _limit(exif, MAX_EXIF, "bytes of EXIF")
        _limit(pieces, MAX_PIECES, "pieces")
        _limit(scans, MAX_SCANS, "scans")
        if kind == _END_OF_IMAGE or (few and scans):
            return
        if kind not in _BARE:
            at += length


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
            _limit(pieces, MAX_BLOCKS, "pieces")
            _limit(comment * (at - start), MAX_COMMENT, "bytes of one comment")
        at, pieces = at + 1, pieces + 1
        _limit(pieces, MAX_BLOCKS, "pieces")


def _colours(data: bytes, at: int) -> int:
    """Return the length in bytes of a GIF's colour table, from the flags at this position."""
    flags = data[at] if at < len(data) else 0
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _check_png(data: bytes) -> None:
    at, pieces, profiles = len(_SIGNATURE), 0, 0
    while at < len(data):
        pieces += 1
        profiles += data.startswith(b"iCCP", at + 4)
        _limit(pieces, MAX_PIECES, "pieces")
        _limit(profiles, MAX_PROFILES, "colour profiles")
        at += 12 + int.from_bytes(data[at : at + 4])
