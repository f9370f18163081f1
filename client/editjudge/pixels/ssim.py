"""Structural similarity (SSIM) over a region, or with all but a region black."""

import numpy as np
from numpy.typing import NDArray

from ..base.images import RGB
from ..base.signature import implementation
from .opencv import cv2
from .regions import Degenerate, Region, as_cv_mask, check_pair, size_of

WINDOW = 7
BORDER = WINDOW // 2
WINDOW_PIXELS = WINDOW**2

# Wang et al.'s constants (K L)^2, brought to the scale of the integer sums in `_ssim_map`:
# means are sums / n, sample covariances are (n sum(xy) - sum(x) sum(y)) / (n (n - 1)).
C1 = np.float32((0.01 * 255) ** 2 * WINDOW_PIXELS**2)
C2 = np.float32((0.03 * 255) ** 2 * WINDOW_PIXELS * (WINDOW_PIXELS - 1))

# A dozen arrays of a stripe live at a time: at this size they stay in a core's L2 cache, twice
# as fast as a whole 1024x1024 image at once.
STRIPE_PIXELS = 48 * 1024
MIN_STRIPE_ROWS = 16

Grey = NDArray[np.uint8]
_IntSums = NDArray[np.int32]

# The same of pictures in 0..1, as they stand, and what makes sample covariances of means.
_C1, _C2 = 0.01**2, 0.03**2
_SAMPLE = WINDOW_PIXELS / (WINDOW_PIXELS - 1)


@implementation(1)
def ssim(reference: RGB, output: RGB, region: Region | None = None) -> float:
    """Mean structural similarity over the region and all three channels (`ssim.rgb.win7`).

    The variant is scikit-image's default, `structural_similarity(channel_axis=2,
    data_range=255)`: a 7x7 uniform window, sample covariance, K1 = 0.01, K2 = 0.03, the mean
    over channels, windows that reach over the image's border left out. It agrees with
    scikit-image within 1e-6. With a region (`ssim.rgb.win7.within`) it is the mean over the
    windows whose 49 pixels all lie in the region: no pixel outside it counts, so what is equal
    there has the value 1 whatever was done elsewhere.

    Wang, Bovik, Sheikh and Simoncelli, "Image Quality Assessment: From Error Visibility to
    Structural Similarity", IEEE TIP 13(4), 2004, equation 13. GIE-Bench (section 3.5) takes it
    over the pixels outside the mask of the edited object.

    Args:
        reference: uint8 (H, W, 3), RGB, 0..255, at least 7 px on each side.
        output: uint8 (H, W, 3), RGB, 0..255.
        region: bool (H, W), True = pixels that count; None = all.

    Returns:
        -1..1, higher is closer, exactly 1 for identical images.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: The region is empty or nowhere as wide and high as a window, or the image is
            smaller than the window.
    """
    check_pair(reference, output, region)
    height, width = reference.shape[:2]
    if min(height, width) < WINDOW:
        raise Degenerate(f"the image is {size_of(reference)}, SSIM's window needs at least {WINDOW}x{WINDOW}")
    # The same masked mean for both cases: a full region is the whole image to the last bit.
    mask = np.ones((height, width), np.uint8) if region is None else as_cv_mask(region)
    mask = windows_within(mask)
    pixels = cv2.countNonZero(mask)
    if pixels == 0:
        raise Degenerate(f"the region is too thin for SSIM: no window of {WINDOW}x{WINDOW} lies wholly in it")

    total = 0.0
    rows = max(MIN_STRIPE_ROWS, STRIPE_PIXELS // width)
    for top in range(0, len(mask), rows):
        window_mask = mask[top : top + rows]
        if window_mask.any():
            stripe = slice(top, top + len(window_mask) + 2 * BORDER)
            similarity = _ssim_map(reference[stripe], output[stripe])
            total += sum(cv2.sumElems(cv2.copyTo(similarity, window_mask)))
    return float(total / (3 * pixels))


@implementation(1)
def windows_within(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Which of all windows that fit lie wholly in a mask: (H, W) to (H - 6, W - 6)."""
    inner = slice(BORDER, -BORDER)
    least = cv2.erode(mask, np.ones((WINDOW, WINDOW), np.uint8))
    return np.ascontiguousarray(np.asarray(least, np.uint8)[inner, inner])


def _ssim_map(x: RGB, y: RGB) -> NDArray[np.float32]:
    """Compute the SSIM of every window that fits: (H, W, 3) to (H - 6, W - 6, 3).

    All sums and differences of products are exact: the largest, 2 (49 * 255)^2, fits int32. Only
    the final ratio is rounded, relatively by less than 5e-7 in float32.
    """
    sum_x, sum_y = _window_sums(x), _window_sums(y)
    sum_xy = _window_sums(np.multiply(x, y, dtype=np.uint16))
    difference = cv2.absdiff(x, y)
    # sum(x^2) + sum(y^2) = sum((x - y)^2) + 2 sum(xy): one box filter less.
    sum_dd = _window_sums(np.multiply(difference, difference, dtype=np.uint16))

    products = sum_x * sum_y
    products *= 2
    squares = sum_x - sum_y
    squares *= squares
    squares += products
    covariances = sum_xy * (2 * WINDOW_PIXELS)
    variances = sum_dd * WINDOW_PIXELS
    variances += covariances
    variances -= squares
    covariances -= products

    similarity = _add_constant(products, C1)
    similarity *= _add_constant(covariances, C2)
    scale = _add_constant(squares, C1)
    scale *= _add_constant(variances, C2)
    similarity /= scale
    return similarity


def _window_sums(values: NDArray[np.uint8] | NDArray[np.uint16]) -> _IntSums:
    sums = cv2.boxFilter(values, cv2.CV_32S, (WINDOW, WINDOW), normalize=False)
    return np.asarray(sums, np.int32)[BORDER:-BORDER, BORDER:-BORDER]


def _add_constant(sums: _IntSums, constant: np.float32) -> NDArray[np.float32]:
    result = sums.astype(np.float32)
    result += constant
    return result


@implementation(1)
def ssim_blacked_out(reference: Grey, output: Grey, region: Region) -> float:
    """Mean structural similarity of two grey pictures, black outside a region (`ssim.grey.black`).

    As GIE-Bench's official code has it: scikit-image's `structural_similarity(data_range=1)` of
    both pictures in 0..1 times the region, over the whole frame but the 3 px at its border. What
    is black in both is equal and counts as 1, so the smaller the region, the higher the value: 1
    for a region without a pixel. `ssim` with a region has no such part.

    Args:
        reference: uint8 (H, W), 0..255, at least 7 px on each side.
        output: uint8 (H, W), 0..255.
        region: bool (H, W), True = pixels that are left.

    Returns:
        -1..1, higher is closer, 1 for pictures that are equal in the region; within 1e-6 of
        scikit-image.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: A side is smaller than the window.
    """
    for array, dtype in ((reference, np.uint8), (output, np.uint8), (region, np.bool_)):
        if array.ndim != 2 or array.dtype != dtype or array.shape != reference.shape:
            raise ValueError(
                f"{np.dtype(dtype)} of shape {reference.shape[:2]} is due, not {array.dtype} of shape {array.shape}"
            )
    if min(reference.shape) < WINDOW:
        raise Degenerate(f"SSIM's window needs at least {WINDOW}x{WINDOW} pixels")
    x, y = (np.where(region, one / 255.0, 0.0) for one in (reference, output))
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
