"""GIE-Bench in small, as it is released: one list, masks as lists of numbers, images beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image as Pil

SIDE = 224
SIZE = (240, 160)
"""Of the images, which are no squares: width and height."""
CANNOT_TELL = "I can not tell from the image"


def pixels(seed: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A picture with plenty of corners for SIFT, uint8 (H, W, 3)."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    return np.asarray(Pil.fromarray(coarse).resize(size, Pil.Resampling.BICUBIC))


def picture(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Pil.fromarray(array).save(path)


def shift(array: np.ndarray, x: float, y: float) -> np.ndarray:
    """The picture moved, as generation moves it."""
    matrix = np.array([[1, 0, x], [0, 1, y]], np.float64)
    return np.asarray(cv2.warpAffine(array, matrix, array.shape[1::-1], borderMode=cv2.BORDER_REFLECT))


def mask(top: int, left: int, bottom: int, right: int) -> np.ndarray:
    """A mask with one rectangle, bool (224, 224)."""
    made = np.zeros((SIDE, SIDE), bool)
    made[top:bottom, left:right] = True
    return made


def record(edit_type: str = "Add Object", where: Any = None, **changes: Any) -> dict[str, Any]:
    """A right record."""
    where = mask(60, 70, 130, 150) if where is None else where
    return {
        "edit_instruction": f"Do it: {edit_type}.",
        "evaluation_question": f"What of {edit_type}?",
        "expected_answer": "The new one",
        "multiple_choice_options": ["The new one", "The old one", CANNOT_TELL],
        "edit_type": edit_type,
        "image": f"/{edit_type[:3].lower()}/pexels-someone-1.jpg",
        "image_content_type": "nature",
        "object_mask": np.asarray(where).astype(int).tolist(),
        "url": "https://images.example.com/1.jpeg",
    } | changes


def make_odd_records() -> list[dict[str, Any]]:
    """Ten records with the oddities of the release."""
    return [
        record("Add Object"),
        record(
            "Color Change",
            evaluation_question="What colour is it compared to the original image?",
            multiple_choice_options=["The new one", "The old one, as before", "Another, darker"],
        ),
        record(
            "Textual Edit", expected_answer="YOUR", multiple_choice_options=["Let YOUR Light Shine", "MY", CANNOT_TELL]
        ),
        record("Size Change", expected_answer="yes.", multiple_choice_options=["Yes", "No", CANNOT_TELL]),
        record("Remove Object", np.zeros((SIDE, SIDE))),
        record("Scene Change", np.ones((SIDE, SIDE))),
        record("Background Change", edit_instruction="Again.", image="/again/x y.jpg"),
        record("Background Change", edit_instruction="Again.", image="/again/x y.jpg"),
        record("Layout Modification"),
        record("Attribute Change"),
    ]


def write_release(folder: Path, records: Sequence[Any] | None = None, *, indent: int | None = 2) -> Path:
    """`gie_bench.json` with its images."""
    records = make_odd_records() if records is None else records
    for seed, one in enumerate(records):
        if isinstance(one, dict) and isinstance(one.get("image"), str):
            path = folder / one["image"].lstrip("/")
            if not path.is_file():
                picture(path, pixels(seed))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gie_bench.json"
    path.write_text(json.dumps(records, indent=indent))
    return path
