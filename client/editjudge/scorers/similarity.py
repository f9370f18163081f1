"""Comparing what networks see: feature cosines and LPIPS, whole or within a region."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.errors import Abstained
from ..base.images import Image, decode, load_image, load_mask
from ..base.item import Edit, Item
from ..base.threads import in_thread
from ..base.verdict import Evidence, Scored, Verdict, unscored
from ..panel.coalesce import together
from .regions import Reference, encoded_region, fitted, is_empty, squashed
from .scorer import ServiceScorer

if TYPE_CHECKING:
    from ..panel import Panel

Vector: TypeAlias = NDArray[np.float64]
FeatureRule: TypeAlias = Literal["pool", "pool_any", "zero"]
LpipsRule: TypeAlias = Literal["weight", "zero"]


@dataclass(frozen=True)
class FeatureSimilarity(ServiceScorer):
    """Cosine of two images' features (I2I-Bench, eq. 2; GIE-Bench, section 3.5).

    Fields are the regions `whole`, `inside`, `outside`: cosine in [-1, 1], higher is
    better, of the image embeddings, or of what the region gives: its patch tokens averaged
    (`pool`, weighted by how much of each patch it covers; `pool_any`, every patch that it
    touches), or the embedding of the image with all other pixels black (`zero`). The mask
    is laid over both images, each at its own size. An empty region is `degenerate`.

    Attributes:
        service: Of the roles `features` or `clip`.
        rule: How a region is taken.
        side: Where a region is taken, both images and the mask are first squashed to a square of
            this side, Lanczos and nearest: patches that a mask of this side touches are then
            told exactly. 0 sends the images as they are.
        empty: What an empty region counts as, marked as imputed; None is `degenerate`.
    """

    name: ClassVar[str] = "feature_similarity"
    reference: Reference
    rule: FeatureRule = "pool"
    side: int = 0
    empty: float | None = None

    def rests_on(self, field: str) -> tuple[Callable[..., object], ...]:
        """Of a region its mask, and what squashes both images where they are."""
        if field == "whole":
            return ()
        return (decode, squashed, load_mask) if self.side else (load_mask,)

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """Two for each region."""
        return {self.service: 2 * len(fields)}

    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Two calls for each region, side by side."""

        async def embedding(
            image: Image, region: str
        ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            inputs = await in_thread(self._inputs, edit, image, region)
            reply = await panel.call(self.service, inputs, {"region": self.rule})
            return np.asarray(reply["EMBEDDING"], dtype=np.float64)

        async def cosine(region: str) -> Verdict:
            reference: Image = getattr(edit.item, self.reference)
            if self.empty is not None and await in_thread(is_empty, edit, region, reference.size):
                return Scored(value=self.empty, evidence={"region_share": 0.0}, imputed=True)
            pair = (embedding(reference, region), embedding(edit.output, region))
            vectors = await together(*pair)
            return Scored(value=cosine_of(*vectors))

        return await by_region(fields, cosine)

    def _inputs(self, edit: Edit, image: Image, region: str) -> dict[str, bytes]:
        if self.side and region != "whole":
            image = load_image(squashed(image, self.side), image.name)
        return {"IMAGE": image.encoded, **encoded_region(edit, region, image.size)}


@dataclass(frozen=True)
class Lpips(ServiceScorer):
    """Learned perceptual distance (Zhang et al., CVPR 2018), lower is better, 0 for equal images.

    Fields are the regions `whole`, `inside`, `outside`: the distance map of the whole images
    averaged over the region (`weight`), or the distance of the images with all other pixels
    black (`zero`). An edited image of another size is first
    resized to the reference's (Lanczos). An empty region is `degenerate`.

    Attributes:
        service: Of the role `lpips`.
        rule: How a region is taken.
    """

    name: ClassVar[str] = "lpips"
    reference: Reference
    rule: LpipsRule = "weight"

    def rests_on(self, field: str) -> tuple[Callable[..., object], ...]:
        """What brings both to one size, and the mask of a region."""
        return (decode, fitted, *(() if field == "whole" else (load_mask,)))

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """One for each region."""
        return {self.service: len(fields)}

    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """One call for each region, side by side."""
        reference: Image = getattr(edit.item, self.reference)
        image, note = await in_thread(_as_large, edit.output, reference)

        async def distance(region: str) -> Verdict:
            inputs = {"IMAGE_A": reference.encoded, "IMAGE_B": image.encoded}
            inputs |= await in_thread(encoded_region, edit, region, reference.size)
            reply = await panel.call(self.service, inputs, {"region": self.rule})
            return Scored(value=float(np.asarray(reply["DISTANCE"])[0]), evidence=note)

        return await by_region(fields, distance)


def _as_large(output: Image, reference: Image) -> tuple[Image, Evidence]:
    """An output at its reference's size; its own bytes travel where nothing was changed."""
    pixels, note = fitted(output, reference)
    return (load_image(pixels, output.name) if note else output), note


async def by_region(
    fields: frozenset[str], judge: Callable[[str], Awaitable[Verdict]]
) -> dict[str, Verdict]:
    """A verdict for each region; an abstention on one leaves the others theirs."""

    async def judged(region: str) -> Verdict:
        try:
            return await judge(region)
        except Abstained as abstained:
            return unscored(abstained)

    regions = sorted(fields)
    return dict(zip(regions, await together(*map(judged, regions)), strict=True))


def cosine_of(vector: Vector, other: Vector) -> float:
    """Cosine of two vectors, in [-1, 1].

    Raises:
        Abstained: `degenerate`, when a vector is zero.
    """
    lengths = np.linalg.norm(vector) * np.linalg.norm(other)
    if not lengths:
        raise Abstained("degenerate", "a feature vector is zero")
    return float(np.clip(vector @ other / lengths, -1.0, 1.0))
