"""SAM: masks for boxes (Kirillov et al., ICCV 2023, arXiv:2304.02643)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..runtime.cache import BoundedCache, make_content_key
from .masks import Masks
from .pixels import fit_longer_edge, normalise, resize

_BOXES_AT_ONCE = 16
_PIXELS_AT_ONCE = 16 * 2**20


class BoxSegmenter:
    """Segments boxes with SAM, and caches the embeddings of recent images.

    Args:
        network: `SamModel`.
        cache_size: Number of cached image embeddings, 4 MiB each.

    Attributes:
        cache: The embeddings.
    """

    def __init__(self, network: Any, cache_size: int) -> None:
        self.network = network
        self._side = int(network.config.vision_config.image_size)
        self.cache: BoundedCache[torch.Tensor] = BoundedCache(cache_size)

    def masks(self, image: RGB, boxes: NDArray[np.float32]) -> Masks:
        """Segment each box by the mask, of the network's three, with the highest predicted IoU.

        Args:
            image: uint8 (H, W, 3).
            boxes: float32 (n, 4) in its pixels, n >= 1: left, top, right, bottom.

        Returns:
            bool (n, H, W).
        """
        return np.concatenate(list(self._parts(image, boxes)))

    def union(self, image: RGB, boxes: NDArray[np.float32]) -> Masks:
        """Unite the masks of boxes, bool (H, W), without holding all of them; see `masks`."""
        union = np.zeros(image.shape[:2], dtype=bool)
        for part in self._parts(image, boxes):
            union |= part.any(0)
        return union

    @torch.inference_mode()
    def _parts(self, image: RGB, boxes: NDArray[np.float32]) -> Iterator[Masks]:
        height, width = image.shape[:2]
        inner = fit_longer_edge(height, width, self._side)
        embedding = self._embedding(image)
        scale = np.array([inner[1] / width, inner[0] / height] * 2)
        boxes_at_scale = torch.from_numpy((boxes * scale).astype(np.float32)).to(embedding.device)
        count = min(_BOXES_AT_ONCE, max(1, _PIXELS_AT_ONCE // (height * width)))
        for start in range(0, len(boxes), count):
            some = boxes_at_scale[start : start + count]
            yield self._decode(embedding, some, image.shape[:2])

    def pixels(self, image: RGB) -> NDArray[np.float32]:
        """Prepare the network's input: the longer edge fits its side, the rest is zero.

        Returns:
            float32 (3, side, side).
        """
        inner = fit_longer_edge(image.shape[0], image.shape[1], self._side)
        canvas = np.zeros((3, self._side, self._side), np.float32)
        canvas[:, : inner[0], : inner[1]] = normalise(resize(image, *inner))
        return canvas

    def _decode(self, embedding: torch.Tensor, boxes: torch.Tensor, size: tuple[int, ...]) -> Masks:
        output = self.network(image_embeddings=embedding, input_boxes=boxes[None], multimask_output=True)
        best = output.iou_scores[0].argmax(-1)
        logits = output.pred_masks[0][torch.arange(len(best)), best][:, None].float()
        stretch = torch.nn.functional.interpolate
        full = stretch(logits, (self._side, self._side), mode="bilinear", align_corners=False)
        # The rest of the square is padding.
        height, width = fit_longer_edge(size[0], size[1], self._side)
        content = full[..., :height, :width]
        original = stretch(content, (size[0], size[1]), mode="bilinear", align_corners=False)
        cut: Masks = (original[:, 0] > 0).cpu().numpy()
        return cut

    def _embedding(self, image: RGB) -> torch.Tensor:
        """Return the cached embedding of an image, since encoding it takes 99 % of the time."""
        key = make_content_key(image)
        if (cached_embedding := self.cache.get(key)) is not None:
            return cached_embedding
        pixels = torch.from_numpy(self.pixels(image))[None].to(self.network.device)
        embedding: torch.Tensor = self.network.get_image_embeddings(pixels)
        self.cache.put(key, embedding, 1)
        return embedding
