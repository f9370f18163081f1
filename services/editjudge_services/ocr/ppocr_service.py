"""PP-OCR behind Triton: role `ocr`, model `ocr_ppocr`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from editjudge.errors import Abstained
from editjudge.panel.contracts import OCR

from ..runtime.specialist import Inputs, Outputs, Specialist
from .ppocr import PpOcrReader, verify_weights


class PpOcr(Specialist):
    """The PP-OCR networks that ship in RapidOCR's wheel."""

    name = "ocr_ppocr"
    contract = OCR
    identity: ClassVar = {"implementation": "ppocr.1", "precision": "fp32"}

    def load(self) -> None:
        """Check the weights against the declared digests, load them, read one image."""
        verify_weights()
        self._reader = PpOcrReader()
        self._reader.read([np.full((64, 64, 3), 255, dtype=np.uint8)])

    def infer(self, batch: Sequence[Inputs]) -> Sequence[Outputs | Abstained]:
        """Read the images of a batch; each one's text does not depend on the others."""
        readings = self._reader.read([cast("Any", one["IMAGE"]) for one in batch])
        return [{"TEXT": r.text, "BOXES": r.boxes, "CONFIDENCE": r.confidences} for r in readings]
