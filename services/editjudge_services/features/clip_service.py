"""CLIP's image tower behind Triton: role `clip`, model `clip_vit_b_32`."""

from __future__ import annotations

from typing import ClassVar

from editjudge.base.contracts import CLIP

from ..runtime.preprocess import CLIP_CROP, CLIP_SQUASH
from .base import FeatureSpecialist


class ClipVitB32(FeatureSpecialist):
    """CLIP ViT-B/32 (Radford et al. 2021, arXiv:2103.00020): EMBEDDING is FP32[512].

    Whole images are prepared as OpenAI's own code does. Pooled patch tokens go through the final
    layer norm and the projection, as GIE-Bench's official code has it.
    """

    name = "clip_vit_b_32"
    contract = CLIP
    identity: ClassVar = {"implementation": "clip.2"}
    entry = "clip-vit-base-patch32"
    whole = CLIP_CROP
    squash = CLIP_SQUASH
