"""Damaged pictures through the one place where pictures enter: a picture, or a refusal."""

from __future__ import annotations

import io
import random
import re
import warnings

import numpy as np
from PIL import Image as Pil

from editjudge.base.errors import ImageError
from editjudge.base.images import MAX_PIXELS, Image, Mask, decode, drop_alpha, load_image, load_mask

from .mutations import damage
from .picture_seeds import BOMBS, seeds
from .trials import Attack, Violation, dice

_LONGEST = 600
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def data_of(seed: int, number: int) -> bytes:
    """The damaged file of a trial; the first ones are whole."""
    every = list(seeds().values())
    if number < len(every):
        return every[number]
    rng = dice("pictures", seed, number)
    # One that is refused for what it is needs no damage.
    return damage(rng, rng.choice(every), every)


def trial(seed: int, number: int) -> str:
    """A damaged file as a picture, and by turns as a mask, from Pillow and by its header."""
    data = data_of(seed, number)
    rng = random.Random(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _image(data)
        turn = rng.randrange(3)
        if turn == 0:
            _mask(data)
        elif turn == 1 and outcome != "refused":
            _the_same(data)
        elif turn == 2:
            _check_opened_picture(data)
    return outcome


def _image(data: bytes) -> str:
    try:
        image = load_image(data, "it")
    except ImageError as error:
        _check_refusal(error)
        return "refused"
    _check_picture(image)
    if image.had_alpha:
        _check_picture(drop_alpha(image))
    return "converted" if image.notes else "picture"


def _check_picture(image: Image) -> None:
    rgb = image.rgb
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or rgb.size == 0:
        raise Violation(f"{rgb.dtype} of shape {rgb.shape}")
    if rgb.flags.writeable or rgb.shape[0] * rgb.shape[1] > MAX_PIXELS:
        raise Violation(f"writeable or too large: {rgb.shape}")
    _check_line(" ".join(map(str, image.notes)))


def _check_refusal(error: ImageError) -> None:
    _check_line(str(error))
    if not error.reason.strip():
        raise Violation("a refusal without a reason")


def _check_line(text: str) -> None:
    if len(text) > _LONGEST or "\n" in text or _CONTROL.search(text):
        raise Violation(f"not one short line: {text[:200]!r}")


def _mask(data: bytes) -> None:
    try:
        mask: Mask = load_mask(data, "it")
    except ImageError as error:
        return _check_refusal(error)
    if mask.region.dtype != np.bool_ or mask.region.ndim != 2 or mask.region.size == 0:
        raise Violation(f"a mask of {mask.region.dtype}, {mask.region.shape}")
    return _check_line(" ".join(map(str, mask.notes)))


def _the_same(data: bytes) -> None:
    """The same bytes are the same pixels; nothing is left of what was read before."""
    first, second = decode(data), decode(data)
    if first[1] != second[1] or not np.array_equal(first[0], second[0]):
        raise Violation("the same bytes are other pixels")


def _check_opened_picture(data: bytes) -> None:
    """What Pillow opened and has not read yet, as a notebook gives it."""
    try:
        picture = Pil.open(io.BytesIO(data))
    except Exception:  # noqa: BLE001 - it is the caller's
        return
    try:
        _check_picture(load_image(picture, "it"))
    except ImageError as error:
        _check_refusal(error)


def bomb(_: int, number: int) -> str:
    """As many pixels as are read, in next to no bytes: as a picture, and as a mask."""
    every = list(BOMBS.values())
    data = every[number % len(every)]()
    if number < len(every):
        return _image(data)
    _mask(data)
    return "mask"


# OpenCV takes 16 bytes for a pixel of four channels of 16 bits, Pillow 4 more.
BOMB = Attack("bombs", bomb, full=2 * len(BOMBS), small=1, seconds=30, mib=1536)
PICTURES = Attack("pictures", trial, full=100_000, small=300)
