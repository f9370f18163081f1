"""Whether a subject is still who it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from ...base.images import load_image
from ...base.item import Edit, Item
from ...base.verdict import Scored, Verdict
from ...scorers.regions import fitted
from ...scorers.similarity import FeatureSimilarity
from .taxonomy import SUBJECT_REGION

if TYPE_CHECKING:
    from ...panel import Panel


@dataclass(frozen=True)
class SubjectSimilarity(FeatureSimilarity):
    """Cosine of an item's subject in the reference and in the edit (Co-EditBench, section 3.3).

    Field `subject`, in [-1, 1], higher is better. Where the subject is, the item says: what its
    mask shows, or the whole image. The mask lies over both images; an edited image of another
    size is first resized to the reference's (Lanczos), as for LPIPS. The evidence has the
    region.
    """

    name: ClassVar[str] = "subject_similarity"

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """One for each image."""
        return {self.service: 2}

    def reads(self, item: Item) -> frozenset[str]:
        """The source, and the mask unless the whole image is the subject."""
        whole = item.extra.get(SUBJECT_REGION) == "whole"
        return frozenset({self.reference} if whole else {self.reference, "mask"})

    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Two calls, side by side."""
        region = str(edit.item.extra[SUBJECT_REGION])
        reference = getattr(edit.item, self.reference)
        pixels, note = await asyncio.to_thread(fitted, edit.output, reference)
        if note:
            edit = replace(edit, image=load_image(pixels, edit.output.name))
        verdict = (await super().score(edit, panel, frozenset({region})))[region]
        if isinstance(verdict, Scored):
            verdict = verdict.model_copy(update={"evidence": {"region": region, **note}})
        return {"subject": verdict}
