"""Masks that are laid over whole pictures."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.images import load_mask

SIDES = st.integers(1, 90)


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 2**32 - 1))
def test_a_mask_is_stretched_as_opencv_does(width: int, height: int, w: int, h: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 2, (height, width), np.uint8)
    laid = replace(load_mask(pixels.astype(np.bool_)), stretches_to_frame=True).resize((w, h))
    expected = cv2.resize(pixels, (w, h), interpolation=cv2.INTER_NEAREST)
    assert np.array_equal(laid.region, expected)
