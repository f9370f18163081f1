"""What every pixel metric asks of its inputs, and the error for inputs it is not defined on."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.images import RGB, check_image

Region: TypeAlias = NDArray[np.bool_]


class Degenerate(ValueError):
    """The metric is not defined for this input, which is well formed but says nothing."""


def check_pair(reference: RGB, output: RGB, region: Region | None) -> None:
    """Check that two images and a region can be compared pixel by pixel.

    Args:
        reference: uint8 (H, W, 3).
        output: uint8 (H, W, 3).
        region: bool (H, W), or None for the whole image.

    Raises:
        ValueError: A shape or a dtype is another one, or the sizes differ.
        Degenerate: The region is empty.
    """
    check_image("reference", reference)
    check_image("edited", output)
    if reference.shape != output.shape:
        raise ValueError(f"the images differ in size: reference {size_of(reference)}, edited {size_of(output)}")
    if region is None:
        return
    if region.dtype != np.bool_ or region.shape != reference.shape[:2]:
        raise ValueError(
            f"region must be bool of shape {reference.shape[:2]}, not {region.dtype} of shape {region.shape}"
        )
    if not region.any():
        raise Degenerate("the region is empty: no pixel is left to compare")


def size_of(image: RGB) -> str:
    """Say an image's size the usual way: width x height."""
    return f"{image.shape[1]}x{image.shape[0]}"


def as_cv_mask(region: Region) -> NDArray[np.uint8]:
    """View a region as the uint8 mask OpenCV takes (nonzero counts), without a copy if it can."""
    return np.ascontiguousarray(region).view(np.uint8)
