"""PIQE behind Triton: role `quality`, model `quality_piqe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from editjudge.base.contracts import QUALITY
from editjudge.base.errors import Abstention

from ..runtime.specialist import Outputs, Request, Specialist
from .piqe import compute_piqe, quality_from_piqe


class Piqe(Specialist):
    """PIQE, a no-reference baseline without weights."""

    name = "quality_piqe"
    contract = QUALITY
    packages = ("numpy", "opencv-python-headless", "pillow")
    identity: ClassVar = {
        "implementation": "piqe.1",
        "weights": "none",
        "precision": "fp64",
        "fingerprint": "0.27",
    }

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Score each image independently."""
        return [_score(one.tensors["IMAGE"]) for one in batch]


def _score(image: Any) -> Outputs | Abstention:
    try:
        value = quality_from_piqe(compute_piqe(image))
    except Abstention as abstention:
        return abstention
    return {"SCORE": np.array([value], dtype=np.float32)}
