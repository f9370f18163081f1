"""16 bits a channel: scaled by the type and rounded, as OpenCV reads them, never by a guess.

Values that are nearly black so are refused, unless the file says how they are meant.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image as Pil

from editjudge.base.errors import ImageError
from editjudge.base.images import decode, load_image, load_mask
from editjudge.base.rgb import Note

from ... import encoded_pictures

RNG = np.random.default_rng(16)
GREY = RNG.integers(0, 65536, (9, 13), np.uint16)
COLOUR = RNG.integers(0, 65536, (9, 13, 3), np.uint16)
ALPHA = RNG.integers(0, 65536, (9, 13, 4), np.uint16)
REDUCED = Note("depth", "16 bits per channel reduced to 8")


def png(levels: NDArray[np.uint16], *more: bytes) -> bytes:
    """A PNG of grey, grey with alpha, RGB or RGBA, as its last axis says."""
    shaped = levels[..., None] if levels.ndim == 2 else levels
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[shaped.shape[2]]
    rows = b"".join(b"\x00" + row.astype(">u2").tobytes() for row in shaped)
    return encoded_pictures.png(shaped.shape[1::-1], kind, zlib.compress(rows), *more, depth=16)


def tiff(levels: NDArray[np.generic], **options: Any) -> bytes:
    buffer = io.BytesIO()
    colours = {"photometric": "rgb"} if levels.ndim == 3 else {}
    tifffile.imwrite(buffer, levels, **colours | options)
    return buffer.getvalue()


def pnm(levels: NDArray[np.uint16], white: int = 65535) -> bytes:
    kind = b"P5" if levels.ndim == 2 else b"P6"
    head = b"%s %d %d %d\n" % (kind, levels.shape[1], levels.shape[0], white)
    return head + levels.astype(">u2").tobytes()


def round_levels(levels: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.round(levels.astype(np.float64) / 65535 * 255).astype(np.uint8)


def as_rgb(levels: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """8 bits, by the type; alpha over white as in a picture of 8 bits."""
    eight = np.atleast_3d(round_levels(levels))
    if eight.shape[2] < 3:
        eight = eight[..., [0, 0, 0, 1][: eight.shape[2] + 2]]
    if eight.shape[2] == 4:
        white = Pil.new("RGBA", eight.shape[1::-1], "white")
        eight = np.asarray(Pil.alpha_composite(white, Pil.fromarray(eight)).convert("RGB"))
    return eight


FILES: dict[str, tuple[Callable[[], bytes], NDArray[np.uint16]]] = {
    "grey PNG": (lambda: png(GREY), GREY),
    "grey PNG with alpha": (lambda: png(ALPHA[..., 2:]), ALPHA[..., 2:]),
    "PNG in colour": (lambda: png(COLOUR), COLOUR),
    "PNG in colour with alpha": (lambda: png(ALPHA), ALPHA),
    "grey TIFF": (lambda: tiff(GREY), GREY),
    "grey TIFF, high byte first": (lambda: tiff(GREY, byteorder=">"), GREY),
    "TIFF in colour": (lambda: tiff(COLOUR), COLOUR),
    "TIFF in colour, high byte first": (lambda: tiff(COLOUR, byteorder=">"), COLOUR),
    "TIFF in colour, packed": (lambda: tiff(COLOUR, compression="deflate", predictor=True), COLOUR),
    "TIFF in colour with alpha": (lambda: tiff(ALPHA, extrasamples=["unassalpha"]), ALPHA),
    "grey PGM": (lambda: pnm(GREY), GREY),
    "PPM in colour": (lambda: pnm(COLOUR), COLOUR),
}


@pytest.mark.parametrize("name", FILES)
def test_every_value_is_scaled_by_the_type_and_rounded(name: str) -> None:
    make, levels = FILES[name]
    rgb, notes = decode(make())
    assert np.array_equal(rgb, as_rgb(levels))
    assert REDUCED in notes


@pytest.mark.parametrize("name", [name for name, (_, v) in FILES.items() if v.shape[-1] != 2])
def test_opencv_reads_the_same(name: str) -> None:
    """Of what both read as stored; OpenCV lays no alpha over white."""
    data = FILES[name][0]()
    read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if read.ndim == 3:
        read = read[..., [2, 1, 0, 3][: read.shape[2]]]
    assert np.array_equal(decode(data)[0], as_rgb(read))


def test_a_palette_of_8_bits_is_as_opencv_reads_it() -> None:
    data = encoded_pictures.encode(Pil.fromarray(round_levels(COLOUR)).quantize(16))
    read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert np.array_equal(decode(data)[0], read[..., ::-1])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_257_times_an_8_bit_picture_is_that_picture(channels: int) -> None:
    eight = RNG.integers(0, 256, (7, 5, channels), np.uint8)
    levels = eight.astype(np.uint16) * 257
    assert np.array_equal(decode(png(levels))[0], as_rgb(levels))
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    shallow = Pil.frombytes(mode, (5, 7), eight.tobytes())
    assert np.array_equal(decode(png(levels))[0], load_image(shallow).rgb)


def test_two_files_of_a_pair_are_read_at_one_scale() -> None:
    """A dark edit of a bright source was stretched where its own values were small."""
    source, edit = GREY.copy(), GREY // 200
    assert np.array_equal(load_image(png(source)).rgb, as_rgb(source))
    edit[0, 0] = 16384
    assert np.array_equal(load_image(png(edit)).rgb, as_rgb(edit))


UNSCALED = {
    "grey": np.where(GREY % 2, GREY % 256, 0).astype(np.uint16),
    "grey with alpha": np.dstack([GREY % 256, np.full_like(GREY, 65535)]),
    "colour": COLOUR % 256,
    "a single 1": np.eye(9, 13, dtype=np.uint16),
}


@pytest.mark.parametrize("name", UNSCALED)
def test_values_up_to_255_are_refused_with_the_fix(name: str) -> None:
    data = png(UNSCALED[name])
    with pytest.raises(ImageError, match="multiply its values by 257") as caught:
        load_image(data, "edit.png")
    assert str(caught.value).startswith("edit.png: 16 bits per channel with values up to ")
    assert str(caught.value).endswith("by 257)"), "no other fix beside it"
    with pytest.raises(ValueError, match="8 bits per channel"):
        decode(data)


@pytest.mark.parametrize("make", [tiff, pnm])
def test_in_other_formats_too(make: Callable[..., bytes]) -> None:
    with pytest.raises(ImageError, match="multiply its values by 257"):
        load_image(make(COLOUR % 256))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_all_black_is_a_picture(shape: tuple[int, ...]) -> None:
    assert not load_image(png(np.zeros(shape, np.uint16))).rgb.any()


def noise(bits: int, channels: int, seed: int) -> NDArray[np.uint16]:
    """Values of so many bits, the largest among them."""
    levels = np.random.default_rng(seed).integers(0, 2**bits, (32, 40, channels), np.uint16)
    levels[0, 0] = 2**bits - 1
    return levels


@pytest.mark.parametrize("bits", range(9, 15))
@pytest.mark.parametrize("write", [png, pnm, tiff])
@pytest.mark.parametrize("channels", [1, 3])
def test_values_of_fewer_bits_are_not_read_as_nearly_black(
    bits: int, write: Callable[..., bytes], channels: int
) -> None:
    """Two unrelated noises of 10 bits had a PSNR of 43 dB and an SSIM of .95."""
    data = write(noise(bits, channels, 1).squeeze())
    start = f"^edit.png: 16 bits per channel with values up to {2**bits - 1:,} only"
    with pytest.raises(ImageError, match=start) as caught:
        load_image(data, "edit.png")
    assert "rescale its values to 0..65535" in str(caught.value)
    with pytest.raises(ValueError, match="nearly black"):
        decode(data)
    assert load_mask(write(noise(bits, 1, 1).squeeze())).region.mean() > 0.9, "no scale in a mask"


def test_a_quarter_of_the_scale_is_the_least_white() -> None:
    levels = np.full((2, 2), 16384, np.uint16)
    assert load_image(png(levels)).rgb.max() == 64
    with pytest.raises(ImageError, match="values up to 16,383 only"):
        load_image(png(levels - 1))
    with pytest.raises(ImageError, match="values up to 16,383 only"):
        load_image(Pil.fromarray(levels - 1))


def test_bits_that_a_png_calls_significant_are_no_white() -> None:
    """Writers state the same number whether they scale or not."""
    with pytest.raises(ImageError, match="values up to 1,023 only"):
        load_image(png(noise(10, 3, 7), encoded_pictures.chunk(b"sBIT", bytes((10, 10, 10)))))


def test_a_statistic_of_a_tiff_is_no_white() -> None:
    """MaxSampleValue: a source and its edit would get scales of their own."""
    tags = [(281, 3, 3, (1023,) * 3, True), (341, 3, 3, (1023,) * 3, True)]
    with pytest.raises(ImageError, match="values up to 1,023 only"):
        load_image(tiff(noise(10, 3, 8), extratags=tags))


def test_a_dark_picture_whose_white_the_format_states_is_dark() -> None:
    levels = noise(5, 1, 9).squeeze()
    assert load_image(pnm(levels, 1023)).rgb.max() == 8


def test_a_colour_that_is_transparent_is_laid_over_white() -> None:
    for levels in (GREY, COLOUR):
        clear = encoded_pictures.chunk(b"tRNS", np.atleast_1d(levels[0, 0]).astype(">u2").tobytes())
        rgb = decode(png(levels, clear))[0]
        assert rgb[0, 0].tolist() == [255] * 3
        assert np.array_equal(rgb[1:], as_rgb(levels)[1:])


def test_white_may_be_zero() -> None:
    rgb, _ = decode(tiff(GREY, photometric="miniswhite"))
    assert np.array_equal(rgb, as_rgb(65535 - GREY))


def test_white_may_be_another_value_where_the_file_says_so() -> None:
    for levels in (GREY % 1024, COLOUR % 1024):
        shown = np.atleast_3d(np.round(levels.astype(np.float64) / 1023 * 255))
        rgb, _ = decode(pnm(levels, 1023))
        assert np.abs(rgb - shown).max() <= (1 if levels.ndim == 2 else 0)


def test_turned_upright_like_any_other() -> None:
    tags = encoded_pictures.make_orientation().tobytes().removeprefix(b"Exif\x00\x00")
    for levels in (GREY, COLOUR):
        rgb, notes = decode(png(levels, encoded_pictures.chunk(b"eXIf", tags)))
        assert np.array_equal(rgb, np.rot90(as_rgb(levels), -1))
        assert [note.kind for note in notes] == ["turned", "depth"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (tiff(np.moveaxis(COLOUR, 2, 0), planarconfig="separate"), "exactly"),
        (tiff(ALPHA, extrasamples=["assocalpha"]), "exactly"),
        (tiff(-(GREY >> 1).astype(np.int16)), "signed"),
        (tiff((GREY >> 1).astype(np.int16)), "signed"),
        (tiff(GREY.astype(np.int32)), "32-bit"),
    ],
    ids=["planes", "premultiplied", "negative", "signed", "32 bits"],
)
def test_what_has_no_defined_white_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ImageError, match=why):
        load_image(data)


def test_pillow_keeps_16_bits_of_grey_only() -> None:
    assert np.array_equal(load_image(Pil.fromarray(GREY)).rgb, as_rgb(GREY))
    with pytest.raises(ImageError, match="of which Pillow reads 8; give the file"):
        load_image(Pil.open(io.BytesIO(png(COLOUR))))


MASK = np.zeros((6, 8), bool)
MASK[2:5, 1:7] = True


@pytest.mark.parametrize("white", [1, 2, 127, 128, 255, 256, 65535])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_mask_is_zero_or_not_zero(white: int, channels: int) -> None:
    levels = (MASK * white).astype(np.uint16)[..., None].repeat(channels, axis=2)
    grey = levels[..., 0]
    made = [png(levels), pnm(levels.squeeze()), grey, tiff(grey)]
    made += [tiff(grey.astype(kind)) for kind in (np.uint32, np.float32)]
    made += [tiff(grey.astype(np.int16))] if white < 32768 else []
    made += [Pil.fromarray(grey.astype(np.uint8))] if white < 256 else []
    for data in made:
        assert np.array_equal(load_mask(data).region, MASK)


def test_labels_of_a_mask_are_all_white() -> None:
    labels = np.arange(12, dtype=np.uint16).reshape(3, 4) * 100
    assert np.array_equal(load_mask(png(labels)).region, labels > 0)


def test_a_mask_that_was_read_as_a_picture_is_read_again() -> None:
    levels = (MASK * 65535).astype(np.uint16)
    levels[2, 2] = 100
    image = load_image(png(levels))
    assert not image.rgb[2, 2].any()
    assert np.array_equal(load_mask(image).region, MASK)


def test_all_65536_values_are_rounded() -> None:
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    assert np.array_equal(load_image(png(levels)).rgb, as_rgb(levels))
    assert np.array_equal(load_mask(png(levels)).region, levels > 0)
