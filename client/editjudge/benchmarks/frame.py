"""Masks that are laid over whole pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..base.images import Mask
from ..base.upright import Note


class FrameMask(Mask):
    """A mask that is laid over the whole frame of an image, whatever its sides.

    The official masks are square, their images are not; and an output may have another aspect
    ratio than the source that a mask was made for.
    """

    over_frame: ClassVar[bool] = True

    @classmethod
    def of(cls, mask: Mask) -> FrameMask:
        """A mask, laid over whole frames from now on."""
        return cls(mask.name, mask.encoded, mask.pixels, mask.notes, mask.file)

    def fitted(self, size: tuple[int, int]) -> FrameMask:
        """The mask at another size, stretched as the released code does (OpenCV's nearest)."""
        if size == self.size:
            return self
        import cv2

        # OpenCV takes the pixel under the left upper corner, Pillow the one under the middle.
        pixels = np.ascontiguousarray(self.selected).view(np.uint8)
        stretched = cv2.resize(pixels, size, interpolation=cv2.INTER_NEAREST)
        (width, height), (w, h) = self.size, size
        note = Note("mask", f"mask stretched from {width}x{height} to {w}x{h} (nearest)")
        return replace(
            self, pixels=np.asarray(stretched, dtype=np.bool_), notes=(*self.notes, note)
        )
