"""Small pictures for the review page."""

from __future__ import annotations

import numpy as np
from PIL import Image as Pil

from ..base.images import Image, Mask, load_image
from ..report.page import picture_uri

_SIDE = 360
_TINT = np.array([255, 0, 144], np.float32)
"""Magenta: hardly any photograph has it."""


def thumbnail(image: Image) -> str:
    """An image as a data URI, 360 pixels at most."""
    return picture_uri(image)


def overlay(image: Image, mask: Mask) -> str:
    """An image as a data URI, with what may change in magenta and the rest pale.

    Args:
        mask: Of the image's size.
    """
    small = Pil.fromarray(image.rgb)
    small.thumbnail((_SIDE, _SIDE))
    white = Pil.fromarray(mask.selected).resize(small.size, Pil.Resampling.NEAREST)
    inside = np.asarray(white, dtype=bool)[..., None]
    pixels = np.asarray(small, dtype=np.float32)
    shown = np.where(inside, 0.5 * pixels + 0.5 * _TINT, 0.6 * pixels + 0.4 * 255)
    return picture_uri(load_image(shown.astype(np.uint8), "overlay"))
