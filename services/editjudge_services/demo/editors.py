"""Three editors of known quality, to test whether a judge ranks them correctly."""

import io
import zlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from PIL import Image

from editjudge.pixels.opencv import cv2

from .edits import RGB, DemoEdit

Draw: TypeAlias = Callable[[DemoEdit, np.random.Generator], RGB]

JPEG_QUALITY = 92
SHIFT = 6
BLUR_SIGMA = 1.2
COLOUR_SHIFT = (16, 4, -14)


def _damage(edit: DemoEdit, rng: np.random.Generator) -> RGB:
    right, down = ((SHIFT, 0), (-SHIFT, 0), (0, SHIFT), (0, -SHIFT))[int(rng.integers(4))]
    blurry = np.asarray(cv2.GaussianBlur(edit.target, (0, 0), BLUR_SIGMA), np.uint8)
    with_border = np.pad(blurry, ((SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="reflect")
    height, width = blurry.shape[:2]
    top, left = SHIFT - down, SHIFT - right
    offset_view = with_border[top : top + height, left : left + width]
    return np.clip(offset_view.astype(np.int16) + COLOUR_SHIFT, 0, 255).astype(np.uint8)


EDITORS: Mapping[str, Draw] = {
    "exact": lambda edit, _: edit.target,
    "damaged": _damage,
    "no_edit": lambda edit, _: edit.source,
}
"""`exact` returns the target; `damaged` the target with warmer colours, a blur and a shift of 6 px;
`no_edit` the source. Each returns the picture before JPEG compression: uint8 (H, W, 3), RGB."""


def edit_jpeg(editor: str, edit: DemoEdit) -> bytes:
    """Make an editor's output as a JPEG file of quality 92, whose noise is part of the output.

    The names of the editor and the edit seed its random numbers, so that outputs do not depend on
    each other.
    """
    seed = zlib.crc32(f"{editor}/{edit.id}".encode())
    picture = EDITORS[editor](edit, np.random.default_rng(seed))
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()
