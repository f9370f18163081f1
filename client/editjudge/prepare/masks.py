"""Masks of what an instruction lets change: named by the generalist, drawn by a segmenter."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..answers import TargetPhrases
from ..base.errors import ImageError
from ..base.identity import ServiceName
from ..base.images import Image, load_mask
from ..base.item import Item
from ..benchmarks.items import Line
from ..panel import Panel
from ..prompts import Template, template
from ..scorers.regions import Select, segmented
from .items import JUDGE, Entry, why_no_mask
from .writers import answered

_SCOPES = {
    "objects": "what is named",
    "surroundings": "everything but what is named",
    "whole": "the whole image",
}

_Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class _Drawn:
    """What was found in the source, or in the target.

    Attributes:
        name: Which of the two.
        masks: By phrase, of the source's size; None where it is nowhere.
    """

    name: str
    masks: Mapping[str, _Mask | None]

    @property
    def found(self) -> dict[str, _Mask]:
        """The phrases that are somewhere."""
        return {phrase: mask for phrase, mask in self.masks.items() if mask is not None}


@dataclass(frozen=True)
class MaskFinder:
    """Finds the masks of items that have none.

    The generalist names what may change (one call with source and instruction), the segmenter
    finds each phrase (one call each), and the mask is the union of what it found: what is edited,
    or where the surroundings may change what is kept. GIE-Bench, section 3.3; Omni IIE Bench,
    section 3.2.2, stage 2.

    Where an item has a target, results are compared within the mask of that, which shows other
    things at other places: what the edit made of the source is named too (one more call with both)
    and found there, and what may change is what may in either.

    Attributes:
        segmenter: `segmenter.<variant>`.
        select: Of several finds for a phrase `all`, or the `best`. None takes the best, as
            GIE-Bench does, and all of an item with a target, as Omni IIE Bench does.
        custom: Templates of one's own, which replace ours.
    """

    segmenter: ServiceName
    select: Select | None = None
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
        (source,), target = item.sources, item.target
        if target is not None and not _one_mask_fits(source, target):
            sizes = " and ".join(f"{w}x{h}" for w, h in (source.size, target.size))
            return Entry("unsuited", f"no mask fits both a source and a target of {sizes}")
        named: TargetPhrases = (
            await answered(item, judge, template("prepare/targets", self.custom))
        ).value
        looked = [("source", source, named.phrases)]
        if target is not None and named.scope == "surroundings":
            looked.append(("target", target, named.phrases))
        elif target is not None and named.scope == "objects":
            commands = (
                await answered(item, judge, template("prepare/targets_after", self.custom))
            ).value
            looked.append(("target", target, tuple(command.phrase for command in commands)))
        select = self.select or ("best" if target is None else "all")
        drawn = []
        for name, image, phrases in looked:
            regions = (self._segmented(image, one, select, source, panel) for one in phrases)
            masks = dict(zip(phrases, await asyncio.gather(*regions), strict=True))
            drawn.append(_Drawn(name, masks))
        return await asyncio.to_thread(_entry, source, named, drawn)

    async def _segmented(
        self, image: Image, phrase: str, select: Select, source: Image, panel: Panel
    ) -> _Mask | None:
        """Where a phrase is in an image, at the source's size; None where it is nowhere."""
        mask, _ = await segmented(image, phrase, panel, self.segmenter, select)
        if mask is None:
            return None
        selected = load_mask(mask, f"mask of {phrase!r}").fitted(source.size).selected
        return selected if selected.any() else None


def _one_mask_fits(source: Image, target: Image) -> bool:
    """Whether a mask of the source's size can be laid over the target."""
    width, height = source.size
    try:
        load_mask(np.ones((height, width), bool), "mask").fitted(target.size)
    except ImageError:
        return False
    return True


def _entry(source: Image, named: TargetPhrases, drawn: list[_Drawn]) -> Entry:
    notes = [("may change", _SCOPES[named.scope])]
    for side in drawn:
        where = "" if len(drawn) == 1 else f" in the {side.name}"
        absent = [phrase for phrase in side.masks if phrase not in side.found]
        for label, phrases in (("named", side.masks), ("not found", absent)):
            if phrases:
                notes.append((f"{label}{where}", ", ".join(phrases)))
    selected = _selected(source, named, drawn)
    if selected is None or not selected.any():
        nothing = "nothing was found of" if selected is None else "nothing is left around"
        every = dict.fromkeys(phrase for side in drawn for phrase in side.masks)
        reason = f"{nothing}: {', '.join(every)}"
        return Entry("not_found", reason, notes=tuple(notes))
    notes.append(("share of the image", f"{selected.mean():.1%}"))
    around = named.scope == "surroundings"
    return Entry(
        "made",
        # White is what was named, whether it is edited or kept: where a benchmark looks for a
        # subject, it is the object and not what is around it.
        mask=_png(~selected if around else selected),
        mask_shows="kept" if around else "edited",
        named=tuple(drawn[0].found),
        notes=tuple(notes),
    )


def _selected(source: Image, named: TargetPhrases, drawn: list[_Drawn]) -> _Mask | None:
    """What may change, in the source or in the target; None where nothing was found."""
    if named.scope == "whole":
        width, height = source.size
        return np.ones((height, width), bool)
    sides = (list(side.found.values()) for side in drawn)
    there = [np.logical_or.reduce(masks, axis=0) for masks in sides if masks]
    if not there:
        return None
    around = named.scope == "surroundings"
    may: _Mask = np.logical_or.reduce([~mask if around else mask for mask in there], axis=0)
    return may


def _png(selected: NDArray[np.bool_]) -> bytes:
    buffer = io.BytesIO()
    Pil.fromarray(selected.astype(np.uint8) * 255).save(buffer, "PNG")
    return buffer.getvalue()
