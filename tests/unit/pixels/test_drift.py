from __future__ import annotations

import math
from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from editjudge.pixels.alignment import Keypoints, align_coarse_to_fine, find_coarse_keypoints
from editjudge.pixels.drift import Drift, measure_drift, name_change
from editjudge.pixels.regions import Degenerate

RNG = np.random.default_rng(5)
PHOTO = np.ascontiguousarray(skimage.data.astronaut())
SIDE = PHOTO.shape[0]


@cache
def keypoints_of_photo() -> Keypoints:
    """Keypoints take most of the time, and most tests ask about this photograph."""
    return find_coarse_keypoints(PHOTO)


def drift(output: Any, source: Any = PHOTO, mask: Any = None) -> Drift:
    keypoints = keypoints_of_photo() if source is PHOTO else None
    return measure_drift(output, source, align_coarse_to_fine(output, source, None, keypoints), mask)


def move_image(image: Any, degrees: float, zoom: float, right: float, down: float) -> tuple[Any, float]:
    """An image moved about its centre, and the median step of its corners."""
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2 - 0.5, height / 2 - 0.5), -degrees, zoom)
    matrix[:, 2] += right, down
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    steps = np.linalg.norm(corners @ matrix[:, :2].T + matrix[:, 2] - corners, axis=1)
    output = cv2.warpAffine(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    return output, float(np.median(steps))


def paint_square(image: Any, share: float) -> Any:
    image, side = image.copy(), int(math.sqrt(share) * SIDE)
    image[40 : 40 + side, 60 : 60 + side] = 30, 160, 90
    return image


def jpeg(image: Any) -> Any:
    return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], 1)


