"""A data set of generic items in a folder, its outputs, and runs of it that nobody judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pil

from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.base.config import Settings
from editjudge.base.file_states import FileState, FileStates
from editjudge.base.item import Missing
from editjudge.base.verdict import Verdict
from editjudge.engine.content_keys import ItemContent, JudgedEdit
from editjudge.storage.store import RunStore

PSNR, MSE = "core.psnr.source.whole", "core.mse.source.whole"
ITEMS = "items.jsonl"
NO_FILE = Missing("absent", "no file")
UNSEEN = FileState(bytes(8), f"sha256:{'0' * 64}")


def save_picture(path: Path, picture: Any = (8, 8)) -> Path:
    """Write pixels, a white picture of this size, or bytes as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(picture, bytes):
        path.write_bytes(picture)
    elif isinstance(picture, tuple):
        Pil.new("RGB", picture, "white").save(path)
    else:
        Pil.fromarray(picture).save(path)
    return path


def write_items(folder: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write the items of a data set: named from 0, of `s.png`, where nothing else is said."""
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"instruction": "x", "source": "s.png"}
    texts = []
    for number, line in enumerate(lines):
        merged = {"id": str(number), **usual, **line}
        if "sources" in line:
            del merged["source"]
        texts.append(json.dumps(merged))
    (folder / ITEMS).write_text("\n".join(texts) + "\n")
    return folder / ITEMS


def read_items(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / ITEMS).read_text().splitlines()]


def make_spec(folder: Path, models: Iterable[str] = ("ours",), dimensions: Any = (PSNR,), **more: Any) -> RunSpec:
    """Ask about the items of a folder; outputs lie beside them, in folders named as the models."""
    outputs = {model: folder / model for model in models}
    usual = {"benchmark": "core", "data": folder / ITEMS, "outputs": outputs}
    return RunSpec(**{**usual, "dimensions": dimensions, **more})


def count_calls(patch: pytest.MonkeyPatch, owner: Any, name: str, noted: Any = None) -> list[Any]:
    """Let a function work as ever, and list its calls: their arguments, or `noted` of these."""
    calls: list[Any] = []
    plain = getattr(owner, name)

    def call_and_count(*given: Any, **named: Any) -> Any:
        calls.append(noted(*given) if noted else given)
        return plain(*given, **named)

    patch.setattr(owner, name, call_and_count)
    return calls


Keep = Callable[..., None]
"""Of `item`, `model`, its verdicts or why there is no output, and its content."""


@contextmanager
def stored_run(out: Path, spec: RunSpec, **signed: str) -> Iterator[Keep]:
    """A run into which edits are kept as if a session had judged them.

    Args:
        signed: Other signatures than today's, by dimension.
    """
    resolved = ResolvedSpec(spec)
    signatures = resolved.signatures({}) | signed
    with RunStore.open(out, resolved.header(Settings())) as store:

        def keep(
            item: str,
            model: str,
            verdicts: Mapping[str, Verdict] | Missing = NO_FILE,
            content: ItemContent | None = None,
        ) -> None:
            if isinstance(verdicts, Missing):
                store.save_edit_now(JudgedEdit(item, model, None, verdicts, content))
                return
            output = next(spec.outputs[model].glob(f"{item}.*"), "")
            seen = FileStates().get_state(str(output)) or UNSEEN
            store.save_edit_now(JudgedEdit(item, model, seen, None, content), verdicts, signatures)

        yield keep
