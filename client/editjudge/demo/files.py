"""The demo set on disk: the tasks, and what the three editors made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from .editors import EDITORS
from .edits import DemoEdit, demo_set

ITEMS = "items.jsonl"


@dataclass(frozen=True, slots=True, eq=False)
class DemoFiles:
    """Where the pictures of one demo edit lie.

    Attributes:
        source: PNG.
        mask: PNG, black and white; white may change.
        target: PNG, the right result.
        results: JPEG by the editor's name, in the order of `EDITORS`.
    """

    edit: DemoEdit
    source: Path
    mask: Path
    target: Path
    results: Mapping[str, Path]


def write_demo_set(folder: Path) -> list[DemoFiles]:
    """Draw the demo set and write it below a folder, over what is there.

    Each edit gets `<folder>/<id>/source.png`, `mask.png`, `target.png` and `<editor>.jpg`;
    `<folder>/items.jsonl` has one line per edit, with paths relative to the folder.

    Returns:
        The files, in the order of `demo_set`.

    Raises:
        MissingExtra: The extra `demo` is not installed.
        OSError: The folder cannot be written.
    """
    edits = demo_set()
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(edit, folder / edit.id) for edit in edits]
    lines = [json.dumps(_item(files, folder), ensure_ascii=False) + "\n" for files in written]
    (folder / ITEMS).write_text("".join(lines), encoding="utf-8", newline="\n")
    return written


def is_demo(items: Path) -> bool:
    """Whether a file is the list of a demo set, told by its first line."""
    if not items.is_file():
        return False
    with items.open("rb") as opened:
        line = opened.readline()
    return f'"results": {{"{next(iter(EDITORS))}": '.encode() in line


def _write(edit: DemoEdit, folder: Path) -> DemoFiles:
    folder.mkdir(exist_ok=True)
    files = DemoFiles(
        edit=edit,
        source=folder / "source.png",
        mask=folder / "mask.png",
        target=folder / "target.png",
        results={name: folder / f"{name}.jpg" for name in EDITORS},
    )
    Image.fromarray(edit.source).save(files.source)
    Image.fromarray(edit.mask.astype(np.uint8) * 255).save(files.mask)
    Image.fromarray(edit.target).save(files.target)
    for name, path in files.results.items():
        path.write_bytes(EDITORS[name].jpeg(edit))
    return files


def _item(files: DemoFiles, folder: Path) -> dict[str, object]:
    def relative(path: Path) -> str:
        return path.relative_to(folder).as_posix()

    return {
        "id": files.edit.id,
        "kind": files.edit.kind,
        "instruction": files.edit.instruction,
        "source": relative(files.source),
        "mask": relative(files.mask),
        "target": relative(files.target),
        "target_text": files.edit.target_text,
        "results": {name: relative(path) for name, path in files.results.items()},
    }
