"""PIQE, the perception-based image quality evaluator, without reference image or training.

Venkatanath N, Praneeth D, Maruthi Chandrasekhar Bh, Channappayya, Medasani: "Blind image
quality evaluation using perception based features", NCC 2015, doi 10.1109/NCC.2015.7084843.

An image is cut into 16x16 blocks. Only blocks with enough contrast count; among these,
blocks with a flat piece of border (compression, smearing) and blocks that look like noise
are penalised by their contrast, and the penalties are averaged.

Numbers equal those of the official code in the package `pypiqe`. Comments marked "as released"
show where that code departs from the paper or surprises.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from editjudge.base.errors import Abstention
from editjudge.base.images import check_image

_BLOCK = 16
_SEGMENT = 6  # length of a piece of block border, in pixels
_ACTIVE = 0.1  # least variance of a block that counts
_FLAT = 0.1  # least standard deviation of a piece of border that is not flat

# As released: the surround is meant to be all columns but the two in the middle. The code
# deletes column 7 and then, from what has moved up by one, column 8, which was column 9. So
# column 8 is in both and column 9 in neither.
_CENTRE = [7, 8]
_SURROUND = [column for column in range(_BLOCK) if column not in (7, 9)]


def compute_piqe(image: NDArray[np.uint8]) -> float:
    """Compute the PIQE of an image.

    Args:
        image: RGB, uint8, (H, W, 3), at least 1x1.

    Returns:
        The measure: 0 is best, 100 is worst. The bounds are nominal, as released: they hold
        while no block's variance exceeds 1, and a pattern made for it reaches 1.05.

    Raises:
        ValueError: the image has another shape or type, or no pixels.
        Abstention: kind `degenerate`, no block is active (an even colour, a sky, a photograph
            out of focus all over). The official code answers 100 there, which is its smoothing
            constant and no measurement, and divides by zero on a black image.
    """
    blocks = _blocks(_normalise(_grey(image)))
    variance = blocks.var(axis=(1, 2), ddof=1)
    active = variance > _ACTIVE
    if not active.any():
        why = "PIQE is undefined: no part of the image has enough contrast to judge"
        raise Abstention("degenerate", why)
    blocks, variance = blocks[active], variance[active]
    penalty = _has_flat_border(blocks) * (1 - variance) + _is_noisy(blocks, variance) * variance
    # One is added to both, as in the paper's equation for pooling, so that few blocks count less.
    return float(100 * (penalty.sum() + 1) / (len(blocks) + 1))


def quality_from_piqe(value: float) -> float:
    """Convert PIQE to a quality, 1 - value/100, the baseline of the role `quality`.

    The quality is not fitted to human preferences and not comparable with learned models.

    Args:
        value: What `piqe` returned: 0 is best, 100 is worst.

    Returns:
        Quality in [0, 1], higher is better; values beyond PIQE's nominal bounds are clipped.

    Raises:
        ValueError: the value is not a number.
    """
    if np.isnan(value):
        raise ValueError("PIQE is not a number")
    return min(1.0, max(0.0, 1 - value / 100))


def _grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    check_image("the image", image)
    # As released: grey is rounded to whole numbers before anything else.
    grey = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    return np.asarray(grey, dtype=np.uint8)


def _normalise(grey: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Pad to whole blocks, and normalise local mean and contrast (MSCN)."""
    # As released: mirrored at the right and bottom, and those pixels count like any others.
    pads = [(0, -size % _BLOCK) for size in grey.shape]
    pixels = np.pad(grey, pads, mode="symmetric").astype(np.float64)
    # As released: stretched so that the brightest pixel is 255. Black has nothing to stretch.
    pixels = np.round(255 * (pixels / max(pixels.max(), 1)))
    mean = _blur(pixels)
    contrast: NDArray[np.float64] = np.sqrt(np.abs(_blur(pixels * pixels) - mean * mean))
    return np.asarray((pixels - mean) / (contrast + 1))


def _blur(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    blur = cv2.GaussianBlur(pixels, ksize=(7, 7), sigmaX=7 / 6, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(blur, dtype=np.float64)


def _blocks(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide (H, W) into blocks (n, 16, 16)."""
    rows, columns = (size // _BLOCK for size in pixels.shape)
    grid = pixels.reshape(rows, _BLOCK, columns, _BLOCK).swapaxes(1, 2)
    return grid.reshape(-1, _BLOCK, _BLOCK)


def _has_flat_border(blocks: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which blocks have a flat piece in any of their four borders: (n,)."""
    borders = np.stack([blocks[:, 0], blocks[:, -1], blocks[:, :, 0], blocks[:, :, -1]], axis=1)
    pieces = np.lib.stride_tricks.sliding_window_view(borders, _SEGMENT, axis=2)
    flat: NDArray[np.bool_] = (pieces.std(axis=3, ddof=1) < _FLAT).any(axis=(1, 2))
    return flat


def _is_noisy(blocks: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which blocks have similar contrast in centre and surround, as noise has: (n,)."""
    deviation = np.sqrt(variance)
    centre = blocks[:, :, _CENTRE].std(axis=(1, 2), ddof=1)
    surround = blocks[:, :, _SURROUND].std(axis=(1, 2), ddof=1)
    # A surround without contrast leaves nothing to compare: 0/0 counts as 0 (as released), and
    # x/0 makes the next line NaN, which is not noise.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((centre == 0) & (surround == 0), 0, centre / surround)
        distance = np.abs(deviation - ratio) / np.maximum(deviation, ratio)
    noisy: NDArray[np.bool_] = deviation > 2 * distance
    return noisy
