"""GOT-OCR2.0 behind Triton: role `ocr`, model `ocr_got`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from editjudge.base.contracts import OCR
from editjudge.base.errors import Abstention

from ..runtime.serving import load_declared_artefact
from ..runtime.specialist import Outputs, Request, Specialist


class GotOcr(Specialist):
    """GOT-OCR2.0 (arXiv:2409.01704): TEXT, with neither BOXES nor CONFIDENCE."""

    name = "ocr_got"
    contract = OCR
    identity: ClassVar = {"implementation": "got.1"}
    packages = ("torch", "transformers", "pillow")
    on_gpu: ClassVar = frozenset({"fp32", "bf16"})
    entry = "got-ocr2"

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load the network.

        Raises:
            ConfigError: its weights are absent, or not the declared ones.
        """
        from ..zoo.transformers_tools import choose_device
        from .got_reader import GotReader

        artefact = load_declared_artefact(self.entry, parameters)
        self._reader = GotReader.from_folder(artefact.folder, device=choose_device(parameters))

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Read the images of a batch, in one run of the network."""
        readings = self._reader.read([one.tensors["IMAGE"] for one in batch])
        nowhere, unsure = np.zeros((0, 4, 2), np.float32), np.zeros(0, np.float32)
        return [{"TEXT": text, "BOXES": nowhere, "CONFIDENCE": unsure} for text in readings]
