"""What a segmenter finds in an image by a phrase."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import BadReply, ImageError
from ..base.images import Image, load_mask

if TYPE_CHECKING:
    from ..panel import Panel


async def segmented(
    image: Image, phrase: str, panel: Panel, service: str
) -> tuple[NDArray[np.bool_] | None, float]:
    """All that a phrase names in an image, and how sure the segmenter is.

    Args:
        service: `segmenter.<variant>`.

    Returns:
        The mask, bool (H, W) of the image's size, None where nothing was found; and the score.

    Raises:
        BadReply: the mask is no mask, or of another shape.
    """
    inputs = {"IMAGE": image.encoded, "PROMPT": phrase.encode()}
    reply = await panel.call(service, inputs, {"select": "all"})
    sure = float(np.asarray(reply["SCORE"])[0])
    data = cast("bytes", reply["MASK"])
    if not data:
        return None, sure
    try:
        mask = (await asyncio.to_thread(load_mask, data)).fitted(image.size).selected
    except ImageError as error:
        raise BadReply(f"MASK: {error.reason}", service=service) from error
    return (mask if mask.any() else None), sure
