"""PIQE behind Triton: role `quality`, model `quality_piqe`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from editjudge.base.contracts import QUALITY
from editjudge.base.errors import Abstention
from editjudge.base.threads import MemoryBudget

from ..runtime.specialist import Outputs, Request, Specialist
from .piqe import compute_piqe, quality_from_piqe

_THREADS = ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="piqe")
_MEMORY = MemoryBudget(128 * 1024**2)
_BYTES_A_PIXEL = 40
"""What PIQE takes while it computes; measured."""


class Piqe(Specialist):
    """PIQE, a no-reference baseline without weights."""

    name = "quality_piqe"
    contract = QUALITY
    packages = ("numpy", "opencv-python-headless", "pillow")
    identity: ClassVar = {"implementation": "piqe.1", "weights": "none", "precision": "fp64", "fingerprint": "0.27"}

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Score each image independently, side by side while they fit in memory."""
        return list(_THREADS.map(_score, [one.tensors["IMAGE"] for one in batch]))


def _score(image: Any) -> Outputs | Abstention:
    try:
        with _MEMORY.of(image.size // 3 * _BYTES_A_PIXEL):
            value = quality_from_piqe(compute_piqe(image))
    except Abstention as abstention:
        return abstention
    return {"SCORE": np.array([value], dtype=np.float32)}
