"""Judging the demo set: what is asked of it, what is shown, and what it teaches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from markupsafe import Markup

from ..app.client import Client
from ..app.wire.demo import Demo
from ..base.config import Settings
from ..base.images import load_image, load_mask
from ..base.item import Edit, Item
from ..base.verdict import Scored
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Mean, Row
from ..engine.judge import Judgement
from ..report.page import Page
from ..report.plots import scatter
from . import DemoFiles, write_demo_set
from .editors import EDITORS

T = TypeVar("T")
OUTSIDE = "core.psnr.source.outside"
INSIDE = "core.aligned_psnr.target.inside"
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

_INTRODUCTION = Markup(
    """
<p>Photographs that ship inside scikit-image, edited on the spot. Each edit was made by three
editors whose quality is known, because we wrote them: <strong>exact</strong> does what was
asked and nothing else, <strong>damaged</strong> does what was asked and spoils the rest
(colour shift, blur, a shift of the whole picture), <strong>no_edit</strong> returns the source.
All three end in JPEG noise. Every number comes from the pixels or from a service behind a real
Triton server.</p>
<h2>Why no single preservation number can rank them</h2>
<p>Preservation compares the result with the <em>source</em>. By that measure the editor that
did nothing is as good as the exact one outside the mask, and over the whole image it is the best
of the three: a higher number for ignoring the instruction. Whether the edit was made is seen
only inside the mask, against a <em>target</em>, after the picture has been aligned, and there
the damaged editor beats the one that did nothing. The two axes below are both needed, and only a
synthetic set has a target to measure the second one with. Real instructions have many right
answers and no target, which is why published protocols ask a multimodal LLM whether
the instruction was followed, and keep pixel measures for what must stay.</p>
"""
)


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


def page(judgements: Sequence[Judgement], cells: Mapping[str, Mapping[str, Cell]]) -> Page:
    """The report of the demo."""
    points = {
        model: [
            (x.value, y.value)
            for j in judgements
            if j.edit.model == model
            and isinstance(x := j.outcomes[OUTSIDE], Scored)
            and isinstance(y := j.outcomes[INSIDE], Scored)
        ]
        for model in cells
    }
    plot = scatter(
        points,
        "kept outside the mask: PSNR against the source, dB",
        "met inside the mask: aligned PSNR, target, dB",
    )
    return Page(
        title="editjudge demo",
        introduction=_INTRODUCTION,
        models={name: editor.description for name, editor in EDITORS.items()},
        columns=COLUMNS,
        cells=cells,
        judgements=judgements,
        highlights=[d for d in _SHOWN if d != "core.ssim.source.outside"],
        plots={"One point per edit and editor. Only up and to the right is a good edit.": plot},
    )


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
