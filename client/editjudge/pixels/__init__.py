"""Pixel metrics and alignment: pure functions on NumPy arrays, backed by OpenCV.

An image is `uint8` of shape (H, W, 3), RGB, 0..255. A region is `bool` of shape (H, W), True
where pixels count; None is the whole image, and so is a region that is True everywhere.
"""

from ..base.images import RGB
from .alignment import Alignment, Keypoints, align, find_keypoints
from .metrics import METRICS, PSNR_CAP, PixelMetric, Psnr, mse, psnr, psnr_from_mse
from .opencv import missing_opencv
from .regions import Degenerate, Region
from .ssim import ssim, ssim_blacked_out, windows_within

__all__ = [
    "METRICS",
    "PSNR_CAP",
    "RGB",
    "Alignment",
    "Degenerate",
    "Keypoints",
    "PixelMetric",
    "Psnr",
    "Region",
    "align",
    "find_keypoints",
    "missing_opencv",
    "mse",
    "psnr",
    "psnr_from_mse",
    "ssim",
    "ssim_blacked_out",
    "windows_within",
]
