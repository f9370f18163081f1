"""Sa2VA behind Triton: role `segmenter`, model `segmenter_sa2va`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from editjudge.base.contracts import SEGMENTER
from editjudge.base.errors import Abstained

from ..runtime.specialist import Outputs, Request, Specialist
from ..runtime.weights import declared_artefact


class Sa2VaSegmenter(Specialist):
    """Sa2VA on Qwen3-VL-4B."""

    name = "segmenter_sa2va"
    contract = SEGMENTER
    identity: ClassVar = {"implementation": "sa2va.1"}
    packages = ("torch", "transformers", "pillow")
    on_gpu: ClassVar = frozenset({"fp32", "bf16"})
    max_batch = 1
    entry = "sa2va-qwen3-vl-4b"

    def load(self, declared: Mapping[str, str]) -> None:
        """Load the networks; refuse other weights than the declared ones."""
        from .checkpoints import accelerator
        from .sa2va import Sa2Va

        artefact = declared_artefact(self.entry, declared)
        self._network = Sa2Va.from_folder(artefact.folder, device=accelerator(declared))

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstained]:
        """Segment one after the other: the answers' lengths differ too much to share a batch."""
        return [
            self._network.segment(
                one.tensors["IMAGE"],
                one.tensors["PROMPT"],
                one.parameters["select"],  # type: ignore[arg-type]
            ).outputs
            for one in batch
        ]
