"""Pictures that stay encoded: refused where decoding refuses them, but for one code of streams."""

from __future__ import annotations

import random
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import deflate
import numpy as np
import pytest
from PIL import Image as Pil
from PIL.PngImagePlugin import PngInfo

from editjudge.base import images
from editjudge.base.errors import ImageError
from editjudge.base.images import MAX_PIXELS, Image, leave_encoded, load_image
from editjudge.base.integrity import ImageInfo, inspect_image

from ... import encoded_pictures
from ...encoded_pictures import encode, make_orientation

RNG = np.random.default_rng(5)
SLOPE = np.add.outer(np.arange(41), np.arange(57))[..., None] * (1, 2, 3)
PIXELS = np.clip(SLOPE + RNG.normal(0, 6, (41, 57, 3)), 0, 255).astype(np.uint8)
INSERTED = (b"\xff\xd9", b"\xff\xda", b"IEND", b"\xff\xd8", b"\0\0\0\0IDAT")
MUTATIONS = 4_000


def encode_pixels(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    return encode(Pil.fromarray(PIXELS).convert(mode), kind, **options)


def png(raw: bytes, width: int, height: int, **form: Any) -> bytes:
    """A PNG of rows with their filters."""
    return encoded_pictures.png((width, height), 2, zlib.compress(raw), **form)


def rows(height: int = 41, filter_type: int = 0) -> bytes:
    return b"".join(bytes([filter_type]) + PIXELS[y % 41].tobytes() for y in range(height))


def make_tag() -> PngInfo:
    info = PngInfo()
    info.add_text("Author", "somebody")
    return info


PLAIN = {
    "png": encode_pixels("PNG"),
    "png stored": encode_pixels("PNG", compress_level=0),
    "png grey": encode_pixels("PNG", "L"),
    "png dpi": encode_pixels("PNG", dpi=(72, 72)),
    "png pieces": png(rows(), 57, 41, pieces=5),
    "jpeg": encode_pixels("JPEG", quality=90),
    "jpeg grey": encode_pixels("JPEG", "L"),
    "jpeg progressive": encode_pixels("JPEG", progressive=True),
    "jpeg whole colours": encode_pixels("JPEG", subsampling=0, optimize=True),
    "jpeg restarts": encode_pixels("JPEG", restart_marker_blocks=2),
}
OTHERS = {
    "png alpha": encode_pixels("PNG", "RGBA"),
    "png palette": encode_pixels("PNG", "P"),
    "png text": encode_pixels("PNG", pnginfo=make_tag()),
    "png exif": encode_pixels("PNG", exif=make_orientation()),
    "png grey alpha": encode_pixels("PNG", "LA"),
    "png two colours": encode_pixels("PNG", "1"),
    "jpeg exif": encode_pixels("JPEG", exif=make_orientation()),
    "jpeg comment": encode_pixels("JPEG", comment=b"somewhere"),
    "jpeg cmyk": encode_pixels("JPEG", "CMYK"),
    "webp": encode_pixels("WEBP"),
    "gif": encode_pixels("GIF"),
    "bmp": encode_pixels("BMP"),
    "tiff": encode_pixels("TIFF"),
}


def lazily(data: bytes) -> Image:
    return load_image(data, max_lazy_pixels=MAX_PIXELS)


def refusing(read: Callable[[bytes], Image], data: bytes) -> Any:
    """What is known of a picture, or None where it is refused."""
    try:
        return describe(read(data))
    except ImageError:
        return None


def is_encoded(image: Image) -> bool:
    return image.memory_bytes == len(image.encoded_bytes)


def describe(image: Image) -> Any:
    return image.size, image.notes, image.media_type, image.digest


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_picture_stays_encoded_until_its_pixels_are_asked_for(name: str) -> None:
    image, decoded = lazily(PLAIN[name]), load_image(PLAIN[name])
    assert is_encoded(image)
    assert not is_encoded(decoded)
    assert describe(image) == describe(decoded)
    assert image.media_type
    assert np.array_equal(image.rgb, decoded.rgb)
    assert image.memory_bytes == decoded.memory_bytes


@pytest.mark.parametrize("name", OTHERS)
def test_any_other_is_decoded(name: str) -> None:
    assert inspect_image(OTHERS[name], MAX_PIXELS) is None
    image = lazily(OTHERS[name])
    assert not is_encoded(image)
    assert describe(image) == describe(load_image(OTHERS[name]))


def test_a_picture_that_will_be_resized_is_decoded_at_once() -> None:
    for data in (PLAIN["png"], PLAIN["jpeg"]):
        assert is_encoded(load_image(data, max_lazy_pixels=41 * 57))
        assert not is_encoded(load_image(data, max_lazy_pixels=41 * 57 - 1))


def test_one_that_is_named_as_what_it_is_not_is_not_shown_as_it_is(tmp_path: Any) -> None:
    path = tmp_path / "one.jpg"
    path.write_bytes(PLAIN["png"])
    image = load_image(path, max_lazy_pixels=MAX_PIXELS)
    assert [note.kind for note in image.notes] == ["misnamed"]
    assert image.media_type is None


def test_threads_that_bring_one_file_at_a_time_prove_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proven_sizes = Counter[tuple[int, int]]()

    def inspect_slowly(data: bytes, most: int) -> ImageInfo | None:
        info = inspect_image(data, most)
        assert info
        proven_sizes[info.size] += 1
        time.sleep(0.05)
        return info

    monkeypatch.setattr(images, "inspect_image", inspect_slowly)
    files = [png(bytes(rows * (1 + 3 * 61)), 61, rows) for rows in (3, 4)]
    with ThreadPoolExecutor(8) as threads:
        pictures = [*threads.map(lambda data: leave_encoded(data, "", MAX_PIXELS), files * 4)]
    assert [picture and picture.size for picture in pictures] == [(61, 3), (61, 4)] * 4
    assert proven_sizes == {(61, 3): 1, (61, 4): 1}


def test_pixels_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    decoded = images._decode
    monkeypatch.setattr(images, "_decode", lambda *a: made.append(a) or decoded(*a))
    image = lazily(PLAIN["png"])
    assert not made
    assert image.rgb is image.rgb
    assert len(made) == 1


IN_TWO = png(rows(), 57, 41, pieces=2)
SECOND = IN_TWO.rindex(b"IDAT") - 4
BROKEN = {
    "png cut": PLAIN["png"][:-400],
    "jpeg cut": PLAIN["jpeg"][:-400],
    "no such filter": png(rows(filter_type=5), 57, 41),
    "too large": png(rows(), 60_000, 60_000),
    "bomb": png(b"\0" * 200_000_000, 57, 41)[:-12],
    "no header": PLAIN["png"].replace(b"IHDR", b"IHDS"),
    "two headers": encoded_pictures.png((57, 41), 2, zlib.compress(rows()), encoded_pictures.chunk(b"IHDR", bytes(13))),
    "data in two places": IN_TWO[:SECOND] + encoded_pictures.chunk(b"tIME", bytes(7)) + IN_TWO[SECOND:],
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_not_whole_is_never_taken_for_it(data: bytes) -> None:
    assert inspect_image(data, MAX_PIXELS) is None
    assert refusing(lazily, data) == refusing(load_image, data)


def test_rows_missing_or_too_many_and_what_comes_after_are_left_to_the_decoder() -> None:
    for height in (40, 42):
        assert inspect_image(png(rows(height), 57, 41), MAX_PIXELS) is None
    more = zlib.compress(rows()) + b"more"
    data = encoded_pictures.png((57, 41), 2, more)
    assert inspect_image(data, MAX_PIXELS) is None
    assert not is_encoded(lazily(data))


def test_a_code_that_the_format_has_not_is_taken_where_the_checksum_is_right() -> None:
    """The one thing that decoding refuses and this does not: no encoder writes it."""
    stream = bytes.fromhex(
        "0dc9410d00301002b02568000b3cb18756d4ecbecd4333546b849422ad097d0223791de6c6f140674f2c291f"
        "3087632aae7db5da60814be382b8ee07"
    )
    out = deflate.deflate_decompress(stream, 25 * 4)
    checked = b"\x78\x9c" + stream + struct.pack(">I", deflate.adler32(out))
    data = encoded_pictures.png((24, 4), 0, checked)
    assert inspect_image(data, MAX_PIXELS) == ((24, 4), "image/png")
    assert refusing(load_image, data) is None
    with pytest.raises(ImageError):
        _ = lazily(data).rgb
    damaged = data.replace(stream, stream[:30] + bytes([stream[30] ^ 1]) + stream[31:])
    assert inspect_image(damaged, MAX_PIXELS) is None


def test_every_row_of_a_large_picture_is_looked_at() -> None:
    width, height = 701, 411
    noise = RNG.integers(0, 256, (height, 1 + 3 * width), dtype=np.uint8)
    noise[:, 0] %= 5  # filters
    raw = bytearray(noise.tobytes())
    for pieces in (1, 7):
        data = png(bytes(raw), width, height, pieces=pieces)
        assert inspect_image(data, MAX_PIXELS) == ((width, height), "image/png")
        assert not is_encoded(load_image(data))
    for row in (0, height // 2, height - 1):
        wrong = raw.copy()
        wrong[row * (1 + 3 * width)] = 5
        assert inspect_image(png(bytes(wrong), width, height), MAX_PIXELS) is None


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A file with something done to it, some times with what its format checks made right again."""
    made = bytearray(data)
    at = rng.randrange(len(made))
    end = min(len(made), at + rng.choice((1, 2, 4, 12, 64, 500)))
    match rng.randrange(8):
        case 0:
            made[at] ^= 1 << rng.randrange(8)
        case 1:
            made[at:end] = rng.randbytes(end - at)
        case 2:
            del made[at:]
        case 3:
            del made[at:end]
        case 4:
            made[at:at] = made[at:end]
        case 5:
            made[at:end] = bytes(end - at)
        case 6:
            made[at:at] = rng.choice(INSERTED)
        case _:
            made += rng.choice((b"\0", b"more", bytes(data[:100])))
    return repair(bytes(made)) if rng.random() < 0.5 else bytes(made)


def repair(data: bytes) -> bytes:
    """A PNG with right checksums of its chunks."""
    if not data.startswith(b"\x89PNG"):
        return data
    made, at = [data[:8]], 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        if at + 12 + length > len(data):
            break
        made.append(encoded_pictures.chunk(data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(made) + data[at:]


def deflated_anew(rng: random.Random) -> bytes:
    """A PNG whose data is right as a stream and wrong as a picture, or nearly."""
    raw = bytearray(rows(rng.choice((40, 41, 41, 41, 42)), rng.randrange(6)))
    for _ in range(rng.randrange(3)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    del raw[len(raw) - rng.choice((0, 0, 1, 172)) :]
    made = png(bytes(raw), rng.choice((57, 57, 56)), rng.choice((41, 41, 40)), pieces=3)
    return mutate(made, rng) if rng.random() < 0.3 else made


def test_mutations_are_refused_as_by_decoding() -> None:
    rng = random.Random(16)
    originals = [*PLAIN.values(), *PLAIN.values(), *OTHERS.values()]
    kinds = Counter[str]()
    for _ in range(MUTATIONS):
        data = deflated_anew(rng) if rng.random() < 0.1 else mutate(rng.choice(originals), rng)
        decoded = refusing(load_image, data)
        assert refusing(lazily, data) == decoded
        left = inspect_image(data, MAX_PIXELS)
        kinds["refused" if decoded is None else "left" if left else "decoded"] += 1
        if left:
            assert np.array_equal(lazily(data).rgb, load_image(data).rgb)
    # It says something only where there is enough of each.
    assert min(kinds[kind] for kind in ("refused", "left", "decoded")) > MUTATIONS / 20