def with_noise(image: Any) -> Any:
    return np.clip(image + RNG.normal(0, 8, image.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("change", [lambda i: i, jpeg, with_noise, lambda i: paint_square(i, 0.4)])
@pytest.mark.parametrize(
    ("degrees", "zoom", "right", "down"),
    [(0, 1, 0, 0), (0, 1, 3, -2), (0, 1, 0.5, 0.25), (0, 1.01, 0, 0), (5, 0.9, -20, 7), (-2, 1.1, 40, 0)],
)
def test_a_known_move_is_found(change: Any, degrees: float, zoom: float, right: float, down: float) -> None:
    output, step = move_image(PHOTO, degrees, zoom, right, down)
    found = drift(change(output))
    assert found.shift == pytest.approx(step, abs=0.2)
    assert found.zoom == pytest.approx(100 * abs(zoom - 1), abs=0.05)
    assert found.rotation == pytest.approx(abs(degrees), abs=0.03)
    assert found.evidence["zoom"] == pytest.approx(zoom, abs=5e-4)
    assert found.evidence["translation"] == pytest.approx([right, down], abs=0.2)
    assert math.copysign(1, found.evidence["rotation_degrees"] * degrees) == 1 or degrees == 0


def test_what_stayed_has_no_drift() -> None:
    for output in (PHOTO, paint_square(PHOTO, 0.3)):
        found = drift(output)
        assert (found.shift, found.zoom, found.rotation) == (0, 0, 0)
        assert found.color < 0.1
        assert found.detail < 0.05
    assert drift(paint_square(PHOTO, 0.3)).evidence["kept_share"] < drift(PHOTO).evidence["kept_share"] - 0.2


def test_a_mask_says_what_was_to_stay() -> None:
    mask = np.zeros(PHOTO.shape[:2], np.bool_)
    mask[:300] = True
    output = PHOTO.copy()
    output[:300] = np.clip(output[:300].astype(float) * 0.7 + 40, 0, 255)
    assert drift(output, mask=mask).color < 0.05
    assert drift(output[::1], mask=~mask).color > 5


@pytest.mark.parametrize("gains", [(1.1, 1.0, 0.9), (0.8, 0.8, 0.8)])
def test_colours_are_those_of_the_grey_ramp(gains: tuple[float, ...]) -> None:
    output = np.clip(PHOTO * np.array(gains) + 6, 0, 255).astype(np.uint8)
    found = drift(paint_square(output, 0.2))
    assert found.evidence["gains"] == pytest.approx(gains, abs=0.02)
    assert found.evidence["offsets"] == pytest.approx([6 - 0.5] * 3, abs=1.0)
    ramp = np.repeat(np.linspace(0, 255, 18)[:, None], 3, axis=1)
    skimage_lab = [skimage.color.rgb2lab(np.clip(each, 0, 255) / 255) for each in (ramp * gains + 5.5, ramp)]
    expected = np.linalg.norm(skimage_lab[0] - skimage_lab[1], axis=1).mean()
    assert found.color == pytest.approx(expected, abs=1.0)


def test_detail_is_lost_by_a_blur_and_gained_by_noise() -> None:
    """Whether the picture moved by part of a pixel or not: the fit itself must blur nothing."""
    for step in (0.0, 0.5):
        output, _ = move_image(PHOTO, 0, 1, step, step)
        assert drift(output).detail < 1.5
        assert drift(cv2.GaussianBlur(output, (0, 0), 1.5)).evidence["detail_ratio"] < 0.25
        assert drift(np.clip(output + RNG.normal(0, 20, output.shape), 0, 255).astype(np.uint8)).detail > 2
    darker = np.clip(PHOTO * 0.6, 0, 255).astype(np.uint8)
    assert drift(darker).detail < 0.6, "less contrast is no loss of detail"


def test_pictures_of_other_sizes_are_compared_in_the_pixels_of_the_source() -> None:
    larger = cv2.resize(move_image(PHOTO, 0, 1, 4, 0)[0], (2 * SIDE, 2 * SIDE), interpolation=cv2.INTER_CUBIC)
    found = drift(larger)
    assert found.shift == pytest.approx(4, abs=0.1)
    assert found.zoom < 0.05


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (PHOTO[:, ::-1], "mirrored"),
        (PHOTO[::-1], "mirrored"),
        (np.tile(cv2.resize(PHOTO, (SIDE // 2, SIDE // 2)), (2, 2, 1)), "tiled"),
        (np.tile(cv2.resize(PHOTO, (SIDE, SIDE // 2)), (2, 1, 1)), "tiled"),
        (RNG.integers(0, 256, PHOTO.shape, dtype=np.uint8), ""),
        (np.full_like(PHOTO, 90), ""),
        (255 - PHOTO, ""),
        (skimage.data.coffee(), ""),
        (np.zeros((1, 1, 3), np.uint8), ""),
    ],
)
def test_a_wrong_fit_is_worse_than_none(output: Any, word: str) -> None:
    output = np.ascontiguousarray(output)
    with pytest.raises(Degenerate):
        drift(output)
    assert name_change(output, PHOTO).partition(":")[0] == word


def test_a_picture_that_repeats_is_not_said_to_have_moved() -> None:
    tile = RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    walls = np.tile(cv2.GaussianBlur(tile, (0, 0), 1.5), (16, 16, 1))
    for source in (walls, np.ascontiguousarray(np.dstack([skimage.data.brick()] * 3))):
        for output in (source, paint_square(source, 0.1)):
            try:
                found = drift(output, source)
            except Degenerate:
                continue
            assert found.shift < 0.1
    assert (
        name_change(np.ascontiguousarray(walls[:, ::-1]), walls)
        != "tiled: the edit shows several copies of one picture"
    )


def test_a_mask_of_everything_leaves_nothing_to_compare() -> None:
    with pytest.raises(Degenerate, match="leaves no part"):
        drift(PHOTO, mask=np.ones(PHOTO.shape[:2], np.bool_))


def test_a_phone_photo_is_measured_in_its_own_pixels() -> None:
    photo = cv2.resize(PHOTO, (4000, 3000), interpolation=cv2.INTER_CUBIC)
    assert drift(np.roll(photo, (7, 11), (0, 1)), photo).shift == pytest.approx(math.hypot(7, 11), abs=0.2)


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (8, 512), (512, 1), (16, 16)])
def test_a_picture_without_texture_has_no_drift(size: tuple[int, int]) -> None:
    small = cv2.resize(PHOTO, size, interpolation=cv2.INTER_AREA)
    for output, source in ((small, small), (small, PHOTO), (PHOTO, small)):
        with pytest.raises(Degenerate):
            drift(output, source)


@pytest.mark.parametrize("may_change", [1, SIDE, SIDE * (SIDE - 1), SIDE * SIDE - 1])
def test_a_mask_as_thin_as_a_pixel(may_change: int) -> None:
    """A mask of nearly nothing changes nothing; one that keeps a line or a pixel leaves nothing to compare."""
    mask = np.zeros(PHOTO.shape[:2], np.bool_)
    mask.T.flat[:may_change] = True
    if may_change > SIDE:
        with pytest.raises(Degenerate, match="leaves no part"):
            drift(np.roll(PHOTO, 3, 1), mask=mask)
    else:
        assert drift(np.roll(PHOTO, 3, 1), mask=mask).shift == pytest.approx(3, abs=0.1)


def test_equal_inputs_give_equal_bits() -> None:
    output = jpeg(move_image(PHOTO, 1, 1.02, 3, 4)[0])
    first, again = drift(output), drift(output)
    assert (first[:5], first.evidence) == (again[:5], again.evidence)
