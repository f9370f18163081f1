"""The pictures of the canaries: two scenes, drawn in whole numbers, and what editors made of them.

Every machine and version draws the same pixels and writes the same bytes: nothing is interpolated,
and the PNG is stored without compression, which leaves an encoder nothing to choose.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

RGB: TypeAlias = NDArray[np.uint8]
"""Pixels (H, W, 3)."""
_Colour: TypeAlias = tuple[int, int, int]
WIDTH, HEIGHT = 256, 192
_RED, _BLUE, _GREEN, _YELLOW = (196, 44, 40), (40, 76, 196), (52, 140, 64), (232, 196, 56)
_BROWN, _DARK, _WHITE, _GREY = (132, 88, 52), (60, 44, 36), (240, 240, 232), (150, 150, 156)
_BLOCK = 65535
"""Bytes that a stored block of a zlib stream holds at most."""
_ROWS, _COLUMNS = np.mgrid[:HEIGHT, :WIDTH]


def kitchen(*, mug: _Colour = _RED, apple: bool = True, lamp: _Colour = _YELLOW) -> RGB:
    """A mug and an apple on a table, under a lamp, beside a window.

    Args:
        mug: Its colour.
        apple: Whether there is one.
        lamp: The colour of its shade.
    """
    pixels = _shaded((206, 198, 180), 40)
    _box(pixels, (20, 20, 92, 88), _WHITE)
    _box(pixels, (26, 26, 86, 82), (148, 196, 228))
    _box(pixels, (54, 26, 58, 82), _WHITE)
    _box(pixels, (148, 0, 152, 28), _DARK)
    _wedge(pixels, (150, 28), 26, lamp)
    _box(pixels, (0, 132, WIDTH, HEIGHT), _BROWN)
    _box(pixels, (0, 132, WIDTH, 138), (164, 116, 72))
    _ring(pixels, (136, 116), 18, 10, mug)
    _box(pixels, (88, 92, 130, 146), mug)
    _box(pixels, (92, 92, 126, 98), _DARK)
    if apple:
        _disc(pixels, (196, 134), 22, _GREEN)
        _disc(pixels, (189, 126), 5, (132, 196, 128))
        _box(pixels, (195, 104, 198, 116), _DARK)
    return pixels


def street(
    *, door: _Colour = _RED, trees: tuple[int, ...] = (38,), roof: _Colour = (150, 72, 52)
) -> RGB:
    """A house with a door and a window in a meadow, under the sun, with trees.

    Args:
        door: Its colour.
        trees: Where they stand, from the left.
        roof: Its colour.
    """
    pixels = _shaded((128, 180, 224), -24)
    _disc(pixels, (222, 30), 16, _YELLOW)
    _box(pixels, (0, 140, WIDTH, HEIGHT), (96, 156, 76))
    _box(pixels, (84, 84, 180, 152), (228, 212, 176))
    _wedge(pixels, (132, 44), 40, roof, slope=3)
    _box(pixels, (100, 108, 124, 152), door)
    _disc(pixels, (120, 132), 2, _YELLOW)
    _box(pixels, (144, 100, 168, 124), _WHITE)
    _box(pixels, (147, 103, 165, 121), (116, 164, 204))
    for left in trees:
        _box(pixels, (left - 5, 112, left + 5, 158), _BROWN)
        _disc(pixels, (left, 96), 26, _GREEN)
    return pixels


def ruined(pixels: RGB) -> RGB:
    """The picture in strips that lie out of order, every second one in wrong colours."""
    strips = [pixels[top : top + 16].copy() for top in range(0, HEIGHT, 16)]
    for strip in strips[::2]:
        strip[:] = 255 - strip[:, ::-1]
    return np.concatenate(strips[::3] + strips[1::3] + strips[2::3])


SCENES: Mapping[str, tuple[str, Callable[[], Mapping[str, RGB]]]] = {
    "kitchen": (
        "Make the red mug blue, and take the green apple away.",
        lambda: {
            "source": kitchen(),
            "right": kitchen(mug=_BLUE, apple=False),
            "partly": kitchen(mug=_BLUE),
            "nothing": kitchen(),
            "other": kitchen(lamp=(188, 60, 160)),
            "ruined": ruined(kitchen()),
        },
    ),
    "street": (
        "Paint the front door green, and add a second tree to the right of the house.",
        lambda: {
            "source": street(),
            "right": street(door=_GREEN, trees=(38, 222)),
            "partly": street(trees=(38, 222)),
            "nothing": street(),
            "other": street(trees=(), roof=_GREY),
            "ruined": ruined(street()),
        },
    ),
}
"""By scene what the editor was told, and the source with what was made of it."""


def png(pixels: RGB) -> bytes:
    """A PNG whose bytes depend on the pixels alone: stored, not compressed."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    data = rows.tobytes()
    starts = range(0, len(data), _BLOCK)
    blocks = (
        struct.pack("<BHH", start + _BLOCK >= len(data), len(part), len(part) ^ 0xFFFF) + part
        for start in starts
        for part in [data[start : start + _BLOCK]]
    )
    stream = b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", head) + _chunk(b"IDAT", stream) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _shaded(colour: _Colour, by: int) -> RGB:
    """One colour, by so much brighter at the bottom."""
    light = (_ROWS * by // HEIGHT)[..., np.newaxis]
    pixels: RGB = np.clip(np.array(colour) + light, 0, 255).astype(np.uint8)
    return pixels


def _box(pixels: RGB, edges: tuple[int, int, int, int], colour: _Colour) -> None:
    """Fill from left and top to right and bottom."""
    left, top, right, bottom = edges
    pixels[top:bottom, left:right] = colour


def _disc(pixels: RGB, centre: tuple[int, int], radius: int, colour: _Colour) -> None:
    pixels[_square(centre) <= radius * radius] = colour


def _ring(pixels: RGB, centre: tuple[int, int], outer: int, inner: int, colour: _Colour) -> None:
    square = _square(centre)
    pixels[(square <= outer * outer) & (square >= inner * inner)] = colour


def _wedge(
    pixels: RGB, top: tuple[int, int], height: int, colour: _Colour, *, slope: int = 2
) -> None:
    """Fill a triangle that widens downwards by `slope` pixels a row, halves of it on each side."""
    x, y = top
    down = _ROWS - y
    pixels[(down >= 0) & (down < height) & (2 * abs(_COLUMNS - x) <= slope * down)] = colour


def _square(centre: tuple[int, int]) -> NDArray[np.int64]:
    x, y = centre
    square: NDArray[np.int64] = (_COLUMNS - x) ** 2 + (_ROWS - y) ** 2
    return square
