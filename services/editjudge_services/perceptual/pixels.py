"""What LPIPS takes, shared by the service and the export."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import RGB

TRUNK, HEADS = "trunk.onnx", "heads.onnx"
BLACK = -1.0
# In float64 and rounded once, as the official package does it.
_SIGNED = (np.arange(256) / 127.5 - 1).astype(np.float32)
_STRETCHED = 2 * _SIGNED - 1


def signed(image: RGB) -> NDArray[np.float32]:
    """An image as LPIPS takes it: uint8 (H, W, 3) to float32 (3, H, W) in [-1, 1]."""
    return _SIGNED[image.transpose(2, 0, 1)]


def stretched(image: RGB, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """A region as Omni IIE Bench's official code feeds it, on twice the range that is due.

    Pixels in [-1, 1] are multiplied with the mask, and then taken for pixels in [0, 1] and
    brought to [-1, 1] once more.

    Args:
        image: RGB, uint8, (H, W, 3).
        mask: bool, (H, W), True in the region.

    Returns:
        float32, (3, H, W), in [-3, 1] within the region and -1 outside it.
    """
    return np.where(mask, _STRETCHED[image.transpose(2, 0, 1)], np.float32(BLACK))
