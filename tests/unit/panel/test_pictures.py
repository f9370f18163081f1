from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pil
from PIL.PngImagePlugin import PngInfo

from editjudge.base.images import Image, load_image
from editjudge.panel.prompt import Picture, PictureCache, Prompt, Text, fit_size

from ...encoded_pictures import chunk, encode

NOISE = np.random.default_rng(1).integers(0, 256, (96, 128, 3), dtype=np.uint8)


def encode_noise(kind: str, **options: object) -> bytes:
    return encode(NOISE, kind, **options)


def tags() -> Pil.Exif:
    camera = Pil.Exif()
    camera[0x010F] = "A camera"
    return camera


def make_comment() -> PngInfo:
    info = PngInfo()
    info.add_text("Author", "somebody")
    return info


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1024, 4_000_000))
def test_fitted_stays_within_the_budget(width: int, height: int, budget: int) -> None:
    w, h = fit_size((width, height), budget)
    assert 1 <= w <= width
    assert 1 <= h <= height
    assert w * h <= budget or (w, h) == (1, 1)
    if width * height <= budget:
        assert (w, h) == (width, height)
    elif min(w, h) > 8:
        assert w / h == pytest.approx(width / height, rel=0.15)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_plain_file_travels_as_it_is(kind: str) -> None:
    image = load_image(encode_noise(kind))
    picture = PictureCache(1024 * 1024).prepare(image)
    due = image.encoded_bytes, f"image/{kind.lower()}", (128, 96)
    assert (picture.data, picture.media_type, picture.size) == due


REWRITTEN = {
    **{f"{kind} exif": encode_noise(kind, exif=tags()) for kind in ("JPEG", "PNG", "WEBP")},
    "JPEG comment": encode_noise("JPEG", comment=b"somewhere"),
    "PNG text": encode_noise("PNG", pnginfo=make_comment()),
    "PNG with a long end": encode_noise("PNG")[:-12] + chunk(b"IDAT", bytes(200_000)) + chunk(b"IEND"),
    "BMP": encode_noise("BMP"),
}


@pytest.mark.parametrize("data", REWRITTEN.values(), ids=REWRITTEN)
def test_metadata_and_rare_formats_do_not_travel(data: bytes) -> None:
    image = load_image(data)
    picture = PictureCache(1024 * 1024).prepare(image)
    assert picture.media_type == "image/png"
    for secret in (b"A camera", b"somewhere", b"somebody"):
        assert secret not in picture.data
    with Pil.open(io.BytesIO(picture.data)) as sent:
        assert np.array_equal(np.asarray(sent), image.rgb)
        assert not sent.getexif()


def test_a_large_image_is_made_smaller_once() -> None:
    pictures = PictureCache(64 * 48)
    image = load_image(encode_noise("PNG"))
    picture = pictures.prepare(image)
    assert picture.size == (64, 48)
    assert pictures.prepare(load_image(encode_noise("PNG"))) is picture
    expected = Pil.fromarray(NOISE).resize((64, 48), Pil.Resampling.LANCZOS)
    with Pil.open(io.BytesIO(picture.data)) as sent:
        assert np.array_equal(np.asarray(sent), np.asarray(expected))


def test_the_latest_stay_at_hand_and_those_whose_image_does() -> None:
    def flat(value: int) -> Image:
        return load_image(np.full((8, 8, 3), value, np.uint8))

    image = flat(0)
    two = 2 * PictureCache(1024).prepare(image).memory_bytes + 1
    pictures = PictureCache(1024 * 1024, max_bytes=two)
    alive, gone = pictures.prepare(image), pictures.prepare(flat(1))
    for value in (2, 3):
        pictures.prepare(flat(value))
    assert pictures.prepare(image) is alive
    assert pictures.prepare(flat(1)) is not gone


@given(st.binary(max_size=200))
def test_data_urls(data: bytes) -> None:
    picture = Picture(data, "image/webp", (1, 1))
    assert picture.url_head == b"data:image/webp;base64,"
    assert base64.b64decode(picture.base64(), validate=True) == data
    assert len(picture.base64()) == picture.base64_size
    assert picture.url == f"data:image/webp;base64,{base64.b64encode(data).decode()}"


def test_what_is_sent_of_a_picture_is_made_once() -> None:
    image = load_image(encode_noise("PNG"), max_lazy_pixels=1024 * 1024)
    picture = PictureCache(1024 * 1024).prepare(image)
    assert picture.data is image.encoded_bytes
    assert picture.digest is image.digest
    assert image.memory_bytes == len(image.encoded_bytes), "no pixel was needed for it"


def test_prompts_that_begin_alike_share_their_prefix() -> None:
    pictures = PictureCache(1024 * 1024)
    one, other = (pictures.prepare(load_image(np.full((8, 8, 3), value, np.uint8))) for value in (0, 9))
    first = Prompt("judge", (Text("Source:"), one, Text("Is it red?")))
    assert first.prefix == Prompt("judge", (Text("Source:"), one, Text("Blue?"))).prefix
    assert first.prefix == Prompt("judge", (Text("Source:"), one)).prefix
    assert first.prefix != Prompt("judge", (Text("Source:"), other, Text("Is it red?"))).prefix
    assert first.prefix != Prompt("another", first.parts).prefix
    assert first.digest != first.followed_by(Text("!")).digest
    assert Prompt("", (Text("a", is_data=True),)).digest != Prompt("", (Text("a"),)).digest
    assert first.pictures == (one,)
