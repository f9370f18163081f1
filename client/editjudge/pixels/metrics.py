"""Mean squared error, peak signal-to-noise ratio, and the table of all pixel metrics."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..base.images import RGB
from ..base.signature import implementation
from .opencv import cv2
from .regions import Region, as_cv_mask, check_pair
from .ssim import ssim, windows_within

MAX_MSE = 255.0**2
PSNR_CAP = 100.0


class Psnr(NamedTuple):
    """A peak signal-to-noise ratio in dB, and whether the cap stands in for a higher one.

    Attributes:
        value: 0..`PSNR_CAP` dB, higher is closer.
        is_capped: The images are identical or closer than the cap can say.
    """

    value: float
    is_capped: bool


@implementation(1)
def mse(reference: RGB, output: RGB, region: Region | None = None) -> float:
    """Mean squared error over the region's pixels and all three channels (`mse.rgb`).

    The sum is exact in integers, so a region that is True everywhere gives the whole image's
    value to the last bit. GIE-Bench (section 3.5) takes it over the pixels outside the mask of
    the edited object, after `align`.

    Args:
        reference: uint8 (H, W, 3), RGB, 0..255.
        output: uint8 (H, W, 3), RGB, 0..255.
        region: bool (H, W), True = pixels that count; None = all.

    Returns:
        0..65025 in squared grey levels, lower is closer, 0 for identical pixels.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: The region is empty.
    """
    check_pair(reference, output, region)
    a, b = np.ascontiguousarray(reference), np.ascontiguousarray(output)
    if region is None:
        squares, pixels = cv2.norm(a, b, cv2.NORM_L2SQR), a.shape[0] * a.shape[1]
    else:
        mask = as_cv_mask(region)
        squares, pixels = cv2.norm(a, b, cv2.NORM_L2SQR, mask), cv2.countNonZero(mask)
    # Some builds square the root of the sum, which is off by a few ulp: the sum is an integer.
    return float(round(squares) / (3 * pixels))


def psnr(reference: RGB, output: RGB, region: Region | None = None) -> Psnr:
    """Peak signal-to-noise ratio over the region's pixels and all three channels (`psnr.rgb`).

    `10 log10(255^2 / MSE)`, one MSE for all channels together, capped (see `psnr_from_mse`).
    GIE-Bench (section 3.5) takes it over the pixels outside the mask of the edited object.

    Args:
        reference: uint8 (H, W, 3), RGB, 0..255.
        output: uint8 (H, W, 3), RGB, 0..255.
        region: bool (H, W), True = pixels that count; None = all.

    Returns:
        0..100 dB, higher is closer.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: The region is empty.
    """
    return psnr_from_mse(mse(reference, output, region))


@implementation(1)
def psnr_from_mse(mse: float) -> Psnr:
    """Peak signal-to-noise ratio in dB of a mean squared error of 8-bit images.

    Identical images have no finite PSNR, and one infinity would drown a mean over images:
    anything above `PSNR_CAP` is reported as the cap and marked.

    Args:
        mse: 0..65025, as `mse` returns it.

    Returns:
        0..100 dB, higher is closer.

    Raises:
        ValueError: The error is outside 0..65025 or not a number.
    """
    if not 0.0 <= mse <= MAX_MSE:
        raise ValueError(f"mse must be within 0..{MAX_MSE:.0f}, not {mse}")
    value = 10.0 * math.log10(MAX_MSE / mse) if mse > 0.0 else math.inf
    return Psnr(PSNR_CAP, is_capped=True) if value > PSNR_CAP else Psnr(value, is_capped=False)


Implementation: TypeAlias = Callable[..., object]


class PixelMetric(NamedTuple):
    """A metric that compares two images of the same size.

    Attributes:
        compute: Takes the reference, the edited image and a region, or None for the whole image.
            Returns the value, and what the evidence says of it beside the value.
        implementations: The functions whose implementation numbers are in a value's signature.
        region_implementations: Further ones, where a region is compared.
    """

    compute: Callable[[RGB, RGB, Region | None], tuple[float, Mapping[str, Any]]]
    implementations: tuple[Implementation, ...]
    region_implementations: tuple[Implementation, ...] = ()


def _metric(function: Callable[..., float], *region_implementations: Implementation) -> PixelMetric:
    """A metric of one function, which has no evidence of its own."""
    return PixelMetric(lambda *images: (function(*images), {}), (function,), region_implementations)


def _psnr(reference: RGB, output: RGB, region: Region | None) -> tuple[float, Mapping[str, Any]]:
    value, is_capped = psnr(reference, output, region)
    return value, {"capped": is_capped}


METRICS: Mapping[str, PixelMetric] = {
    "mse": _metric(mse),
    "psnr": PixelMetric(_psnr, (mse, psnr_from_mse)),
    "ssim": _metric(ssim, windows_within),
}
"""Every pixel metric by its name, which is the first part of a field of `PixelComparison`."""
