"""KRIS-Bench in small, as it is released: one folder per task, images beside the annotations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil

from editjudge.benchmarks.kris.taxonomy import FOLDERS, KNOWLEDGE_TASKS

EXPLAINED = {"anomaly_correction", *KNOWLEDGE_TASKS} - {"rule-based_reasoning"}
"""The folders with explanations."""


def picture(path: Path, seed: int = 0, format: str | None = None) -> None:
    """A small picture of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 10, 3), dtype=np.uint8)
    Pil.fromarray(pixels).save(path, format)


def record(folder: str, number: str = "1") -> dict[str, Any]:
    """A right record of a folder."""
    sources: Any = f"{number}.jpg"
    target = ""
    if folder == "temporal_prediction":
        # By turns each of the four frames is the one to be predicted.
        due = (int(number) - 1) % 4 + 1
        frames = [n for n in (1, 2, 3, 4) if n != due]
        sources = [f"{number}-{n}.jpg" for n in frames]
        target = f"{number}-{due}.jpg"
    elif folder == "multi-element_composition":
        sources = [f"{number}-1.png", f"{number}-2.JPG"]
    elif folder == "viewpoint_change":
        target = f"{number}_gt.jpg"
    return {
        "ori_img": sources,
        "gt_img": target,
        "ins_en": f"do {folder} {number}",
        "explain_en": f"so that {number}" if folder in EXPLAINED else "",
    }


def images(folder: Path, one: Mapping[str, Any]) -> None:
    """The images that a record names."""
    sources = one["ori_img"] if isinstance(one["ori_img"], list) else [one["ori_img"]]
    for seed, name in enumerate([*sources, *filter(None, [one.get("gt_img")])]):
        picture(folder / name, seed)


def write_release(path: Path, **counts: int) -> Path:
    """Folders with that many items each (`-` in a name written as `__`); by default 1 of all."""
    wanted = {name.replace("__", "-"): n for name, n in counts.items()} or dict.fromkeys(FOLDERS, 1)
    for folder, count in wanted.items():
        found = {str(n): record(folder, str(n)) for n in range(1, count + 1)}
        for one in found.values():
            images(path / folder, one)
        (path / folder / "annotation.json").write_text(json.dumps(found))
    return path


def flatten(path: Path) -> Path:
    """The same items in one list, as other runners keep them; some lack `gt_img`."""
    entries = []
    for file in sorted(path.glob("*/annotation.json")):
        for number, one in json.loads(file.read_text()).items():
            kept = {k: v for k, v in one.items() if k != "gt_img" or v}
            entries.append({"id": number, "type": file.parent.name, **kept})
        file.unlink()
    (path / "final_data.json").write_text(json.dumps(entries))
    return path / "final_data.json"
