"""Compare images by the features of networks: cosines and LPIPS, whole or within a region."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.errors import Abstention
from ..base.images import Image, decode, load_image, load_mask
from ..base.item import Edit, Item
from ..base.threads import in_thread
from ..base.verdict import Score, Verdict, Verdicts, make_no_score
from ..panel import Panel
from ..panel.coalesce import gather_all
from .regions import Reference, encode_region, fitted, is_region_empty, make_resize_note, squashed
from .scorer import ServiceScorer

Pair: TypeAlias = tuple[Image, Image]
"""The reference and the edited image."""
Vector: TypeAlias = NDArray[np.float64]
FeatureRule: TypeAlias = Literal["pool", "pool_any", "zero"]
LpipsRule: TypeAlias = Literal["weight", "zero"]


@dataclass(frozen=True)
class RegionScorer(ServiceScorer):
    """A way of comparing an edited image with a reference, region by region, by one service.

    Fields are the regions. They are compared side by side: the service takes them together. An
    abstention on one leaves the others theirs.

    Attributes:
        each: Calls that a region takes.
    """

    each: ClassVar[int] = 1

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """Return the number of calls: `each` for every region."""
        return {self.service: self.each * len(fields)}

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Prepare both images once, then compare the regions concurrently."""
        pair = await in_thread(self.pair, edit)

        async def compare(region: str) -> Verdict:
            try:
                return await self.compare_region(region, edit, pair, panel)
            except Abstention as error:
                return make_no_score(error)

        regions = sorted(fields)
        return dict(zip(regions, await gather_all(*map(compare, regions)), strict=True))

    @abstractmethod
    def pair(self, edit: Edit) -> Pair:
        """Return the reference and the edited image in the form in which they are compared."""

    @abstractmethod
    async def compare_region(self, region: str, edit: Edit, pair: Pair, panel: Panel) -> Verdict:
        """Compare one region.

        Raises:
            Abstention: the region has no value.
            ServiceError: the service failed.
        """


@dataclass(frozen=True)
class FeatureSimilarity(RegionScorer):
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
    each: ClassVar[int] = 2
    reference: Reference
    rule: FeatureRule = "pool"
    side: int = 0
    empty: float | None = None

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """Of a region the decoder of masks, and with `side` the resizing to a square."""
        if field == "whole":
            return ()
        return (decode, squashed, load_mask) if self.side else (load_mask,)

    def pair(self, edit: Edit) -> Pair:
        """Return both images unchanged."""
        return getattr(edit.item, self.reference), edit.output

    async def compare_region(self, region: str, edit: Edit, pair: Pair, panel: Panel) -> Verdict:
        """Return the cosine of both embeddings."""
        size = pair[0].size
        if self.empty is not None and await in_thread(is_region_empty, edit, region, size):
            return Score(value=self.empty, evidence={"region_share": 0.0}, imputed=True)

        async def embedding(image: Image) -> Vector:
            inputs = await in_thread(self._inputs, edit, image, region)
            return await fetch_embedding(panel, self.service, inputs, self.rule)

        return Score(value=compute_cosine(*await gather_all(*map(embedding, pair))))

    def _inputs(self, edit: Edit, image: Image, region: str) -> dict[str, bytes]:
        if self.side and region != "whole":
            image = load_image(squashed(image, self.side), image.name)
        return {"IMAGE": image.encoded_bytes, **encode_region(edit, region, image.size)}


@dataclass(frozen=True)
class Lpips(RegionScorer):
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

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """What brings both images to one size and, of a region, the decoder of masks."""
        return (decode, fitted, *(() if field == "whole" else (load_mask,)))

    def pair(self, edit: Edit) -> Pair:
        """Resize the edited image to the reference's size; without a change it keeps its bytes."""
        reference: Image = getattr(edit.item, self.reference)
        pixels, note = fitted(edit.output, reference)
        return reference, load_image(pixels, edit.output.name) if note else edit.output

    async def compare_region(self, region: str, edit: Edit, pair: Pair, panel: Panel) -> Verdict:
        """Call the service once with both images and the region's mask."""
        reference, image = pair
        mask = await in_thread(encode_region, edit, region, reference.size)
        distance = await fetch_distance(panel, self.service, pair, mask, self.rule)
        return Score(value=distance, evidence=make_resize_note(edit.output.size, image.size))


async def fetch_embedding(panel: Panel, service: str, inputs: Mapping[str, bytes], rule: str) -> Vector:
    """Fetch the embedding of an image or a region from a `features` or `clip` service."""
    reply = await panel.call(service, inputs, {"region": rule})
    return np.asarray(reply["EMBEDDING"], dtype=np.float64)


async def fetch_distance(panel: Panel, service: str, pair: Pair, mask: Mapping[str, bytes], rule: str) -> float:
    """Fetch the LPIPS distance of two images from a service of the role `lpips`."""
    inputs = {"IMAGE_A": pair[0].encoded_bytes, "IMAGE_B": pair[1].encoded_bytes, **mask}
    reply = await panel.call(service, inputs, {"region": rule})
    return float(np.asarray(reply["DISTANCE"])[0])


def compute_cosine(vector: Vector, other: Vector) -> float:
    """Compute the cosine of two vectors, in [-1, 1].

    Raises:
        Abstention: `degenerate`, when a vector is zero.
    """
    lengths = np.linalg.norm(vector) * np.linalg.norm(other)
    if not lengths:
        raise Abstention("degenerate", "a feature vector is zero")
    return float(np.clip(vector @ other / lengths, -1.0, 1.0))
