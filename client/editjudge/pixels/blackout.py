"""Structural similarity of pictures of which a region alone is left, the rest being black."""

import numpy as np
from numpy.typing import NDArray

from ..base.signature import implementation
from .opencv import cv2
from .regions import Degenerate, Region
from .ssim import BORDER, WINDOW, WINDOW_PIXELS

_C1, _C2 = 0.01**2, 0.03**2
_SAMPLE = WINDOW_PIXELS / (WINDOW_PIXELS - 1)


@implementation(1)
def ssim_blacked_out(
    reference: NDArray[np.uint8], edited: NDArray[np.uint8], region: Region
) -> float:
    """Mean structural similarity of two grey pictures, black outside a region (`ssim.grey.black`).

    As GIE-Bench's official code has it: scikit-image's `structural_similarity(data_range=1)` of
    both pictures in 0..1 times the region, over the whole frame but the 3 px at its border. What
    is black in both is equal and counts as 1, so the smaller the region, the higher the value: 1
    for a region without a pixel. `ssim` with a region has no such part.

    Args:
        reference: uint8 (H, W), 0..255, at least 7 px on each side.
        edited: uint8 (H, W), 0..255.
        region: bool (H, W), True = pixels that are left.

    Returns:
        -1..1, higher is closer, 1 for pictures that are equal in the region; within 1e-6 of
        scikit-image.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: A side is smaller than the window.
    """
    for array, dtype in ((reference, np.uint8), (edited, np.uint8), (region, np.bool_)):
        if array.ndim != 2 or array.dtype != dtype or array.shape != reference.shape:
            raise ValueError(
                f"{np.dtype(dtype)} of shape {reference.shape[:2]} is due, "
                f"not {array.dtype} of shape {array.shape}"
            )
    if min(reference.shape) < WINDOW:
        raise Degenerate(f"SSIM's window needs at least {WINDOW}x{WINDOW} pixels")
    x, y = (np.where(region, one / 255.0, 0.0) for one in (reference, edited))
    mean_x, mean_y = _windows(x), _windows(y)
    products, squares = mean_x * mean_y, mean_x**2 + mean_y**2
    covariances = _SAMPLE * (_windows(x * y) - products)
    variances = _SAMPLE * (_windows(x**2 + y**2) - squares)
    similarity = (2 * products + _C1) * (2 * covariances + _C2)
    similarity /= (squares + _C1) * (variances + _C2)
    return float(np.clip(similarity.mean(), -1.0, 1.0))


def _windows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of all windows that fit: (H, W) to (H - 6, W - 6)."""
    means = cv2.boxFilter(values, cv2.CV_64F, (WINDOW, WINDOW), normalize=True)
    return np.asarray(means, np.float64)[BORDER:-BORDER, BORDER:-BORDER]
