"""Masks of what an instruction lets change: named by the generalist, drawn by a segmenter."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..answers import TargetPhrases
from ..base.errors import BadReply, ImageError
from ..base.identity import ServiceName
from ..base.images import Image, Mask, load_mask
from ..base.item import Item
from ..benchmarks.items import Line
from ..panel import Panel
from ..prompts import Template, template
from .draft import why_no_mask
from .entry import JUDGE, Entry
from .pictures import overlay, thumbnail
from .questions import answered

_SCOPES = {
    "objects": "what is named",
    "surroundings": "everything but what is named",
    "whole": "the whole image",
}


@dataclass(frozen=True)
class MaskFinder:
    """Finds the masks of items that have none.

    The generalist names what may change (one call with source and instruction), the segmenter
    finds each phrase (one call each), and the mask is the union of what it found: what is edited,
    or where the surroundings may change what is kept. GIE-Bench, section 3.3; Omni IIE Bench,
    section 3.2.2, stage 2.

    Attributes:
        segmenter: `segmenter.<variant>`.
        select: Of several finds for a phrase `all`, or the `best`, as GIE-Bench does.
        custom: Templates of one's own, which replace ours.
    """

    segmenter: ServiceName
    select: Literal["all", "best"] = "all"
    custom: tuple[Template, ...] = ()
    what: ClassVar[Literal["masks"]] = "masks"

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The generalist and the segmenter."""
        return (JUDGE, self.segmenter)

    def needless(self, line: Line) -> Entry | None:
        """Items that come with a mask keep it; edits of the whole image, by their type, need none.

        Those with several sources cannot have one.
        """
        if line.mask is not None:
            return Entry("had")
        if why := why_no_mask(line):
            return Entry("unsuited", f"{why}, and needs no mask")
        if len(line.images) > 1:
            return Entry("unsuited", "a mask belongs to one source, and there are several")
        return None

    async def make(self, item: Item, panel: Panel) -> Entry:
        """Name and segment; see `Maker.make`."""
        judge = panel.generalist(JUDGE)
        (source,) = item.sources
        naming = template("prepare/targets", self.custom)
        targets: TargetPhrases = (await answered(item, judge, naming)).value
        masks = await asyncio.gather(
            *(self._segmented(source, phrase, panel) for phrase in targets.phrases)
        )
        return await asyncio.to_thread(_entry, source, targets, masks)

    async def _segmented(self, source: Image, phrase: str, panel: Panel) -> Mask | None:
        """Where a phrase is; None where it is nowhere."""
        inputs = {"IMAGE": source.encoded, "PROMPT": phrase.encode()}
        reply = await panel.call(self.segmenter, inputs, {"select": self.select})
        png = cast("bytes", reply["MASK"])
        if not png:
            return None
        try:
            mask = load_mask(png, f"mask of {phrase!r}").fitted(source.size)
        except ImageError as error:
            raise BadReply(str(error), service=self.segmenter) from error
        return mask if mask.selected.any() else None


def _entry(source: Image, targets: TargetPhrases, masks: list[Mask | None]) -> Entry:
    there = [mask.selected for mask in masks if mask is not None]
    absent = [p for p, mask in zip(targets.phrases, masks, strict=True) if mask is None]
    notes = [("may change", _SCOPES[targets.scope])]
    if targets.phrases:
        notes.append(("named", ", ".join(targets.phrases)))
    if absent:
        notes.append(("not found", ", ".join(absent)))
    shown = ("source", thumbnail(source))
    if targets.scope != "whole" and not there:
        reason = f"nothing was found of: {', '.join(targets.phrases)}"
        return Entry("not_found", reason, notes=tuple(notes), pictures=(shown,))
    selected = _selected(source, targets, there)
    if not selected.any():
        reason = f"nothing is left around: {', '.join(targets.phrases)}"
        return Entry("not_found", reason, notes=tuple(notes), pictures=(shown,))
    notes.append(("share of the image", f"{selected.mean():.1%}"))
    mask = load_mask(selected, "mask")
    around = targets.scope == "surroundings"
    return Entry(
        "made",
        # White is what was named, whether it is edited or kept: where a benchmark looks for a
        # subject, it is the object and not what is around it.
        mask=_png(~selected if around else selected),
        mask_shows="kept" if around else "edited",
        notes=tuple(notes),
        pictures=(shown, ("may change (magenta)", overlay(source, mask))),
    )


def _selected(
    source: Image, targets: TargetPhrases, there: list[NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """What may change."""
    width, height = source.size
    if targets.scope == "whole":
        return np.ones((height, width), bool)
    joined: NDArray[np.bool_] = np.logical_or.reduce(there, axis=0)
    return ~joined if targets.scope == "surroundings" else joined


def _png(selected: NDArray[np.bool_]) -> bytes:
    buffer = io.BytesIO()
    Pil.fromarray(selected.astype(np.uint8) * 255).save(buffer, "PNG")
    return buffer.getvalue()
