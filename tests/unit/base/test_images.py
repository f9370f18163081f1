"""Every way an image can be wrong has a defined answer: converted and noted, or one error."""

from __future__ import annotations

import copy
import io
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base import rgb
from editjudge.base.errors import ImageError
from editjudge.base.images import MAX_BYTES, Image, Note, count_pixels, decode, load_image, load_mask

from ...encoded_pictures import PNG, chunk, encode, make_orientation, png


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has next to no pixels."""
    return png((width, height), 2, zlib.compress(bytes(64)))


def make_animation() -> bytes:
    frames = [Pil.new("RGB", (8, 8), color) for color in ("red", "blue")]
    return encode(frames[0], "GIF", save_all=True, append_images=frames[1:])


def make_indexed_png(palette: bytes) -> bytes:
    """A PNG of one pixel that is the first colour of a palette."""
    return png((1, 1), 3, zlib.compress(b"\0\0"), *([chunk(b"PLTE", palette)] if palette else []))


def tiff(bits: int, pixels: bytes, *, photometric: int = 1, sample_format: int = 1, strips: int = 1) -> bytes:
    """Two grey pixels in one strip."""
    tags = {256: 2, 257: 1, 258: bits, 259: 1, 262: photometric, 273: 0, 277: 1, 278: 1}
    tags |= {279: len(pixels), 339: sample_format}
    tags[273] = 8 + 2 + 12 * len(tags) + 4
    counts = {273: strips}
    entries = (struct.pack("<HHII", tag, 4, counts.get(tag, 1), value) for tag, value in sorted(tags.items()))
    directory = struct.pack("<H", len(tags)) + b"".join(entries) + bytes(4)
    return b"II*\0" + struct.pack("<I", 8) + directory + pixels


def two_pages(*, compression: int) -> bytes:
    """A TIFF of two pages, the second of which is compressed as nobody knows."""
    pages = [Pil.new("L", (4, 4), value) for value in (1, 2)]
    data = bytearray(encode(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    at = data.rindex(struct.pack("<HHI", 259, 3, 1)) + 8
    data[at : at + 2] = struct.pack("<H", compression)
    return bytes(data)


def gif(body: bytes) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + body + b"\x3b"


def many_frames(count: int) -> bytes:
    return gif((b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2\x44\1\0") * count)


def many_scans(more: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    data = encode(RED, "JPEG", progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * more + b"\xff\xd9"


OF_RED = (200, 30, 40)
RED = Pil.new("RGB", (20, 10), OF_RED)

REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "0 bytes": (lambda: b"", "0 bytes"),
    "text": (lambda: b"hello, I am no image", "not an image"),
    "text that begins as a TIFF does": (lambda: b"MM: I am no image either", "not an image"),
    "an archive": (lambda: b"PK\3\4" + bytes(2000), "not an image"),
    "truncated": (lambda: encode(RED.resize((300, 300)), "JPEG")[:700], "truncated"),
    "truncated PNG": (lambda: encode(Pil.effect_noise((99, 99), 50))[:5000], "truncated"),
    "no pixels": (lambda: png_header(400, 400), "truncated"),
    "30,000 x 30,000 header": (lambda: png_header(30_000, 30_000), "limit"),
    "10,000 x 10,000 header": (lambda: png_header(10_000, 10_000), "limit"),
    "9,000 x 8,000 header": (lambda: png_header(9_000, 8_000), "limit"),
    "animated": (make_animation, "more than one frame"),
    "too many bytes": (lambda: encode(RED) + bytes(MAX_BYTES), "limit"),
    "floating point": (lambda: encode(Pil.new("F", (4, 4)), "TIFF"), "floating-point"),
    "SVG": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
    "indexed without a palette": (lambda: make_indexed_png(b""), "damaged or truncated"),
    "second page unreadable": (lambda: two_pages(compression=0x7777), "more than one frame"),
    "frames without end": (lambda: many_frames(300_000), "more than 262,144 pieces"),
    "scans without end": (lambda: many_scans(70), "more than 64 scans"),
    "long remark": (lambda: gif(b"\x21\xfe" + (b"\xff" + bytes(255)) * 5000 + b"\0"), "comment"),
    "long text": (lambda: b"P2 9 9 255\n" + b"1 " * 4_200_000, "more than 8,388,608 bytes"),
    "12 bits": (lambda: tiff(12, b"\xff\xff\xff"), "12 bits"),
    "signed": (lambda: tiff(8, b"\x00\x80", sample_format=2), "signed"),
    "16 bits signed": (lambda: tiff(16, b"\0\0\0\x7f", sample_format=2), "signed"),
}


JPEG, REST = b"\xff\xd8", encode(RED, "JPEG")[2:]
EXIF = b"Exif\0\0MM\0*\0\0\0\x08" + bytes(50_000)
EXIFS = struct.pack(">2sH", b"\xff\xe1", 2 + len(EXIF)) + EXIF
MANY_TAGS = b"MM\0*\0\0\0\x08" + struct.pack(">H", 5000) + bytes(60_000)
COSTLY: dict[str, tuple[Callable[[], bytes], str]] = {
    "blanks": (lambda: b"P6" + b" " * 20_000 + b"1 1 255\n123", "more than 1,024 bytes of header"),
    "blanks after a number": (lambda: b"P5 1 1" + b"\n" * 2000 + b"255\n1", "bytes of header"),
    "a remark": (lambda: b"P6\n#" + b"a" * 2000 + b"\n1 1 255\n123", "bytes of header"),
    "remarks": (lambda: b"P4" + b"\n#" * 600 + b"\n1 1\n1", "bytes of header"),
    "zeros": (lambda: b"P6 " + b"0" * 2000 + b"1 1 255\n123", "bytes of header"),
    "blanks before floats": (lambda: b"Pf" + b" " * 2000 + b"1 1 1\n1234", "bytes of header"),
    "segments": (lambda: JPEG + b"\xff\xfe\0\2" * 40_000 + REST, "more than 32,768 pieces"),
    "fill bytes": (lambda: JPEG + b"\xff" * 40_000 + REST, "more than 32,768 pieces"),
    "junk": (lambda: JPEG + b"\xff\xfe\0\2" + b"a" * 40_000 + REST, "more than 32,768 pieces"),
    "EXIF": (lambda: JPEG + EXIFS * 30 + REST, "more than 1,048,576 bytes of EXIF"),
    "chunks": (lambda: PNG + chunk(b"tEXt") * 40_000, "more than 32,768 pieces"),
    "colour profiles": (lambda: PNG + chunk(b"iCCP", b"a") * 17, "more than 16 colour profiles"),
    "strips": (lambda: tiff(8, b"12", strips=70_000), "more than 65,536 strips or tiles"),
    "tags": (lambda: MANY_TAGS, "more than 4,096 tags"),
    "comments": (lambda: b"P3 9 9 255\n" + b"#\n" * 1001, "more than 1,000 comments"),
}
REFUSED |= COSTLY


@pytest.mark.parametrize("case", COSTLY)
def test_a_costly_header_is_never_read(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pil, "open", pytest.fail)
    assert count_pixels(COSTLY[case][0]()) == 0


@pytest.mark.parametrize("case", REFUSED)
def test_refused_naming_the_file_and_the_reason(case: str, tmp_path: Path) -> None:
    make, reason = REFUSED[case]
    path = tmp_path / "given.png"
    path.write_bytes(make())
    with pytest.raises(ImageError, match=reason) as caught:
        load_image(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_what_a_decoder_may_be_asked_is_bounded_and_usual_files_are_within() -> None:
    assert load_image(many_scans(40)).size == RED.size
    assert load_image(make_indexed_png(b"\1\2\3")).rgb.tolist() == [[[1, 2, 3]]]
    assert load_image(many_frames(1)).size == (1, 1)
    assert load_image(b"P6\n#" + b"a" * 900 + b"\n 400 1\n255\n" + b" " * 1200).size == (400, 1)
    with pytest.raises(ImageError, match="more than 4,096 tags"):
        load_image(encode(RED, "PNG", exif=MANY_TAGS))
    assert load_image(tiff(16, b"\0\0\xff\xff")).rgb[0, :, 0].tolist() == [0, 255]
    assert load_image(tiff(8, b"\x00\xff", photometric=0)).rgb[0, :, 0].tolist() == [255, 0]


@pytest.mark.parametrize("error", [AssertionError, KeyError, OverflowError, RecursionError])
def test_whatever_decoding_raises_is_a_refusal(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(*_: object) -> None:
        raise error("over\nthis")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", trip)
    for picture in (encode(RED), Pil.open(io.BytesIO(encode(RED)))):
        with pytest.raises(ImageError) as caught:
            load_image(picture)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("depth", "most"), [(8, 12), (16, 24)])  # OpenCV takes 16 of 24
def test_memory_is_a_few_bytes_a_pixel(depth: int, most: int, tmp_path: Path) -> None:
    path = tmp_path / "clear.png"
    row = b"\0" + bytes((101, 2, 3, 99)) * (2048 * depth // 8)
    path.write_bytes(png((2048, 2048), 6, zlib.compress(row * 2048, 1), depth=depth))
    small = tmp_path / "small.png"
    small.write_bytes(png((1, 1), 6, zlib.compress(bytes(9)), depth=depth))
    # The system's peak, for resource.getrusage says that of the process that started this one.
    code = """
