"""What LPIPS takes, shared by the service and the export."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from editjudge.images import RGB

GRAPH = "model.onnx"
# In float64 and rounded once, as the authors' package does it.
_SIGNED = (np.arange(256) / 127.5 - 1).astype(np.float32)


def signed(image: RGB) -> NDArray[np.float32]:
    """An image as LPIPS takes it: uint8 (H, W, 3) to float32 (3, H, W) in [-1, 1]."""
    return _SIGNED[image.transpose(2, 0, 1)]
