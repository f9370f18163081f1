"""PP-OCR finds and reads the text in an image, as RapidOCR runs it on ONNX Runtime.

Three networks of the PP-OCR family (https://github.com/PaddlePaddle/PaddleOCR) are used with
RapidOCR's own steps around them (https://github.com/RapidAI/RapidOCR): one finds boxes (DB,
arXiv:1911.08947), one detects upside-down crops, one reads a crop (CTC). The networks come with
RapidOCR's wheel; nothing is downloaded.

This module adds pinned weights, results that do not depend on the rest of a batch, a reading order
for rotated text, and a bound on the memory for very long images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from editjudge.base.images import check_image

from ..zoo.artefact import check_files

DETECTOR = "PP-OCRv6_det_small.onnx"
CLASSIFIER = "ch_ppocr_mobile_v2.0_cls_mobile.onnx"
RECOGNISER = "PP-OCRv6_rec_small.onnx"

WEIGHTS = {
    DETECTOR: "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    CLASSIFIER: "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    RECOGNISER: "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
"""The networks in the wheel of rapidocr 3.10.0: file name to sha256."""

# RapidOCR pads images wider than 8:1 with black to 4:1, but not tall ones, and only after it
# has enlarged them without bound: 1x2000 becomes 15000x60000, 2000x1 more still.
_SLIVER, _PADDED_RATIO = 8, 4


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The text in one image, in reading order: n pieces, none if there is no text.

    Attributes:
        text: The lines, joined by newlines; "" where there is no text.
        lines: The lines, each with its pieces joined by spaces.
        pieces: The n texts of the boxes, as the recogniser returns them.
        boxes: The corners of each piece, float32, (n, 4, 2), x and y in pixels of the image
            that was read, clockwise from the corner at the image's top left.
        confidences: The recogniser's confidence in each piece, float32, (n,), in [0.5, 1],
            higher is surer; pieces below 0.5 are left out, as in RapidOCR.
    """

    text: str
    lines: tuple[str, ...]
    pieces: tuple[str, ...]
    boxes: NDArray[np.float32]
    confidences: NDArray[np.float32]


class PpOcrReader:
    """Reads text; not thread-safe.

    Detection, classification and recognition equal `RapidOCR` of rapidocr 3.10.0 with batches
    of one. Its default, batches of six crops of similar shape, pads each crop to the widest of
    its batch, so that what is read of a line depends on the lines around it (measured: 0.05 of
    confidence, and a letter in one line of a hundred), and ONNX Runtime rounds differently for
    another batch size. One crop at a time makes a line's reading its own, and on a CPU it is
    no slower.

    Raises:
        ConfigError: the networks are absent, or not the pinned ones (see `verify_weights`).
    """

    def __init__(self) -> None:
        verify_weights()
        from rapidocr import RapidOCR

        self._engine: Any = RapidOCR(params=_settings())
        # RapidOCR loads each network at its first use, so use all of them now. It enlarges the shorter
        # side to 736 pixels, so that a long picture would take seconds and much memory.
        blank = np.full((48, 48, 3), 255, dtype=np.uint8)
        self._read(blank)
        self._recognise([blank])

    def read(self, images: Sequence[NDArray[np.uint8]]) -> list[Reading]:
        """Read the text in images.

        Args:
            images: RGB, uint8, (H, W, 3) each, of any sizes from 1x1.

        Returns:
            One reading per image, in order. Each depends on its own image only.

            Lines go from top to bottom, boxes on one line from left to right, both as seen
            with the text upright: most of the text decides which way that is, so pages turned
            by 90 or 180 degrees and tilted ones keep their order. Columns are not told apart
            (their lines interleave), and text running in several directions is ordered along
            the main one. Vertical Japanese and Chinese goes by columns, the rightmost first.

        Raises:
            ValueError: an image has another shape or type, or no pixels.
        """
        for index, image in enumerate(images):
            check_image(f"image {index}", image)
        return [self._read(image) for image in images]

    def _read(self, image: NDArray[np.uint8]) -> Reading:
        from rapidocr.main import RapidOCRError
        from rapidocr.utils.process_img import map_boxes_to_original

        padded_image, margin = _pad_sliver(image)
        bgr, steps = self._engine.preprocess_img(cv2.cvtColor(padded_image, cv2.COLOR_RGB2BGR))
        try:
            crops, lines = self._engine.detect_and_crop(bgr, steps)
        except RapidOCRError:  # raised for one reason: nothing was found
            return _reading([], [], np.zeros((0, 4, 2)), np.zeros(0))
        along = _directions(lines.boxes, crops)
        texts, confidences, is_flipped = self._recognise(crops)
        along[is_flipped] *= -1

        boxes = map_boxes_to_original(lines.boxes, steps, *padded_image.shape[:2]) - margin
        boxes = np.clip(boxes, 0, image.shape[1::-1])
        has_text = np.array([bool(text.strip()) for text in texts])
        indices = np.flatnonzero(has_text & (confidences >= self._engine.text_score))
        return _reading(
            _lines(boxes[indices], along[indices]),
            [texts[index] for index in indices],
            boxes[indices],
            confidences[indices],
        )

    def _recognise(
        self, crops: list[NDArray[np.uint8]]
    ) -> tuple[Sequence[str], NDArray[np.float64], NDArray[np.bool_]]:
        """Recognise the text of each crop, with its confidence and whether it is upside down."""
        upright, turns = self._engine.cls_and_rotate(crops)
        read = self._engine.recognize_txt(upright)
        sure = self._engine.text_cls.cls_thresh
        is_flipped = [label == "180" and score > sure for label, score in turns.cls_res]
        return read.txts, np.array(read.scores), np.array(is_flipped)


