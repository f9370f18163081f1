"""PP-OCR behind Triton: role `ocr`, model `ocr_ppocr`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from editjudge.base.contracts import OCR
from editjudge.base.errors import Abstention

from ..runtime.specialist import Outputs, Request, Specialist
from ..zoo.artefact import digest_weights
from .ppocr import WEIGHTS, PpOcrReader


class PpOcr(Specialist):
    """The PP-OCR networks that ship in RapidOCR's wheel."""

    name = "ocr_ppocr"
    contract = OCR
    packages = ("onnxruntime", "opencv-python-headless", "pillow", "rapidocr")
    identity: ClassVar = {"implementation": "ppocr.1", "weights": digest_weights(WEIGHTS), "precision": "fp32"}

    def load(self, parameters: Mapping[str, str]) -> None:
        """Load the networks, which refuses other weights than the declared ones, and warm up."""
        self._reader = PpOcrReader()

    def infer(self, batch: Sequence[Request]) -> Sequence[Outputs | Abstention]:
        """Read the images of a batch; each one's text does not depend on the others."""
        readings = self._reader.read([one.tensors["IMAGE"] for one in batch])
        return [{"TEXT": r.text, "BOXES": r.boxes, "CONFIDENCE": r.confidences} for r in readings]
