"""The demo set on disk: data of `core`, and a folder of results for each editor."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from editjudge.app.spec import RunSpec

from .editors import EDITORS, edit_jpeg
from .edits import DemoEdit, draw_demo_set

ITEMS = "items.jsonl"
OUTPUTS = "outputs"


def write_demo_set(folder: Path) -> RunSpec:
    """Draw the demo set and write it below a folder, replacing existing files.

    Each edit gets `<folder>/<id>/source.png`, `mask.png` (white may change) and `target.png` (the
    right result), and `<folder>/outputs/<editor>/<id>.jpg`; `<folder>/items.jsonl` has one line
    per edit.

    Returns:
        The spec of a run on it.

    Raises:
        MissingExtra: the extra `demo` is not installed.
        OSError: the folder cannot be written.
    """
    edits = draw_demo_set()
    for name in (*(edit.id for edit in edits), *(f"{OUTPUTS}/{editor}" for editor in EDITORS)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_write_edit(edit, folder), ensure_ascii=False) + "\n" for edit in edits]
    (folder / ITEMS).write_text("".join(lines), encoding="utf-8", newline="\n")
    outputs = {name: folder / OUTPUTS / name for name in EDITORS}
    return RunSpec(benchmark="core", data=folder / ITEMS, outputs=outputs)


def is_demo(items: Path) -> bool:
    """Whether a file is the items.jsonl of a demo set, by its first line."""
    if not items.is_file():
        return False
    with items.open("rb") as stream:
        return stream.readline().startswith(b'{"id": "bricks-sale-sign"')


def _write_edit(edit: DemoEdit, folder: Path) -> dict[str, object]:
    """Write the pictures of an edit, and return its line of `items.jsonl`."""
    line: dict[str, object] = {"id": edit.id, "task": edit.kind, "instruction": edit.instruction}
    mask = edit.mask.astype(np.uint8) * 255
    for name, pixels in (("source", edit.source), ("mask", mask), ("target", edit.target)):
        line[name] = f"{edit.id}/{name}.png"
        Image.fromarray(pixels).save(folder / edit.id / f"{name}.png")
    for name in EDITORS:
        (folder / OUTPUTS / name / f"{edit.id}.jpg").write_bytes(edit_jpeg(name, edit))
    return {**line, "target_text": edit.target_text} if edit.target_text else line
