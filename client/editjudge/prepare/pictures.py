"""Small pictures for the review page."""

from __future__ import annotations

import numpy as np
from PIL import Image as Pil

from ..base.images import Image, Mask
from ..report.pictures import data_uri, small

_SIDE = 360
_TINT = np.array([255, 0, 144], np.float32)
"""Magenta: hardly any photograph has it."""


def thumbnail(image: Image) -> str:
    """An image as a data URI, 360 pixels at most."""
    return data_uri(small(image.rgb, _SIDE))


def overlay(image: Image, mask: Mask) -> str:
    """An image as a data URI, with what may change in magenta and the rest pale.

    Args:
        mask: Of the image's size.
    """
    picture = Pil.fromarray(image.rgb)
    picture.thumbnail((_SIDE, _SIDE))
    white = Pil.fromarray(mask.selected).resize(picture.size, Pil.Resampling.NEAREST)
    inside = np.asarray(white, dtype=bool)[..., None]
    pixels = np.asarray(picture, dtype=np.float32)
    shown = np.where(inside, 0.5 * pixels + 0.5 * _TINT, 0.6 * pixels + 0.4 * 255)
    return data_uri(small(shown.astype(np.uint8), _SIDE))
