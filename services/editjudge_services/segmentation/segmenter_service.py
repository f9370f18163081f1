"""The segmenters behind Triton, role `segmenter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from editjudge.base.contracts import SEGMENTER
from editjudge.base.errors import Abstention

from ..runtime.serving import load_declared_artefact
from ..runtime.specialist import Outputs, Request, Specialist


class GroundedSamSegmenter(Specialist):
    """GroundingDINO-Tiny and SAM ViT-Base."""

    name = "segmenter_grounded_sam"
    contract = SEGMENTER
    identity: ClassVar = {"implementation": "grounded_sam.1"}
    packages = ("torch", "transformers", "pillow")
    on_gpu: ClassVar = frozenset({"fp32", "bf16"})
    entry = "grounded-sam"

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load both networks; refuse other weights than the declared ones."""
        from ..zoo.transformers_tools import choose_device
        from .grounded_sam import GroundedSam

        artefact = load_declared_artefact(self.entry, parameters)
        self._network = GroundedSam.from_folder(artefact.folder, device=choose_device(parameters))

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Segment a batch; the masks do not depend on each other."""
        answers = self._network.segment_all(
            [
                (one.tensors["IMAGE"], one.tensors["PROMPT"], one.parameters["select"])  # type: ignore[misc]
                for one in batch
            ]
        )
        return [answer.outputs for answer in answers]


class GroundedSamHugeSegmenter(GroundedSamSegmenter):
    """GroundingDINO-Tiny and SAM ViT-Huge (Omni IIE Bench)."""

    name = "segmenter_grounded_sam_huge"
    entry = "grounded-sam-huge"


class Sa2VaSegmenter(Specialist):
    """Sa2VA on Qwen3-VL-4B."""

    name = "segmenter_sa2va"
    contract = SEGMENTER
    identity: ClassVar = {"implementation": "sa2va.1"}
    packages = ("torch", "transformers", "pillow")
    on_gpu: ClassVar = frozenset({"fp32", "bf16"})
    max_batch = 1
    entry = "sa2va-qwen3-vl-4b"

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load the networks; refuse other weights than the declared ones."""
        from ..zoo.transformers_tools import choose_device
        from .sa2va import Sa2Va

        artefact = load_declared_artefact(self.entry, parameters)
        self._network = Sa2Va.from_folder(artefact.folder, device=choose_device(parameters))

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Segment one request after another, since the lengths of answers differ too much."""
        return [
            self._network.segment(
                one.tensors["IMAGE"],
                one.tensors["PROMPT"],
                one.parameters["select"],  # type: ignore[arg-type]
            ).outputs
            for one in batch
        ]
