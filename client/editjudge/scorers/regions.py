"""Regions given by a mask or found by a phrase, and images resized to a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..base.errors import Abstention, BadReply, ImageError
from ..base.images import RGB, Image, encode_mask, load_mask
from ..base.item import Edit
from ..base.signature import implementation
from ..base.threads import in_thread
from ..base.verdict import Evidence

if TYPE_CHECKING:
    from ..panel import Panel

Reference: TypeAlias = Literal["source", "target"]
Region: TypeAlias = Literal["whole", "inside", "outside"]
Select: TypeAlias = Literal["all", "best"]
"""Which of several regions found for a phrase count."""


def select_region(edit: Edit, region: str, size: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Return the pixels of a region at a size (width, height); None for the whole image.

    Raises:
        ValueError: there is no such region, or the item has no mask; the planner does not let the
            latter happen.
    """
    if region == "whole":
        return None
    if region not in {"inside", "outside"}:
        raise ValueError(f"there is no region {region!r} (there is whole, inside, outside)")
    if edit.item.mask is None:
        raise ValueError(f"{region} of {edit.item.id} needs a mask")
    inside = edit.item.mask.resize(size).region
    return inside if region == "inside" else ~inside


def is_region_empty(edit: Edit, region: str, size: tuple[int, int]) -> bool:
    """Whether a region has no pixel at a given size."""
    pixels = select_region(edit, region, size)
    return pixels is not None and not pixels.any()


def require_region(edit: Edit, region: str, size: tuple[int, int]) -> NDArray[np.bool_] | None:
    """Return the pixels of a region that is not empty, at a size; None for the whole image.

    Raises:
        Abstention: `degenerate`, when the region has no pixel, or the mask cannot be laid over an
            image of this aspect ratio.
    """
    try:
        mask = select_region(edit, region, size)
    except ImageError as error:
        # Without the name of its file: that is another one where the edit was sent to be judged.
        raise Abstention("degenerate", error.reason) from error
    if mask is not None and not mask.any():
        raise Abstention("degenerate", f"the region {region} the mask has no pixel")
    return mask


def encode_region(edit: Edit, region: str, size: tuple[int, int]) -> dict[str, bytes]:
    """Encode a region as services take it: `{"MASK": PNG}`, or `{}` for the whole image.

    Raises:
        Abstention: as `require_region`.
    """
    mask = require_region(edit, region, size)
    return {} if mask is None else {"MASK": encode_mask(mask)}


@implementation(1)
def squashed(image: Image, side: int) -> RGB:
    """Resize an image to a square, whatever its aspect ratio (Lanczos)."""
    resized_image = Pil.fromarray(image.rgb).resize((side, side), Pil.Resampling.LANCZOS)
    return np.asarray(resized_image)


@implementation(1)
def fitted(output: Image, reference: Image) -> tuple[RGB, Evidence]:
    """Resize an edited image to its reference's size (Lanczos), and note whether it changed."""
    note = make_resize_note(output.size, reference.size)
    if not note:
        return output.rgb, note
    resized_image = Pil.fromarray(output.rgb).resize(reference.size, Pil.Resampling.LANCZOS)
    return np.asarray(resized_image), note


def make_resize_note(before: tuple[int, int], after: tuple[int, int]) -> Evidence:
    """Return the evidence that an image was resized; empty if it was not."""
    (w, h), (width, height) = before, after
    return {} if before == after else {"resized": f"{w}x{h} to {width}x{height} (Lanczos)"}


async def segment_phrase(
    image: Image, phrase: str, panel: Panel, service: str, select: Select = "all"
) -> tuple[NDArray[np.bool_] | None, float]:
    """Find what a phrase names in an image, by a segmenter.

    Args:
        service: `segmenter.<variant>`.
        select: Of several finds all together, or the best.

    Returns:
        The mask, bool (H, W) of the image's size, None where nothing was found; and the score.

    Raises:
        BadReply: the mask is no mask, or of another shape.
    """
    inputs = {"IMAGE": image.encoded_bytes, "PROMPT": phrase.encode()}
    reply = await panel.call(service, inputs, {"select": select})
    sure = float(np.asarray(reply["SCORE"])[0])
    data = cast("bytes", reply["MASK"])
    if not data:
        return None, sure
    try:
        mask = (await in_thread(load_mask, data)).resize(image.size).region
    except ImageError as error:
        raise BadReply(f"MASK: {error.reason}", service=service) from error
    return (mask if mask.any() else None), sure