import sys
from pathlib import Path
from editjudge.base.images import decode
def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
first, data = (Path(name).read_bytes() for name in sys.argv[1:])
decode(first)
before = peak()
decode(data)
print((peak() - before) * 1024 / 2048**2)
"""
    asked = [sys.executable, "-c", code, small, path]
    ran = subprocess.run(asked, capture_output=True, check=True)
    assert float(ran.stdout) < most


def test_bands_and_the_whole_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain RGB beyond 16 megapixels is converted in bands, and all else always is."""
    pixels = np.random.default_rng(0).integers(0, 256, (31, 23, 3), dtype=np.uint8)
    pictures = [Pil.fromarray(pixels), Pil.fromarray(pixels).convert("RGBA")]
    for name, most in (("_BAND_PIXELS", 64 * 1024), ("_BAND_PIXELS", 50), ("_WHOLE_PIXELS", 0)):
        monkeypatch.setattr(rgb, name, most)
        for picture in pictures:
            image = load_image(encode(picture))
            assert np.array_equal(image.rgb, pixels)
            assert not image.rgb.flags.writeable


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_a_picture_from_elsewhere_is_copied(mode: str) -> None:
    picture = Pil.new(mode, (20, 10), "white")
    image = load_image(picture)
    picture.paste("black", (0, 0, 20, 10))
    assert image.rgb.min() == 255


