"""Small pictures of every format and kind that decoders have, to be damaged."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import tifffile
from PIL import Image as Pil

from ..encoded_pictures import chunk, encode, make_orientation, png

SIZE = (23, 17)
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2))
_ADAM7 = (*_PASSES, (0, 1, 1, 2))  # x and y of the first pixel, steps
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


@cache
def seeds() -> dict[str, bytes]:
    """By name; the same bytes whenever the same versions of encoders make them."""
    rng = np.random.default_rng(1)
    return dict((*_png(rng), *_jpeg(rng), *_gif(rng), *_webp(rng), *_tiff(rng), *_plain(rng), *_others(rng)))


def _blank(mode: str, kind: str, size: tuple[int, int] = (8192, 8192), **more: Any) -> bytes:
    return encode(Pil.new(mode, size), kind, **more)


def _blank_png(kind: int, depth: int, *more: bytes, side: int = 8192) -> bytes:
    row = 1 + (side * depth * _CHANNELS[kind] + 7) // 8
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(bytes(row)) for _ in range(side)) + packer.flush()
    palette = [chunk(b"PLTE", bytes(6))] if kind == 3 else []
    return png((side, side), kind, packed, *palette, *more, depth=depth)


def _picture(rng: np.random.Generator, mode: str = "RGB", size: tuple[int, int] = SIZE) -> Pil.Image:
    small = rng.integers(0, 256, (5, 6, 4), dtype=np.uint8)
    return Pil.fromarray(small).resize(size, Pil.Resampling.BICUBIC).convert(mode)


def _frames(rng: np.random.Generator, kind: str, count: int, mode: str = "RGB", **more: Any) -> bytes:
    frames = [_picture(rng, mode) for _ in range(count)]
    return encode(frames[0], kind, save_all=True, append_images=frames[1:], **more)


def _png(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for kind, depths in _DEPTHS.items():
        for depth in depths:
            for interlaced in (0, 1):
                clear = kind != 4 and kind != 6 and bool(rng.integers(2))
                name = f"png.{kind}.{depth}{'.interlaced' * interlaced}{'.clear' * clear}"
                yield name, _raw_png(rng, kind, depth, interlaced, clear=clear)
    yield "png.animated", _frames(rng, "PNG", 3, "RGBA")
    texts = encode(_picture(rng), "PNG", exif=make_orientation(6), icc_profile=rng.bytes(60), dpi=(72, 72))
    more = chunk(b"tEXt", b"a\0b") + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"b" * 99))
    more += chunk(b"iTXt", b"a\0\1\0\0\0" + zlib.compress(b"c")) + chunk(b"gAMA", b"\0\0\xb1\x8f")
    yield "png.texts", texts[:33] + more + texts[33:]
    yield "png.larger", encode(_picture(rng, size=(260, 190)), "PNG")


def _raw_png(rng: np.random.Generator, kind: int, depth: int, interlaced: int, *, clear: bool) -> bytes:
    """With random samples; Pillow writes few of these kinds."""
    width, height = SIZE
    rows = b""
    for x, y, across, down in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        wide, high = -(-(width - x) // across), -(-(height - y) // down)
        for _ in range(high if wide > 0 else 0):
            count = (wide * depth * _CHANNELS[kind] + 7) // 8
            rows += bytes([int(rng.integers(5))]) + rng.bytes(count)
    palette = [chunk(b"PLTE", rng.bytes(3 << depth))] if kind == 3 else []
    if clear:
        palette.append(chunk(b"tRNS", {0: b"\0\1", 2: bytes(6), 3: rng.bytes(2)}[kind]))
    how = {"depth": depth, "interlaced": interlaced, "pieces": 2}
    return png(SIZE, kind, zlib.compress(rows), *palette, **how)


def _jpeg(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            name = f"jpeg.{mode}{'.progressive' * progressive}"
            yield name, encode(_picture(rng, mode), "JPEG", progressive=progressive)
    for sampling in (0, 1, 2):
        more = {"subsampling": sampling, "exif": make_orientation(8)}
        yield f"jpeg.{sampling}", encode(_picture(rng), "JPEG", **more)
    yield "jpeg.restarts", encode(_picture(rng), "JPEG", restart_marker_blocks=1, comment=b"x")
    yield "jpeg.profile", encode(_picture(rng), "JPEG", icc_profile=rng.bytes(90), dpi=(72, 72))
    yield "jpeg.larger", encode(_picture(rng, size=(260, 190)), "JPEG", progressive=True)
    yield "jpeg.mpo", _frames(rng, "MPO", 2)


def _gif(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for name, more in (("", {}), (".plain", {"interlace": 0}), (".comment", {"comment": b"x" * 9})):
        yield f"gif{name}", encode(_picture(rng, "P"), "GIF", **more)
    yield "gif.clear", encode(_picture(rng, "P"), "GIF", transparency=3)
    yield "gif.grey", encode(_picture(rng, "L"), "GIF")
    yield "gif.animated", _frames(rng, "GIF", 3, loop=0, duration=5)


def _webp(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for mode in ("RGB", "RGBA"):
        for lossless in (False, True):
            more = {"lossless": lossless, "exif": make_orientation(3), "icc_profile": rng.bytes(40)}
            name = f"webp.{mode}{'.lossless' * lossless}"
            yield name, encode(_picture(rng, mode), "WEBP", lossless=lossless)
            yield f"{name}.more", encode(_picture(rng, mode), "WEBP", **more)
    yield "webp.animated", _frames(rng, "WEBP", 2)


def _tiff(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F", "LA"):
        for packed in ("raw", "tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg"):
            if packed == "jpeg" and mode not in {"L", "RGB", "YCbCr", "CMYK"}:
                continue
            source = "L" if mode in {"I;16", "I", "F"} else "RGB" if mode == "LAB" else mode
            picture = _picture(rng, source)
            if mode == "LAB":
                picture = Pil.frombytes("LAB", SIZE, picture.tobytes())
            picture = picture if mode == source else picture.convert(mode)
            yield f"tiff.{mode}.{packed}", encode(picture, "TIFF", compression=packed)
    for packed in ("group3", "group4"):
        yield f"tiff.{packed}", encode(_picture(rng, "1"), "TIFF", compression=packed)
    yield "tiff.pages", _frames(rng, "TIFF", 2)
    height, width = SIZE[1], SIZE[0]
    for kind in ("u1", "u2", "i1", "i2", "u4", "f4", "f8"):
        for name, more in (
            ("", {}),
            (".white", {"photometric": "miniswhite"}),
            (".tiled", {"tile": (16, 16)}),
            (".big", {"byteorder": ">"}),
            (".large", {"bigtiff": True}),
            (".deflate", {"compression": "zlib"}),
        ):
            yield f"tiff.{kind}{name}", _write_tiff(rng, (height, width), kind, **more)
    for kind in ("u1", "u2"):
        for planes in ("contig", "separate"):
            shape = (height, width, 3) if planes == "contig" else (3, height, width)
            more = {"photometric": "rgb", "planarconfig": planes}
            yield f"tiff.rgb.{kind}.{planes}", _write_tiff(rng, shape, kind, **more)
        more = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
        yield f"tiff.rgba.{kind}", _write_tiff(rng, (height, width, 4), kind, **more)
        yield f"tiff.stack.{kind}", _write_tiff(rng, (3, height, width), kind)


def _write_tiff(rng: np.random.Generator, shape: tuple[int, ...], kind: str, **more: Any) -> bytes:
    buffer = io.BytesIO()
    levels = (rng.random(shape) * 200 + 300 * (kind in {"u2", "u4"})).astype(kind)
    tifffile.imwrite(buffer, levels, metadata=None, **{"photometric": "minisblack", **more})
    return buffer.getvalue()


def _plain(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        yield f"bmp.{mode}", encode(_picture(rng, mode), "BMP")
    runs = b"\x05\1\0\4\1\2\3\4\0\0" * 4 + b"\0\1"
    head = struct.pack("<IiiHHIIiiII", 40, 9, 4, 1, 8, 1, len(runs), 0, 0, 256, 0)
    file = b"BM" + struct.pack("<IHHI", 1078 + len(runs), 0, 0, 1078)
    yield "bmp.runs", file + head + rng.bytes(1024) + runs
    for bits, packed, masks in ((16, 3, (0x7C00, 0x3E0, 0x1F)), (32, 3, (0xFF0000, 0xFF00, 0xFF))):
        head = struct.pack("<IiiHHIIiiII", 40, 9, -4, 1, bits, packed, 0, 0, 0, 0, 0)
        pixels = rng.bytes(4 * ((9 * bits // 8 + 3) // 4 * 4))
        file = b"BM" + struct.pack("<IHHI", 66 + len(pixels), 0, 0, 66)
        yield f"bmp.{bits}", file + head + struct.pack("<III", *masks) + pixels
    for mode in ("1", "L", "RGB"):
        yield f"ppm.{mode}", encode(_picture(rng, mode), "PPM")
    yield "ppm.16", b"P5 23 17 65535\n" + rng.bytes(2 * 23 * 17)
    yield "ppm.16.colour", b"P6\n# x\n23 17\n65535\n" + rng.bytes(6 * 23 * 17)
    yield "ppm.odd", b"P6 23 17 100\n" + rng.bytes(3 * 23 * 17)
    for kind, most in ((1, 2), (2, 200), (3, 60000)):
        numbers = rng.integers(0, most, 23 * 17 * (3 if kind == 3 else 1))
        head = f"P{kind} 23 17 " + (f"{most} " if kind > 1 else "")
        yield f"ppm.text.{kind}", (head + " ".join(map(str, numbers))).encode()
    yield "ppm.float", b"Pf 23 17 -1.0\n" + rng.random(23 * 17).astype("<f4").tobytes()
    alpha = b"P7\nWIDTH 23\nHEIGHT 17\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n"
    yield "ppm.alpha", alpha + rng.bytes(4 * 23 * 17)


def _others(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Formats that are not read, however their names end."""
    for kind in ("AVIF", "ICO", "JPEG2000", "TGA", "PCX", "ICNS", "EPS", "PDF"):
        yield kind.lower(), encode(_picture(rng, size=(32, 32)), kind)
    yield "svg", b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"


BOMBS: dict[str, Callable[[], bytes]] = {
    "gif": lambda: _blank("P", "GIF"),
    "png.beyond": lambda: _blank_png(2, 8, side=8193),
    **{
        f"png.{kind}.{depth}": partial(_blank_png, kind, depth)
        for kind, depth in ((3, 1), (0, 8), (0, 16), (2, 8), (2, 16), (4, 16), (6, 8), (6, 16))
    },
    "png.0.16.clear": lambda: _blank_png(0, 16, chunk(b"tRNS", b"\0\0")),
    "png.2.16.clear": lambda: _blank_png(2, 16, chunk(b"tRNS", bytes(6))),
    "jpeg": lambda: _blank("RGB", "JPEG", quality=5),
    "jpeg.progressive": lambda: _blank("RGB", "JPEG", quality=5, progressive=True),
    "webp": lambda: _blank("RGBA", "WEBP", (16383, 4000), quality=1, method=0),
    **{
        f"tiff.{mode}": partial(_blank, mode, "TIFF", compression="tiff_adobe_deflate")
        for mode in ("RGBA", "CMYK", "I;16", "I", "LAB")
    },
}
"""As many pixels as are read, in next to no bytes."""
