"""DINOv3 behind Triton: role `features`, model `features_dinov3`."""

from __future__ import annotations

from typing import ClassVar

from editjudge.base.contracts import FEATURES

from ..runtime.preprocess import DINOV3_SQUASH
from .base import FeatureSpecialist


class DinoV3(FeatureSpecialist):
    """DINOv3 ViT-B/16 (Siméoni et al. 2025, arXiv:2508.10104): EMBEDDING is FP32[768].

    I2I-Bench compares regions with it; it does not say which size.
    """

    name = "features_dinov3"
    contract = FEATURES
    identity: ClassVar = {"implementation": "dinov3.1"}
    entry = "dinov3-vitb16"
    # Its processor squashes whole images too: a mask on an image seen whole costs no run.
    whole = DINOV3_SQUASH
    squash = DINOV3_SQUASH
