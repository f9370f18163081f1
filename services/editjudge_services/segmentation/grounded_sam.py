"""Grounded SAM: GroundingDINO finds boxes for a phrase, SAM segments their contents.

Ren et al., Grounded SAM (2024, arXiv:2401.14159). GIE-Bench takes the best box; Omni IIE
Bench takes all boxes above 0.3 and the union of their masks. Its text threshold of 0.25 only labels
boxes and removes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from editjudge.base.images import RGB

from ..zoo.transformers_tools import load_network, load_settings, save_settings
from .grounding_dino import BOX_THRESHOLD, Detector, select_detections
from .masks import Segmentation, Select, unite_masks
from .sam import BoxSegmenter

_CACHE_SIZE = 16
"""Number of cached image embeddings, 4 MiB each."""


class GroundedSam:
    """GroundingDINO and SAM in fp32.

    Args:
        detector: `GroundingDinoForObjectDetection`.
        tokenizer: Its BERT tokenizer.
        sam: `SamModel`.
        sizes: `shortest`, the shorter edge of the detector's image, pixels, and `longest`, its
            longer edge at most.
    """

    def __init__(self, detector: Any, tokenizer: Any, sam: Any, sizes: Mapping[str, int]) -> None:
        self.sizes = {name: sizes[name] for name in ("shortest", "longest")}
        self.detector = Detector(detector, tokenizer, **self.sizes)
        self.cutter = BoxSegmenter(sam, _CACHE_SIZE)

    @classmethod
    def from_folder(cls, folder: Path, sizes: Mapping[str, int] | None = None, device: str = "cpu") -> GroundedSam:
        """Load both networks from `detector/` and `sam/`, each in the hub's layout.

        Args:
            sizes: `shortest` and `longest`; by default those that `save` wrote.
        """
        import transformers

        # The type stubs of transformers lack the tokenizer and `to` of models.
        library: Any = transformers
        kind = library.GroundingDinoForObjectDetection
        detector = load_network(kind, folder / "detector", dtype=torch.float32, attn_implementation="eager")
        sam = load_network(library.SamModel, folder / "sam", dtype=torch.float32)
        tokenizer = library.BertTokenizerFast.from_pretrained(folder / "detector")
        return cls(detector.to(device).eval(), tokenizer, sam.to(device).eval(), sizes or load_settings(folder))

    def save(self, folder: Path) -> None:
        """Write both networks in the layout that `from_folder` reads."""
        self.detector.save(folder / "detector")
        self.cutter.network.save_pretrained(folder / "sam")
        save_settings(folder, {"box_threshold": BOX_THRESHOLD, **self.sizes, "kept": _CACHE_SIZE})

    def segment(self, image: RGB, prompt: str, select: Select = "all") -> Segmentation:
        """Segment the things that a phrase names in an image.

        Args:
            image: uint8 (H, W, 3).
            prompt: What to look for, a noun phrase; several are separated by full stops.
            select: The best box only, or the union over all boxes.

        Returns:
            The segmentation, whose score is the highest of the boxes used. It has no mask if no
            box is above the threshold.

        Raises:
            BadRequest: the prompt is empty, or longer than the detector reads.
        """
        return self.segment_all([(image, prompt, select)])[0]

    def segment_all(self, requests: Sequence[tuple[RGB, str, Select]]) -> list[Segmentation]:
        """Segment several requests; their results do not depend on each other."""
        results = self.detector.detect([(image, prompt) for image, prompt, _ in requests])
        return [
            self._cut(image, *select_detections(detections, select))
            for (image, _, select), detections in zip(requests, results, strict=True)
        ]

    def _cut(self, image: RGB, boxes: NDArray[np.float32], scores: NDArray[np.float32]) -> Segmentation:
        mask = unite_masks([self.cutter.union(image, boxes)]) if len(scores) else None
        return Segmentation() if mask is None else Segmentation(mask, float(scores.max()), boxes)
