"""Preprocessing of images for vision networks, in numpy and Pillow, without torch.

A `Rule` says how an image is resized, cropped and normalised. `crop` rules are those of the
published processors, for whole images. They cut off what lies outside the middle square, so
a region is judged on a `squash` of the whole image, and `patch_weights` says how much of each
patch of that squash the region covers.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from editjudge.base.images import RGB

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
BICUBIC, LANCZOS = Pil.Resampling.BICUBIC, Pil.Resampling.LANCZOS


@dataclass(frozen=True, slots=True)
class Rule:
    """How one network's input is made.

    Attributes:
        side: Height and width of the input, pixels.
        statistics: Mean and standard deviation of each channel, of values in [0, 1].
        filter: Pillow's filter, on 8-bit pixels; None for torch's antialiased bilinear
            interpolation in float, which does not round in between.
        shortest: The shorter edge is resized to this many pixels and the middle square cut
            out; None: the image is squashed to the square, whatever its aspect ratio.
        to_even: Where the middle falls between two pixels, the even offset is taken, as torchvision
            does; without, the lower one, as transformers does.
    """

    side: int
    statistics: tuple[tuple[float, float, float], tuple[float, float, float]]
    filter: Pil.Resampling | None
    shortest: int | None = None
    to_even: bool = False

    def __call__(self, image: RGB) -> NDArray[np.float32]:
        """Prepare one image.

        Args:
            image: RGB, uint8, (H, W, 3).

        Returns:
            float32, (3, side, side), channels in the order R, G, B, normalised.
        """
        unit = self._resize(image)
        mean, deviation = (np.array(one, dtype=np.float32) for one in self.statistics)
        return np.ascontiguousarray(((unit - mean) / deviation).transpose(2, 0, 1))

    def crop_mask(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Crop a mask, bool (H, W), to the part that the network sees; a squash sees all of it."""
        if self.shortest is None:
            return mask
        height, width = mask.shape
        # The middle square, in pixels of the image; where its edge cuts a pixel, the pixel counts.
        half = min(height, width) * self.side / self.shortest / 2
        top, left = int(max(height / 2 - half, 0)), int(max(width / 2 - half, 0))
        bottom, right = int(np.ceil(height / 2 + half)), int(np.ceil(width / 2 + half))
        return mask[top:bottom, left:right]

    def _resize(self, image: RGB) -> NDArray[np.float32]:
        if self.filter is None:
            return resize_bilinear(image.astype(np.float32) / np.float32(255), self.side)
        picture = Pil.fromarray(image)
        if self.shortest is None:
            picture = picture.resize((self.side, self.side), self.filter)
        else:
            picture = self._middle(picture, self.shortest)
        return np.asarray(picture).astype(np.float32) / np.float32(255)

    def _middle(self, picture: Pil.Image, shortest: int) -> Pil.Image:
        """Resize the shorter edge, and crop the middle square."""
        width, height = picture.size
        if width < height:
            size = (shortest, int(shortest * height / width))
        else:
            size = (int(shortest * width / height), shortest)
        left, top = (self._offset(edge - self.side) for edge in size)
        resized_image = picture.resize(size, self.filter)
        return resized_image.crop((left, top, left + self.side, top + self.side))

    def _offset(self, beyond: int) -> int:
        return round(beyond / 2) if self.to_even else beyond // 2


CLIP_CROP = Rule(224, CLIP, BICUBIC, shortest=224, to_even=True)
"""As OpenAI's `clip` prepares a picture for ViT-B/32, by torchvision (arXiv:2103.00020).

`CLIPImageProcessor` of transformers cuts one pixel beside it where 3, 7, 11, … pixels are cut off;
of a square both make the same.
"""
CLIP_SQUASH = Rule(224, CLIP, LANCZOS)
"""As GIE-Bench's official code prepares both images for its masked CLIP score."""
DINOV2_CROP = Rule(224, IMAGENET, BICUBIC, shortest=256)
"""`BitImageProcessor` of facebook/dinov2-* (arXiv:2304.07193)."""
DINOV2_SQUASH = Rule(224, IMAGENET, BICUBIC)
DINOV3_SQUASH = Rule(224, IMAGENET, None)
"""`DINOv3ViTImageProcessor` of facebook/dinov3-vit*; it squashes whole images too."""


def resize_bilinear(image: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Squash to a square as torch's `interpolate(mode="bilinear", antialias=True)` does.

    Args:
        image: float32, (H, W, C).
        side: Height and width of the result, pixels.

    Returns:
        float32, (side, side, C); within 1e-6 of torch for values in [0, 1].
    """
    height, width, channels = image.shape
    rows = _triangles(height, side) @ image.reshape(height, -1)
    columns = rows.reshape(side, width, channels).transpose(1, 0, 2).reshape(width, -1)
    square: NDArray[np.float32] = _triangles(width, side) @ columns
    return square.reshape(side, side, channels).transpose(1, 0, 2)


def patch_weights(mask: NDArray[np.bool_], grid: int) -> NDArray[np.float32]:
    """How much of each patch a region covers once the image is squashed to a square.

    The patches are laid over the mask at its own size and measured exactly: no resampling,
    so that not even a line one pixel thin is lost.

    Args:
        mask: bool, (H, W), True in the region.
        grid: Patches per side.

    Returns:
        float32, (grid * grid,), row by row, each the covered fraction in [0, 1]; a patch
        that the region touches at all is above 0.
    """
    height, width = mask.shape
    rows, columns = _overlaps(height, grid), _overlaps(width, grid)
    shares = rows @ mask.astype(np.float64) @ columns.T
    return shares.clip(0, 1).astype(np.float32).reshape(-1)


def black_out(image: RGB, mask: NDArray[np.bool_]) -> RGB:
    """Set the pixels of an image, uint8 (H, W, 3), outside a mask, bool (H, W), to 0."""
    return np.where(mask[..., None], image, np.uint8(0))


@lru_cache(maxsize=64)
def _triangles(size: int, side: int) -> NDArray[np.float32]:
    """Weights of each input pixel in each output pixel, (side, size), rows summing to 1."""
    # In float32 throughout, as torch computes them: at pixel 500 that moves weights by 1e-5.
    unit, half = np.float32(1), np.float32(0.5)
    scale = np.float32(size) / np.float32(side)
    reach = max(scale, unit)
    weights = np.zeros((side, size), dtype=np.float32)
    for index in range(side):
        centre = scale * (np.float32(index) + half)
        first, last = max(int(centre - reach + half), 0), min(int(centre + reach + half), size)
        distance = np.arange(first, last, dtype=np.float32) - centre + half
        weights[index, first:last] = np.maximum(unit - np.abs(distance * (unit / reach)), 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


@lru_cache(maxsize=64)
def _overlaps(size: int, grid: int) -> NDArray[np.float64]:
    """The share of each of `grid` equal intervals that each of `size` pixels fills."""
    cuts, pixels = np.arange(grid + 1) * size / grid, np.arange(size)
    right = np.minimum(cuts[1:, None], pixels + 1)
    left = np.maximum(cuts[:-1, None], pixels)
    shares: NDArray[np.float64] = np.maximum(right - left, 0) * (grid / size)
    return shares
