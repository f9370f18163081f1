"""Ways to damage bytes: blindly, and by what stands in them."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

_EDGES = (0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 24, 32, 127, 128, 255, 256, 257, 4095, 32767, 32768)
_EDGES = (*_EDGES, 65535, 65536, 100_000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_LARGE = (0, 1, 4096, 8192, 8193, 16_384, 65_535, 65_536, 1_000_000, 0x7FFFFFFF, 0xFFFFFFFF)
_PNG = b"\x89PNG\r\n\x1a\n"

Order: TypeAlias = Literal["big", "little"]
Damage = Callable[[random.Random, bytes], bytes]


def damage(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A few of all damages after one another; `others` are what halves come from."""
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 4))):
        kind = rng.random()
        if kind < 0.45:
            data = rng.choice(BLIND)(rng, data)
        elif kind < 0.9:
            data = _by_structure(data)(rng, data)
        else:
            data = _splice(rng, data, rng.choice(others))
    return data


def _by_structure(data: bytes) -> Damage:
    for start, damage in _STRUCTURED.items():
        if data.startswith(start):
            return damage
    return _bits


# Blindly


def _bits(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return b"\0"
    there = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        there[rng.randrange(len(there))] ^= 1 << rng.randrange(8)
    return bytes(there)


def _early_bits(rng: random.Random, data: bytes) -> bytes:
    """Headers are at the beginning."""
    return _bits(rng, data[:80]) + data[80:]


def _late_bits(rng: random.Random, data: bytes) -> bytes:
    """Pixels are at the end."""
    half = rng.randint(len(data) // 3, len(data))
    return data[:half] + _bits(rng, data[half:])


def _put(data: bytes, where: int, size: int, value: int, order: Order = "big") -> bytes:
    """Bytes with a number at a place, as far as it fits."""
    there = (value & ((1 << 8 * size) - 1)).to_bytes(size, order)
    return data[:where] + there + data[where + size :]


def _run(rng: random.Random, data: bytes) -> bytes:
    start, size = rng.randint(0, len(data)), rng.choice((1, 2, 4, 16, 200))
    fill = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))
    return data[:start] + fill + data[start + size :]


def _number(rng: random.Random, data: bytes) -> bytes:
    """An edge of some integer type, somewhere."""
    order: Order = rng.choice(("big", "little"))
    start = rng.randint(0, min(len(data), rng.choice((40, 400, len(data)))))
    return _put(data, start, rng.choice((4, 4, 2, 2, 1)), rng.choice(_EDGES), order)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randint(0, len(data))]


def _without(rng: random.Random, data: bytes) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + data[start + rng.choice((1, 2, 4, 30)) :]


def _twice(rng: random.Random, data: bytes) -> bytes:
    start = rng.randint(0, len(data))
    stop = rng.randint(start, len(data))
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 3)) + data[stop:]


def _with_more(rng: random.Random, data: bytes) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + rng.randbytes(rng.choice((1, 4, 60))) + data[start:]


