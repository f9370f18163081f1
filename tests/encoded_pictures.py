"""Encoded pictures, whole or put together from chunks."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image as Pil

PNG = b"\x89PNG\r\n\x1a\n"


def encode(picture: Any, kind: str = "PNG", **options: Any) -> bytes:
    """A picture, or an array of one, as a file."""
    buffer = io.BytesIO()
    made = Pil.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    made.save(buffer, kind, **options)
    return buffer.getvalue()


def make_orientation(orientation: int = 6) -> Pil.Exif:
    """Metadata that turn a picture."""
    tags = Pil.Exif()
    tags[0x0112] = orientation
    return tags


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(
    size: tuple[int, int], kind: int, packed: bytes, *more: bytes, depth: int = 8, pieces: int = 1, interlaced: int = 0
) -> bytes:
    """A PNG of a colour type, of rows that are packed already, and chunks before these."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, depth, kind, 0, 0, interlaced))
    step = -(-len(packed) // pieces) or 1
    data = [chunk(b"IDAT", packed[i : i + step]) for i in range(0, len(packed), step)]
    return b"".join((PNG, head, *more, *data, chunk(b"IEND")))
