"""Masks that are laid over whole pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as Pil

from editjudge.base.images import load_mask
from editjudge.benchmarks.frame import FrameMask


def test_a_mask_that_is_laid_over_frames_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    Pil.fromarray(np.full((4, 6), 128, np.uint8)).save(path)
    mask = load_mask(path)
    laid = FrameMask.of(mask)
    assert mask.file == str(path)
    assert vars(laid) == vars(mask)