def test_a_path_without_end_is_no_line_without_end() -> None:
    with pytest.raises(ImageError, match="70,000 characters") as caught:
        load_image("x" * 70_000)
    assert len(str(caught.value)) < 1200


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"nowhere\.png: no such file"):
        load_image(tmp_path / "nowhere.png")
    with pytest.raises(ImageError, match="is a directory"):
        load_image(tmp_path)


def clear_index() -> bytes:
    picture = Pil.new("P", (20, 10), 0)
    picture.putpalette([0, 0, 0, 255, 0, 0])
    return encode(picture, transparency=0)


HALF_CLEAR = encode(Pil.new("RGBA", (20, 10), (0, 0, 0, 128)))
DEEP_GREY = encode(np.full((10, 20), 65535, np.uint16))
CONVERTED: dict[str, tuple[bytes, tuple[int, int], tuple[int, int, int], str]] = {
    "EXIF rotation": (encode(RED, "JPEG", exif=make_orientation(), quality=95), (10, 20), OF_RED, "EXIF"),
    "CMYK": (encode(RED.convert("CMYK"), "JPEG", quality=95), (20, 10), OF_RED, "CMYK"),
    "alpha": (HALF_CLEAR, (20, 10), (127, 127, 127), "alpha laid over white"),
    "transparent palette": (clear_index(), (20, 10), (255, 255, 255), "alpha laid over white"),
    "palette": (encode(RED.quantize(2)), (20, 10), OF_RED, "from P to RGB"),
    "16-bit grey": (DEEP_GREY, (20, 10), (255, 255, 255), "16 bits"),
    "grey": (encode(Pil.new("L", (20, 10), 77)), (20, 10), (77, 77, 77), ""),
    "1x1": (encode(Pil.new("RGB", (1, 1), "white")), (1, 1), (255, 255, 255), ""),
    "opaque alpha": (encode(RED.convert("RGBA")), (20, 10), OF_RED, ""),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_converted_to_upright_rgb_and_noted(case: str) -> None:
    data, size, colour, note = CONVERTED[case]
    image = load_image(data)
    assert (image.size, image.rgb.dtype, image.rgb.flags.writeable) == (size, np.uint8, False)
    assert np.abs(image.rgb.astype(int) - colour).max() <= 6
    assert (note in " ".join(map(str, image.notes))) if note else image.notes == ()


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_a_transparent_grey_of_any_depth_is_transparent(depth: int) -> None:
    """Optimisers write so what was grey with alpha; Pillow scales the pixels alone."""
    count = 8 // depth
    values = [value % 2**depth for value in range(count)]
    packed = sum(value << 8 - depth * (place + 1) for place, value in enumerate(values))
    rows = zlib.compress(bytes([0, packed]))
    for clear in values:
        data = png((count, 1), 0, rows, chunk(b"tRNS", struct.pack(">H", clear)), depth=depth)
        step = 255 // (2**depth - 1)
        expected = [255 if value == clear else value * step for value in values]
        assert load_image(data).rgb[0, :, 0].tolist() == expected


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "GIF", "PPM", "WEBP"])
@pytest.mark.parametrize("size", [(1216, 832), (1600, 900), (16, 16)])
def test_a_size_with_16_in_it_is_no_depth(kind: str, size: tuple[int, int]) -> None:
    data = encode(Pil.new("L" if kind == "GIF" else "RGB", size), kind)
    assert "depth" not in {note.kind for note in load_image(data).notes}


