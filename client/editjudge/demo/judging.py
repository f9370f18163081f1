"""Judging the demo set: what is asked of it, what is shown, and what it teaches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from ..app.client import Client
from ..app.wire.demo import Demo
from ..base.config import Settings
from ..base.images import load_image, load_mask
from ..base.item import Edit, Item
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Mean, Row
from ..engine.judge import Judgement
from . import DemoFiles, write_demo_set
from .editors import EDITORS
from .page import INSIDE, OUTSIDE

T = TypeVar("T")
_SHOWN = {
    OUTSIDE: ("kept outside, PSNR", True),
    "core.ssim.source.outside": ("kept outside, SSIM", True),
    "core.ssim.source.whole": ("whole image vs source, SSIM", True),
    INSIDE: ("target met inside, aligned PSNR", True),
    "core.text_content_accuracy": ("text accuracy", True),
    "core.quality.piqe": ("quality, PIQE baseline", True),
}
COLUMNS: tuple[Column, ...] = tuple(
    Column(f"demo.{dimension.removeprefix('core.')}", title, Mean(dimension), higher)
    for dimension, (title, higher) in _SHOWN.items()
)
HIGHLIGHTS = tuple(name for name in _SHOWN if name != "core.ssim.source.outside")
"""Dimensions that are shown beneath each picture."""


class Progress(Protocol):
    """Passes things on, and shows how many of how many have come."""

    def __call__(self, finished: Iterable[T], total: int, /) -> Iterable[T]:
        """Wrap an iterable that ends after `total` things."""


def prepare(out: Path) -> list[Edit]:
    """Make the demo set below a folder, and load every editor's results.

    Returns:
        The edits, editor by editor within each item; items and their images are shared.

    Raises:
        MissingExtra: the optional dependencies of the demo are not installed.
    """
    return [edit for files in write_demo_set(out / "set") for edit in _edits(files)]


async def judge_all(
    settings: Settings, edits: Sequence[Edit], progress: Progress
) -> list[Judgement]:
    """Judge every edit on every dimension, side by side.

    Args:
        progress: Shows how far it is.
    """
    async with Client(settings) as client:
        tasks = [asyncio.create_task(client.score(edit)) for edit in edits]
        for finished in progress(asyncio.as_completed(tasks), len(tasks)):
            await finished
        return [task.result() for task in tasks]


def rows(judgements: Iterable[Judgement]) -> list[Row]:
    """The judgements as columns see them."""
    return [Row(j.edit.item, j.edit.model, j.outcomes, j.signatures) for j in judgements]


def results(judgements: Sequence[Judgement], cells: Mapping[str, Mapping[str, Cell]]) -> Demo:
    """Everything, for `results.json`."""
    editors = {name: editor.description for name, editor in EDITORS.items()}
    return Demo.of(editors, cells, judgements)


def _edits(files: DemoFiles) -> list[Edit]:
    edit = files.edit
    item = Item(
        id=edit.id,
        instruction=edit.instruction,
        sources=(load_image(files.source),),
        mask=load_mask(files.mask),
        target=load_image(files.target),
        target_text=edit.target_text,
        task=edit.kind,
    )
    return [Edit(item, editor, load_image(path)) for editor, path in files.results.items()]
