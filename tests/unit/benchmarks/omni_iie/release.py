"""Omni IIE Bench in small, as it is released: two lists that name images by the authors' paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil

from editjudge.benchmarks.omni_iie.taxonomy import MULTI, SINGLE

AUTHORS = "/home/authors/iie"
"""Where the lists say that everything lies."""


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (48, 40)) -> None:
    """A picture of its own, in broad patches so that resizing leaves something of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    Pil.fromarray(coarse).resize(size, Pil.Resampling.NEAREST).save(path)


def mask(path: Path, share: float = 0.25, size: tuple[int, int] = (48, 40)) -> None:
    """White on the left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros(size[::-1], np.uint8)
    pixels[:, : round(share * size[0])] = 255
    Pil.fromarray(pixels).save(path)


def record(folder: str, sample: str, level: str, **more: Any) -> dict[str, Any]:
    """A record as it is released."""
    name = f"{folder}/{sample}_{level}"
    return {
        "sample_id": sample,
        "level": level,
        "modification_text": f"do {name}",
        "original_image_path": f"{AUTHORS}/sampled_datasets/{folder}/{sample}.jpg",
        "modified_image_path": f"{AUTHORS}/synthesized_images/{folder}/{sample}_{level}.png",
        "source_mask_path": f"{AUTHORS}/masks/{folder}/{sample}_{level}_source.png",
        "target_mask_path": f"{AUTHORS}/masks/{folder}/{sample}_{level}_target.png",
        "entities": {"source_entity": ["a"], "target_entity": ["b"], "source_boxes": [[0, 0, 1, 1]]},
        **more,
    }


def files(root: Path, records: list[dict[str, Any]], share: float = 0.25) -> None:
    """The images that records name; targets are no two alike."""
    for seed, one in enumerate(records):
        here = {k: root / v.removeprefix(f"{AUTHORS}/") for k, v in one.items() if "_path" in k}
        picture(here["original_image_path"], 1000)
        picture(here["modified_image_path"], seed)
        mask(here["target_mask_path"], share)


def write_release(folder: Path, single: list[dict[str, Any]], multi: list[dict[str, Any]]) -> Path:
    """Both lists, and what they name under `files/`; an empty list is not written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in ((SINGLE, single), (MULTI, multi)):
        if records:
            (folder / name).write_text(json.dumps(records))
    files(folder / "files", [*single, *multi])
    return folder
