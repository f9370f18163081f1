"""Pictures that untrained networks see, and specialists that have loaded them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from PIL import Image as Pil

from editjudge_services.runtime.specialist import Specialist
from editjudge_services.zoo.artefact import load_artefact

S = TypeVar("S", bound=Specialist)


def load(kind: type[S], precision: Any = "fp32") -> S:
    """A specialist on what was exported for it."""
    specialist = kind()
    specialist.load(load_artefact(kind.entry, precision).identity)
    return specialist


def smooth(seed: int, height: int = 90, width: int = 130) -> np.ndarray:
    """A picture without edges."""
    small = np.random.default_rng(seed).integers(0, 256, (9, 13, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(small).resize((width, height), Pil.Resampling.BICUBIC))


def blocks(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A picture of squares of 8 by 8."""
    size = (height // 8 + 1, width // 8 + 1, 3)
    coarse = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return np.ascontiguousarray(coarse.repeat(8, 0).repeat(8, 1)[:height, :width])


NO_PICTURES = [
    np.zeros((16, 16), np.uint8),
    np.zeros((16, 16, 4), np.uint8),
    np.zeros((16, 16, 3), np.float32),
    np.zeros((0, 16, 3), np.uint8),
]