BLIND: tuple[Damage, ...] = (
    *(_bits, _early_bits, _late_bits, _late_bits, _late_bits, _run, _number),
    *(_cut, _without, _twice, _with_more),
)


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def _shuffle(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    """Pieces lost, repeated or in another order."""
    if not pieces:
        return pieces
    at = rng.randrange(len(pieces))
    kind = rng.randrange(5)
    if kind == 0:
        return pieces[:at] + pieces[at + 1 :]
    if kind == 1:
        return pieces[:at] + [pieces[at]] * rng.choice((2, 2, 3, 90)) + pieces[at + 1 :]
    if kind == 2:
        other = rng.randrange(len(pieces))
        pieces[at], pieces[other] = pieces[other], pieces[at]
        return pieces
    if kind == 3:
        return pieces[at:] + pieces[:at]
    pieces[at] = rng.choice(BLIND)(rng, pieces[at])
    return pieces


# By structure


def _png(rng: random.Random, data: bytes) -> bytes:
    chunks, at = [], 8
    while at + 12 <= len(data) and len(chunks) < 500:
        end = at + 8 + int.from_bytes(data[at : at + 4])
        chunks.append(data[at + 4 : end])
        at = end + 4
    kind = rng.randrange(4)
    if kind == 0 and chunks and len(chunks[0]) >= 17:
        where = rng.choice((4, 8, 12, 13, 14, 15, 16))
        size, values = (4, _LARGE) if where < 12 else (1, _EDGES)
        chunks[0] = _put(chunks[0], where, size, rng.choice(values))
    elif kind == 1:
        chunks = [_repack(rng, each) for each in chunks]
    else:
        chunks = _shuffle(rng, chunks)
    written = (struct.pack(">I", max(len(c) - 4, 0)) + c + _crc(rng, c) for c in chunks)
    return _PNG + b"".join(written)


def _crc(rng: random.Random, chunk: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(chunk) ^ (rng.random() < 0.02))


def _repack(rng: random.Random, chunk: bytes) -> bytes:
    """Pixels that are changed before they are packed, or far more of them than are due."""
    if chunk[:4] != b"IDAT":
        return chunk
    try:
        pixels = zlib.decompressobj().decompress(chunk[4:], 1 << 20)
    except zlib.error:
        return chunk
    more = bytes(rng.choice((0, 0, 1000, 5_000_000 if rng.random() < 0.05 else 9)))
    return b"IDAT" + zlib.compress(rng.choice(BLIND)(rng, pixels) + more, 1)


def _jpeg(rng: random.Random, data: bytes) -> bytes:
    pieces = re.split(rb"(?=\xff[\x01-\xcf\xd8-\xfe])", data)
    if rng.random() < 0.4:
        frames = [i for i, each in enumerate(pieces) if each[1:2] in {b"\xc0", b"\xc2"}]
        if frames and len(pieces[frames[0]]) > 9:
            where = rng.choice((4, 5, 7, 9, 10, 11))
            size, values = (2, _LARGE) if where in {5, 7} else (1, _EDGES)
            pieces[frames[0]] = _put(pieces[frames[0]], where, size, rng.choice(values))
            return b"".join(pieces)
    return b"".join(_shuffle(rng, pieces))


def _gif(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.3:
        return _put(data, rng.choice((6, 8)), 2, rng.choice(_LARGE), "little")
    pieces = re.split(rb"(?=\x21[\xf9\xfe\xff\x01]|\x2c\0\0)", data)
    return b"".join(pieces[:1] + _shuffle(rng, pieces[1:]))


def _riff(rng: random.Random, data: bytes) -> bytes:
    chunks, at = [], 12
    while at + 8 <= len(data) and len(chunks) < 500:
        end = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        chunks.append(data[at : end + end % 2])
        at = end + end % 2
    if chunks and rng.random() < 0.3 and len(chunks[0]) >= 18:
        chunks[0] = _put(chunks[0], rng.choice((8, 12, 15)), 3, rng.choice(_LARGE), "little")
    else:
        chunks = _shuffle(rng, chunks)
    body = b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _tiff(rng: random.Random, data: bytes) -> bytes:
    """One field of a directory gets another tag, type, count or value; or the next one moves."""
    order: Order = "little" if data[:1] == b"I" else "big"

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(data[at : at + size], order)

    if len(data) < 8 or data[2:4] in {b"+\0", b"\0+"}:
        return rng.choice(BLIND)(rng, data)
    at, directories = number(4), list[int]()
    while 8 <= at <= len(data) - 6 and at not in directories and len(directories) < 50:
        directories.append(at)
        end = at + 2 + 12 * number(at, 2)
        if end + 4 > len(data):
            break
        at = number(end)
    if not directories:
        return rng.choice(BLIND)(rng, data)
    start = rng.choice(directories)
    count = number(start, 2)
    if rng.random() < 0.1:
        size, where, value = 4, start + 2 + 12 * count, rng.choice((*directories, 8, 0xFFFFFFFF))
    else:
        entry = start + 2 + 12 * rng.randrange(max(count, 1))
        size, where, value = rng.choice(
            (
                (2, entry, rng.choice(_TAGS)),
                (2, entry + 2, rng.randrange(20)),
                (4, entry + 4, rng.choice(_EDGES)),
                (2, entry + 8, rng.choice((*_EDGES, *_KINDS))),
                (2, entry + 8, rng.choice(_KINDS)),
                (4, entry + 8, rng.choice(_LARGE)),
                (4, entry + 8, rng.randrange(len(data) + 9)),
            )
        )
    return _put(data, where, size, value, order)


_TAGS = (254, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 320, 322, 323, 324)
_TAGS = (*_TAGS, 325, 338, 339, 347, 530, 532, 33723, 34377, 34665, 34853, 50838, 0, 65535)
_KINDS = (1, 2, 3, 4, 5, 6, 7, 8, 32773, 32946, 34712, 34925, 50000, 50001, 34676, 32803)


def _bmp(rng: random.Random, data: bytes) -> bytes:
    where = rng.choice((10, 14, 18, 22, 26, 28, 30, 46))
    value = rng.choice((*_EDGES, -1, -100, *_LARGE))
    return _put(data, where, 2 if where in {26, 28} else 4, value, "little")


def _ppm(rng: random.Random, data: bytes) -> bytes:
    """Numbers of the head, or marks of it, are others."""
    head, rest = data[:30], data[30:]
    numbers = [*re.finditer(rb"[\d.+-]+", head)]
    if not numbers:
        return rng.choice(BLIND)(rng, data)
    at = rng.choice(numbers)
    value = rng.choice((*map(str, (*_LARGE, *_EDGES)), "-1", "1e9", "nan", "#" * 50, "9" * 30))
    return head[: at.start()] + value.encode() + head[at.end() :] + rest


_STRUCTURED: dict[bytes, Damage] = {
    _PNG: _png,
    b"\xff\xd8": _jpeg,
    b"GIF8": _gif,
    b"RIFF": _riff,
    b"II": _tiff,
    b"MM": _tiff,
    b"BM": _bmp,
    b"P": _ppm,
}