def test_16_bits_of_a_whole_pixel_are_no_depth() -> None:
    pixels = struct.pack("<2H", 0x7FFF, 0)
    head = struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 16, 0, len(pixels), 0, 0, 0, 0)
    file = b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + head + pixels
    assert load_image(file).notes == ()


def test_content_decides_and_a_wrong_suffix_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "really.png"
    path.write_bytes(encode(RED, "JPEG"))
    assert load_image(path).notes == (Note("misnamed", "named .png but holds JPEG"),)


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png"))
    path.write_bytes(encode(RED))
    image = load_image(path)
    assert image.name.endswith(r"caf\xe9.png")
    image.name.encode("utf-8")


@pytest.mark.parametrize("given", ["path", "bytes", "pillow", "array", "image"])
def test_every_kind_of_input_gives_the_same_pixels(given: str, tmp_path: Path) -> None:
    path = tmp_path / "red.png"
    RED.save(path)
    forms = {
        "path": path,
        "bytes": path.read_bytes(),
        "pillow": RED,
        "array": np.asarray(RED),
        "image": load_image(path),
    }
    image = load_image(forms[given])
    assert isinstance(image, Image)
    assert np.array_equal(image.rgb, np.asarray(RED))
    assert not image.rgb.flags.writeable
    assert np.array_equal(decode(image.encoded_bytes)[0], image.rgb)
    assert image.digest.startswith("sha256:")


@pytest.mark.parametrize("shape", [(4, 4, 2), (0, 4, 3), (2, 4, 4, 3), (4, 4, 3)])
def test_arrays_of_another_form_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ImageError, match="give uint8"):
        load_image(np.zeros(shape, np.float32 if shape == (4, 4, 3) else np.uint8))


DEEP_MASK = encode(np.array([[0, 1, 0]], np.uint16))
MASKS: dict[str, tuple[np.ndarray | bytes, list[bool], str]] = {
    "black and white": (np.array([[0, 255, 255]], np.uint8), [False, True, True], ""),
    "0 and 1": (np.array([[0, 1, 0]], np.uint8), [False, True, False], "not black taken as white"),
    "bool": (np.array([[True, False, True]]), [True, False, True], ""),
    "0 and 1 in 16 bits": (DEEP_MASK, [False, True, False], "not black taken as white"),
    "soft edge": (np.array([[0, 1, 128]], np.uint8), [False, True, True], "not black taken"),
    "empty": (np.zeros((1, 3), np.uint8), [False] * 3, ""),
}


@pytest.mark.parametrize("case", MASKS)
def test_masks(case: str) -> None:
    given, expected, note = MASKS[case]
    mask = load_mask(given)
    assert mask.region.tolist() == [expected]
    assert (note in " ".join(map(str, mask.notes))) if note else mask.notes == ()


def test_a_mask_that_is_a_jpeg_keeps_no_zeros() -> None:
    """Around the edges of a JPEG nearly every pixel is a little above black."""
    white = np.zeros((40, 60), bool)
    white[9:23, 13:42] = True
    mask = load_mask(encode(white.astype(np.uint8) * 255, "JPEG", quality=60))
    assert np.array_equal(mask.region, white)
    assert "128 and above taken as white" in str(mask.notes[-1])


def test_masks_that_cannot_be_told_are_refused() -> None:
    with pytest.raises(ImageError, match="mask with transparency"):
        load_mask(HALF_CLEAR)
    with pytest.raises(ImageError, match="mask in colour"):
        load_mask(RED)


def test_a_mask_of_another_size() -> None:
    mask = load_mask(np.eye(8, dtype=bool))
    assert mask.resize((8, 8)) is mask
    larger = mask.resize((16, 16))
    assert larger.region.sum() == 32
    assert larger.notes == (Note("mask", "mask resized from 8x8 to 16x16 (nearest)"),)
    with pytest.raises(ImageError, match="mask of 8x8 for an image of 16x9"):
        mask.resize((16, 9))


def test_a_copy_does_not_need_the_file_again(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    RED.save(file)
    image = load_image(file)
    file.unlink()
    assert copy.copy(image).rgb.tolist() == image.rgb.tolist()
    assert copy.deepcopy([image])[0].encoded_bytes == image.encoded_bytes
