"""DINOv2 behind Triton: role `features`, model `features_dinov2`."""

from __future__ import annotations

from typing import ClassVar

from editjudge.base.contracts import FEATURES

from ..runtime.preprocess import DINOV2_CROP, DINOV2_SQUASH
from .base import FeatureSpecialist


class DinoV2(FeatureSpecialist):
    """DINOv2 ViT-S/14 (Oquab et al. 2023, arXiv:2304.07193): EMBEDDING is FP32[384].

    Co-EditBench compares pictures with DINOv2; it does not say which size.
    """

    name = "features_dinov2"
    contract = FEATURES
    identity: ClassVar = {"implementation": "dinov2.1"}
    entry = "dinov2-small"
    whole = DINOV2_CROP
    squash = DINOV2_SQUASH