def verify_weights() -> None:
    """Check that the networks are the pinned ones.

    Raises:
        ConfigError: a file is missing or has another digest than in `WEIGHTS`.
    """
    check_files(_folder(), WEIGHTS, "install rapidocr 3.10.0, whose wheel has the networks")


def _folder() -> Path:
    return Path(str(files("rapidocr"))) / "models"


def _settings() -> dict[str, Any]:
    folder = _folder()
    return {
        # Paths instead of names, since RapidOCR downloads models that it cannot find by name.
        "Det.model_path": str(folder / DETECTOR),
        "Cls.model_path": str(folder / CLASSIFIER),
        "Rec.model_path": str(folder / RECOGNISER),
        "Cls.cls_batch_num": 1,
        "Rec.rec_batch_num": 1,
        "Global.log_level": "critical",
    }


def _pad_sliver(image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Pad a very long image with black; return any image with its margin (x, y)."""
    height, width = image.shape[:2]
    x = y = 0
    if width > _SLIVER * height:
        y = (width // _PADDED_RATIO - height) // 2
    elif height > _SLIVER * width:
        x = (height // _PADDED_RATIO - width) // 2
    padded_image = cv2.copyMakeBorder(image, y, y, x, x, cv2.BORDER_CONSTANT, value=(0, 0, 0))
    return np.asarray(padded_image, dtype=np.uint8), np.array([x, y], dtype=np.float32)


def _reading(
    order: list[list[int]],
    pieces: Sequence[str],
    boxes: NDArray[np.floating[Any]],
    confidences: NDArray[np.floating[Any]],
) -> Reading:
    lines = tuple(" ".join(pieces[index].strip() for index in line) for line in order)
    flat = [index for line in order for index in line]
    return Reading(
        text="\n".join(lines),
        lines=lines,
        pieces=tuple(pieces[index] for index in flat),
        boxes=boxes[flat].astype(np.float32),
        confidences=confidences[flat].astype(np.float32),
    )


def _directions(boxes: NDArray[np.float32], crops: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Return the reading direction of each box, as vectors of its length: (n, 2).

    RapidOCR turns the crop of a tall box anticlockwise, so what it reads from left to right
    ran downwards. Which boxes it turned shows in the crop.
    """
    right, down = boxes[:, 1] - boxes[:, 0], boxes[:, 3] - boxes[:, 0]
    tall = np.linalg.norm(down, axis=1) > np.linalg.norm(right, axis=1)
    is_turned = tall & [crop.shape[1] > crop.shape[0] for crop in crops]
    return np.where(is_turned[:, None], down, right)


def _lines(boxes: NDArray[np.floating[Any]], along: NDArray[np.float32]) -> list[list[int]]:
    """Sort boxes (n, 4, 2) with reading directions `along` (n, 2) into lines of indices."""
    if not len(boxes):
        return []
    lengths = np.linalg.norm(along, axis=1)
    units = along / lengths[:, None]
    # The direction that the greatest length of text agrees with, then the mean of those that
    # agree: a single box is a degree or two off, and upside-down readings of short words occur.
    agreement = units @ units.T
    best = int(np.argmax(np.maximum(agreement, 0) @ lengths))
    main = along[agreement[best] > np.sqrt(0.5)].sum(axis=0)
    main /= np.linalg.norm(main)
    across = np.array([-main[1], main[0]])

    centres = boxes.mean(axis=1)
    x, y = centres @ main, centres @ across
    heights = np.ptp(boxes @ across, axis=1)
    lines: list[list[int]] = []
    for index in np.argsort(y, kind="stable"):
        line = lines[-1] if lines else []
        height = min(heights[index], heights[line].mean()) if line else 0
        if line and y[index] - y[line].mean() < height / 2:
            line.append(int(index))
        else:
            lines.append([int(index)])
    return [sorted(line, key=x.__getitem__) for line in lines]
