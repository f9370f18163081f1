"""Image preparation for networks that keep the aspect ratio, with numpy and Pillow alone.

Each function equals the Pillow processor of transformers bit by bit (tested): the
processors that transformers prefers need torchvision, which clashes with torch for CPU.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from editjudge.base.images import RGB

from ..runtime.preprocess import IMAGENET


def resize(image: RGB, height: int, width: int) -> RGB:
    """Resize an image, bilinear.

    Args:
        image: uint8 (H, W, 3).

    Returns:
        uint8 (height, width, 3).
    """
    return np.asarray(Pil.fromarray(image).resize((width, height), Pil.Resampling.BILINEAR))


def normalise(image: RGB) -> NDArray[np.float32]:
    """Put channels first, scale to 0..1, and normalise with ImageNet's mean and deviation.

    Args:
        image: uint8 (H, W, 3).

    Returns:
        float32 (3, H, W).
    """
    mean, deviation = (np.array(one, np.float32) for one in IMAGENET)
    unit_pixels = image.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(((unit_pixels - mean) / deviation).transpose(2, 0, 1))


def fit_shorter_edge(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """Scale a size so that its shorter edge is `shortest` and its longer edge at most `longest`.

    Rounds as DETR's evaluation transform, which GroundingDINO uses: the longer edge is rounded
    down.

    Returns:
        Height and width.
    """
    short, long = min(height, width), max(height, width)
    edge: float = shortest
    if long / short * shortest > longest:
        edge = longest * short / long
    short_edge = round(edge)
    if short == short_edge:
        return height, width
    long_edge = int(edge * long / short)
    return (long_edge, short_edge) if width < height else (short_edge, long_edge)


def fit_longer_edge(height: int, width: int, longest: int) -> tuple[int, int]:
    """Scale a size so that its longer edge is `longest` (SAM's ResizeLongestSide).

    Returns:
        Height and width, each rounded half up.
    """
    scale = longest / max(height, width)
    return int(height * scale + 0.5), int(width * scale + 0.5)
