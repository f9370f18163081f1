"""Masks of segmenters, and their form in replies."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..runtime.specialist import BadRequest

Select: TypeAlias = Literal["all", "best"]
Masks: TypeAlias = "NDArray[np.bool_]"


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Where a phrase is in an image.

    Attributes:
        mask: bool (H, W), True inside; None if nothing was found. Never all False.
        score: Confidence in the best region, 0..1, higher is surer; 0 without a mask. It is not
            comparable between networks.
        boxes: float32 (n, 4), the boxes used, in pixels: left, top, right, bottom.
    """

    mask: Masks | None = None
    score: float = 0.0
    boxes: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 4), np.float32))

    @property
    def outputs(self) -> dict[str, NDArray[np.float32] | bytes]:
        """The outputs of the contract: MASK is empty and SCORE 0 if nothing was found."""
        png_bytes = b"" if self.mask is None else encode_png(self.mask)
        return {"MASK": png_bytes, "SCORE": np.array([self.score], np.float32)}


def encode_png(mask: Masks) -> bytes:
    """Encode a mask as a PNG of one 8-bit channel: 255 inside, 0 outside."""
    buffer = io.BytesIO()
    Pil.fromarray(mask.astype(np.uint8) * 255).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def unite_masks(masks: Sequence[Masks] | Masks) -> Masks | None:
    """Unite masks.

    Args:
        masks: n of shape (H, W), or one array (n, H, W).

    Returns:
        bool (H, W); None where there is no mask or all are empty: an empty region is
        nothing found, whatever the network's confidence in it.
    """
    if len(masks) == 0:
        return None
    union_mask = np.logical_or.reduce(np.asarray(masks, dtype=bool), axis=0)
    return union_mask if union_mask.any() else None


def measure_overlap(one: Masks, other: Masks) -> float:
    """Measure the intersection over union of two masks of one shape, 0 to 1; 1 if both are empty."""
    union = int((one | other).sum())
    return int((one & other).sum()) / union if union else 1.0


def clean_phrase(prompt: str) -> str:
    """Put a prompt on one line, without surrounding blanks and full stops.

    Raises:
        BadRequest: the prompt is empty.
    """
    words = " ".join(prompt.split()).strip(" .")
    if not words:
        raise BadRequest("PROMPT is empty; name what to segment")
    return words
