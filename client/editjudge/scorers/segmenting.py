"""What a segmenter finds in an image by a phrase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import BadReply, ImageError
from ..base.images import Image, load_mask
from ..base.threads import in_thread

if TYPE_CHECKING:
    from ..panel import Panel


Select: TypeAlias = Literal["all", "best"]
"""Which of several finds for a phrase."""


async def segmented(
    image: Image, phrase: str, panel: Panel, service: str, select: Select = "all"
) -> tuple[NDArray[np.bool_] | None, float]:
    """What a phrase names in an image, and how sure the segmenter is.

    Args:
        service: `segmenter.<variant>`.
        select: Of several finds all together, or the best.

    Returns:
        The mask, bool (H, W) of the image's size, None where nothing was found; and the score.

    Raises:
        BadReply: the mask is no mask, or of another shape.
    """
    inputs = {"IMAGE": image.encoded, "PROMPT": phrase.encode()}
    reply = await panel.call(service, inputs, {"select": select})
    sure = float(np.asarray(reply["SCORE"])[0])
    data = cast("bytes", reply["MASK"])
    if not data:
        return None, sure
    try:
        mask = (await in_thread(load_mask, data)).fitted(image.size).selected
    except ImageError as error:
        raise BadReply(f"MASK: {error.reason}", service=service) from error
    return (mask if mask.any() else None), sure
