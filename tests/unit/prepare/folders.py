"""Data of a folder, what is decided about its items, and the lines of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pil

from editjudge.benchmarks.items import ItemsFile
from editjudge.prepare.folder import Folder


def write_items(folder: Path, lines: list[dict[str, Any]]) -> Path:
    """Items about one source."""
    folder.mkdir()
    Pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "s.png")
    file = folder / "items.jsonl"
    file.write_text("".join(json.dumps({"source": "s.png"} | one) + "\n" for one in lines))
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in file.read_text().splitlines()]


def decide(folder: Folder, data: ItemsFile, **by_id: str) -> dict[str, Any]:
    """Decisions about items of a folder, as its page saves them."""
    record = folder.record()
    seen = {ref.id: folder.review_digest(ref.data) for ref in data.items()}
    made = [{"id": name, "seen": seen.get(name, ""), "decision": one, "note": ""} for name, one in by_id.items()]
    head = {"review": "editjudge.prepare.1", "what": record.what}
    return head | {"data_digest": record.data_digest, "decisions": made}


def save(folder: Folder, content: Any) -> Path:
    file = folder.path.parent / "review.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file
