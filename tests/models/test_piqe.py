import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pypiqe
import pytest
import skimage.data
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from editjudge.base.errors import Abstention
from editjudge_services.quality import piqe_service
from editjudge_services.quality.piqe import compute_piqe, quality_from_piqe
from editjudge_services.runtime.specialist import Request

from ..patience import patience
from ..verdicts import abstains
from .builders import NO_PICTURES

PHOTOS = {
    name: np.ascontiguousarray(getattr(skimage.data, name)()[..., :3])
    for name in ("astronaut", "chelsea", "coffee", "rocket")
}
ASTRONAUT = PHOTOS["astronaut"]


def noisy(image, spread=25):
    noise = np.random.default_rng(3).normal(0, spread, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def jpeg(image, quality=8):
    _, payload = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return cv2.imdecode(payload, cv2.IMREAD_COLOR)


DAMAGE = {
    "none": np.copy,
    "noise": noisy,
    "jpeg": jpeg,
    "blur": lambda image: cv2.GaussianBlur(image, (0, 0), 1.2),
    "dark": lambda image: image // 5,
}


def reference(image):
    """Judge by the authors' code, which wants BGR and divides 0 by 0 on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(pypiqe.piqe(np.ascontiguousarray(image[..., ::-1]))[0])


def paint_columns(*columns):
    """Draw a block whose given columns alternate between black and white, on mid grey."""
    image = np.full((16, 16, 3), 128, np.uint8)
    for column in columns:
        image[::2, column], image[1::2, column] = 0, 255
    return image


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", PHOTOS)
def test_photographs_equal_the_reference(name, damage):
    image = DAMAGE[damage](PHOTOS[name])
    assert compute_piqe(image) == pytest.approx(reference(image), abs=1e-9)


@pytest.mark.parametrize("height", [1, 5, 15, 16, 17, 100])
@pytest.mark.parametrize("width", [3, 16, 31, 130])
def test_padded_sizes_equal_the_reference(height, width):
    image = noisy(ASTRONAUT[100 : 100 + height, 120 : 120 + width])
    assert compute_piqe(image) == pytest.approx(reference(image), abs=1e-9)


@pytest.mark.parametrize(
    "columns", [(7,), (8,), (9,), (7, 9), (7, 8), (0, 15), tuple(range(0, 16, 2)), tuple(range(16))]
)
def test_centre_and_surround_equal_the_reference(columns):
    image = np.tile(paint_columns(*columns), (2, 3, 1))
    assert compute_piqe(image) == pytest.approx(reference(image), abs=1e-9)


blocky = st.tuples(st.integers(1, 40), st.integers(1, 40)).flatmap(
    lambda size: arrays(np.uint8, (*size, 3), elements=st.sampled_from([0, 1, 90, 255]))
)


@given(blocky)
@example(np.zeros((16, 16, 3), np.uint8))
def test_any_image_equals_the_reference_or_abstains(image):
    try:
        measure = compute_piqe(image)
    except Abstention:
        measure = 100
    # The reference divides black by its brightest pixel, and all is NaN from there.
    expected = reference(image) if image.any() else 100
    assert measure == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("level", [0, 1, 128, 255])
@pytest.mark.parametrize("size", [(1, 1), (16, 16), (50, 70)])
def test_an_even_image_has_no_measure(level, size):
    with abstains("degenerate", "enough contrast"):
        compute_piqe(np.full((*size, 3), level, np.uint8))


def test_channels_are_read_as_rgb():
    assert compute_piqe(ASTRONAUT) != compute_piqe(ASTRONAUT[..., ::-1])


@pytest.mark.parametrize("damage", ["noise", "jpeg", "blur"])
def test_damage_is_worse(damage):
    assert compute_piqe(DAMAGE[damage](ASTRONAUT)) > compute_piqe(ASTRONAUT)


def test_the_image_is_left_alone():
    image = noisy(ASTRONAUT)
    before = image.copy()
    image.flags.writeable = False
    compute_piqe(image)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("image", NO_PICTURES)
def test_other_arrays_are_refused(image):
    with pytest.raises(ValueError, match="must be uint8"):
        compute_piqe(image)


@pytest.mark.parametrize(("measure", "quality"), [(0, 1), (100, 0), (25, 0.75), (-0.5, 1), (100.5, 0)])
def test_quality_turns_the_scale_round(measure, quality):
    assert quality_from_piqe(measure) == pytest.approx(quality)


def test_quality_of_no_number_is_refused():
    with pytest.raises(ValueError, match="not a number"):
        quality_from_piqe(float("nan"))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_quality_stays_in_range_and_falls(a, b):
    low, high = sorted((a, b))
    assert 0 <= quality_from_piqe(high) <= quality_from_piqe(low) <= 1


def test_a_batch_is_scored_side_by_side_and_in_its_order(monkeypatch):
    """Two at a time fit in memory, and neither waits for the other."""
    images = [ASTRONAUT, np.full((64, 64, 3), 128, np.uint8), noisy(ASTRONAUT), PHOTOS["coffee"]]
    both = threading.Barrier(2)
    monkeypatch.setattr(piqe_service, "_THREADS", ThreadPoolExecutor(2))
    monkeypatch.setattr(piqe_service, "compute_piqe", lambda image: both.wait(patience(30)) + 1 and compute_piqe(image))
    answers = piqe_service.Piqe().infer([Request({"IMAGE": image}) for image in images])
    assert isinstance(answers[1], Abstention)
    for image, answer in zip(images, answers, strict=True):
        if image is not images[1]:
            assert answer["SCORE"] == np.float32(quality_from_piqe(compute_piqe(image)))
