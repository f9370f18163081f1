"""Masks that are laid over whole pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from .images import Mask
from .upright import Note


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
        # OpenCV takes the pixel under the left upper corner, Pillow the one under the middle.
        (width, height), (w, h) = self.size, size
        columns, rows = (
            np.minimum(np.floor(np.arange(to) * (1.0 / (to / of))).astype(np.intp), of - 1)
            for of, to in ((width, w), (height, h))
        )
        stretched = self.selected[rows[:, None], columns]
        note = Note("mask", f"mask stretched from {width}x{height} to {w}x{h} (nearest)")
        return replace(
            self, pixels=np.asarray(stretched, dtype=np.bool_), notes=(*self.notes, note)
        )
