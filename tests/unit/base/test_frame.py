"""Masks that are laid over whole pictures."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pil

from editjudge.base.frame import FrameMask
from editjudge.base.images import load_mask


def test_a_mask_that_is_laid_over_frames_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    Pil.fromarray(np.full((4, 6), 128, np.uint8)).save(path)
    mask = load_mask(path)
    laid = FrameMask.of(mask)
    assert mask.file == str(path)
    assert vars(laid) == vars(mask)


SIDES = st.integers(1, 90)


@given(SIDES, SIDES, SIDES, SIDES, st.integers(0, 2**32 - 1))
def test_a_mask_is_stretched_as_opencv_does(
    width: int, height: int, w: int, h: int, seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 2, (height, width), np.uint8)
    laid = FrameMask.of(load_mask(pixels.astype(np.bool_))).fitted((w, h))
    expected = cv2.resize(pixels, (w, h), interpolation=cv2.INTER_NEAREST)
    assert np.array_equal(laid.selected, expected)
