"""SSIM of blacked-out pictures against scikit-image, and what holds of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from skimage.metrics import structural_similarity

from editjudge.pixels.regions import Degenerate
from editjudge.pixels.ssim import ssim_blacked_out

SHAPES = st.tuples(st.integers(7, 24), st.integers(7, 24))


@st.composite
def pairs(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = draw(SHAPES)
    one, other = (draw(arrays(np.uint8, shape)) for _ in range(2))
    return one, other, draw(arrays(np.bool_, shape))


@settings(deadline=None, max_examples=60)
@given(pairs())
def test_it_is_scikit_images(given_: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    one, other, region = given_
    left = [np.array(a, np.float32) / 255.0 * region.astype(int) for a in (one, other)]
    due, _ = structural_similarity(*left, data_range=1.0, full=True)
    assert ssim_blacked_out(one, other, region) == pytest.approx(due, abs=1e-6)
    assert ssim_blacked_out(other, one, region) == pytest.approx(due, abs=1e-6)
    assert ssim_blacked_out(one, one, region) == pytest.approx(1)
    assert ssim_blacked_out(one, other, np.zeros_like(region)) == 1


def test_the_smaller_the_region_the_higher_the_value() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 256, (2, 60, 60), dtype=np.uint8)
    values = []
    for rows in (60, 40, 20, 5):
        region = np.zeros((60, 60), bool)
        region[:rows] = True
        values.append(ssim_blacked_out(one, other, region))
    assert values == sorted(values)
    assert values[0] < 0.1
    assert values[-1] > 0.9


GREY = np.zeros((9, 9), np.uint8)
ALL = np.ones((9, 9), bool)


@pytest.mark.parametrize(
    ("one", "other", "region", "error"),
    [
        (GREY[..., None], GREY[..., None], ALL, ValueError),
        (GREY, GREY[:8], ALL, ValueError),
        (GREY, GREY.astype(float), ALL, ValueError),
        (GREY, GREY, ALL.astype(np.uint8), ValueError),
        (GREY, GREY, ALL[:8], ValueError),
        (GREY[:6], GREY[:6], ALL[:6], Degenerate),
    ],
)
def test_what_it_is_not_defined_on(one: Any, other: Any, region: Any, error: type) -> None:
    with pytest.raises(error):
        ssim_blacked_out(one, other, region)
