"""Co-EditBench in small: pictures, masks and lines of `items.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil

WIDTH, HEIGHT = 24, 16


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
    """A small picture of its own; its width and height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Pil.fromarray(pixels).save(path)


def line(edit_type: str = "subject_customization", **given: Any) -> dict[str, Any]:
    """A right line: an edit of the left third, as the mask shows."""
    usual = {"id": "1", "instruction": "make it red", "source": "source.png", "mask": "mask.png"}
    says = {"mask_shows": "edited"} if edit_type == "subject_customization" else {}
    made = {**usual, "type": edit_type, **says, **given}
    return {key: value for key, value in made.items() if value is not None}


def write_data(folder: Path, lines: Iterable[Any]) -> Path:
    """`items.jsonl` beside two sources, a mask of the left third, an empty one and a full one."""
    picture(folder / "source.png", 1)
    picture(folder / "other.png", 2)
    for name, columns in (("mask", WIDTH // 3), ("empty", 0), ("full", WIDTH)):
        shown = np.zeros((HEIGHT, WIDTH), np.uint8)
        shown[:, :columns] = 255
        Pil.fromarray(shown).save(folder / f"{name}.png")
    path = folder / "items.jsonl"
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    path.write_text("\n".join(texts) + "\n")
    return path
