"""GroundingDINO: boxes for a phrase (Liu et al., ECCV 2024, arXiv:2303.05499)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..runtime.specialist import BadRequest
from .masks import Select, clean_phrase
from .pixels import fit_shorter_edge, normalise, resize

Detections: TypeAlias = "tuple[NDArray[np.float32], NDArray[np.float32]]"
"""The boxes above the threshold and their scores, in the network's order of queries.

Boxes are float32 (n, 4), in pixels of the image: left, top, right, bottom. They may reach over its
edges a little, as in the official code. Scores are float32 (n,), 0..1, higher is surer.
"""
BOX_THRESHOLD = 0.3
"""Boxes count if their score is above this threshold."""


def select_detections(detections: Detections, select: Select) -> Detections:
    """Return all detections, or the first with the highest score."""
    boxes, scores = detections
    if select == "all" or len(scores) == 0:
        return detections
    best = int(scores.argmax())
    return boxes[best : best + 1], scores[best : best + 1]


class Detector:
    """GroundingDINO in fp32; in half precision it finds other boxes.

    Args:
        network: `GroundingDinoForObjectDetection`, eager attention (it has no other).
        tokenizer: Its BERT tokenizer.
        shortest: Shorter edge of the network's image, pixels.
        longest: Its longer edge at most, pixels.
    """

    def __init__(self, network: Any, tokenizer: Any, *, shortest: int, longest: int) -> None:
        self.network, self.tokenizer = network, tokenizer
        self._shortest, self._longest = shortest, longest
        # On a CPU several at once save 4 % of the time, and take 0.9 GB more for each.
        self.batch_size = 1 if network.device.type == "cpu" else 8

    def detect(self, requests: Sequence[tuple[RGB, str]]) -> list[Detections]:
        """Find the boxes of each phrase in its image.

        Only requests of equal size and number of tokens share a batch: the backbone sees the
        padding, so that boxes would otherwise depend on the rest of the batch.

        Args:
            requests: Images, uint8 (H, W, 3), and phrases.

        Raises:
            BadRequest: a phrase is empty, or longer than the network reads.
        """
        tokens = [self._tokens(prompt) for _, prompt in requests]
        pixels = [self.pixels(image) for image, _ in requests]
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, (ids, view) in enumerate(zip(tokens, pixels, strict=True)):
            groups.setdefault((*view.shape, len(ids)), []).append(index)
        batches = [
            members[at : at + self.batch_size]
            for members in groups.values()
            for at in range(0, len(members), self.batch_size)
        ]
        detections: dict[int, Detections] = {}
        for members in batches:
            output = self._forward([pixels[at] for at in members], [tokens[at] for at in members])
            for row, index in enumerate(members):
                logits, boxes = output.logits[row], output.pred_boxes[row]
                size = requests[index][0].shape[:2]
                detections[index] = self._detections(logits, boxes, size)
        return [detections[index] for index in range(len(requests))]

    def scores(self, image: RGB, prompt: str) -> NDArray[np.float32]:
        """Compute how well each query's box matches its best word, float32 (queries,), 0..1."""
        logits = self._forward([self.pixels(image)], [self._tokens(prompt)]).logits[0]
        scores: NDArray[np.float32] = logits.sigmoid().amax(-1).cpu().numpy()
        return scores

    def pixels(self, image: RGB) -> NDArray[np.float32]:
        """Prepare the network's input for an image, float32 (3, height, width)."""
        size = fit_shorter_edge(image.shape[0], image.shape[1], self._shortest, self._longest)
        return normalise(resize(image, *size))

    def save(self, folder: Path) -> None:
        """Write network and tokenizer in the hub's layout."""
        self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _tokens(self, prompt: str) -> list[int]:
        # The network was trained on lower case with a full stop; lower case also keeps
        # "[SEP]" in a prompt from being read as the token of that name.
        ids: list[int] = self.tokenizer(clean_phrase(prompt).lower() + ".")["input_ids"]
        limit = self.network.config.max_text_len
        if len(ids) > limit:
            raise BadRequest(f"PROMPT: {len(ids)} tokens; the detector reads {limit}")
        return ids

    @torch.inference_mode()
    def _forward(self, images: Sequence[NDArray[np.float32]], texts: Sequence[list[int]]) -> Any:
        device = self.network.device
        pixels, ids = torch.from_numpy(np.stack(images)).to(device), torch.tensor(texts).to(device)
        return self.network(
            pixel_values=pixels,
            pixel_mask=torch.ones_like(pixels[:, 0], dtype=torch.long),
            input_ids=ids,
            token_type_ids=torch.zeros_like(ids),
            attention_mask=torch.ones_like(ids),
        )

    def _detections(self, logits: torch.Tensor, boxes: torch.Tensor, size: tuple[int, ...]) -> Detections:
        """Select the detections of an image.

        Args:
            logits: (queries, words).
            boxes: (queries, 4), centre and size, 0..1.
            size: Height and width of the image.
        """
        scores = logits.sigmoid().amax(-1)
        is_above = scores > BOX_THRESHOLD
        x, y, w, h = boxes[is_above].unbind(-1)
        corners = torch.stack([x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h], -1)
        scale = torch.tensor([size[1], size[0], size[1], size[0]], device=corners.device)
        return (corners * scale).cpu().numpy(), scores[is_above].cpu().numpy()
