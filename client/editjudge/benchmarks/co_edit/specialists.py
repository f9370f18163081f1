"""Whether a subject is still who it was, and what was not to be edited as it was."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...base.errors import Abstention
from ...base.images import RGB, Image, decode, encode_mask, load_image, load_mask
from ...base.item import Edit, Item
from ...base.signature import implementation
from ...base.threads import in_thread
from ...base.verdict import Score, Verdicts
from ...panel import Panel
from ...panel.coalesce import gather_all
from ...scorers.regions import fitted, require_region
from ...scorers.rubric import Rubric
from ...scorers.scorer import ServiceScorer
from ...scorers.similarity import Vector, compute_cosine, fetch_distance, fetch_embedding
from .taxonomy import SUBJECT_REGION

MARGIN = 0.1
"""Of the longer side of the subject's box, on every side."""
FILL = 128
"""What stands around the subject, in all three channels: nearly 0 for both networks."""
RegionMask = NDArray[np.bool_]


@implementation(1)
def off_canvas(edit: Edit) -> Edit:
    """An edit without the canvas: cut to the aspect ratio of its source, about the middle.

    GPT-4o took squares of 1024x1024, so a source was scaled to fit one, pasted onto a white one,
    and the output cut to the source's aspect ratio. The paper does not say where on the canvas a
    source stood; here in the middle. An output that is no square, or whose source is one, or
    that has several sources, stands as it is.
    """
    source, output = edit.item.source, edit.output
    side, height = output.size
    if source is None or side != height or source.size[0] == source.size[1]:
        return edit
    width, height = (max(1, round(side * part / max(source.size))) for part in source.size)
    left, top = (side - width) // 2, (side - height) // 2
    cut = output.rgb[top : top + height, left : left + width]
    return replace(edit, image=load_image(cut, output.name))


@dataclass(frozen=True)
class OffCanvasRubric(Rubric):
    """A rubric whose judge sees the edit without its canvas; see `off_canvas`."""

    name: ClassVar[str] = "rubric_off_canvas"

    @property
    def reads_pixels(self) -> bool:
        """It cuts pictures."""
        return True

    def prepare_edit(self, edit: Edit) -> Edit:
        """The edit without its canvas."""
        return off_canvas(edit)


_Subject: TypeAlias = "tuple[Image, RegionMask | None]"
"""An image, and where a subject is in it; None where it is all of the image."""


@dataclass(frozen=True)
class SubjectSimilarity(ServiceScorer):
    """Cosine of an item's subject in the source and in the edit (Co-EditBench, section 3.3).

    Field `subject`, in [-1, 1], higher is better. Where the subject is, the item says: what its
    mask shows, or the whole image. The mask lies over both images; an edited image of another
    size is first resized to the source's (Lanczos), as for LPIPS. The network gets the subject
    alone: see `framed`. The evidence has the region.

    Attributes:
        service: Of the roles `features` or `clip`.
        in_place: The network gets the subject where it stands, all else black: what lies outside
            the network's own centre crop is not seen.
        pooled: The features are those of the subject's patches, averaged.
        padded_canvas: See `off_canvas`.
    """

    name: ClassVar[str] = "subject_similarity"

    in_place: bool = field(default=False, kw_only=True)
    pooled: bool = field(default=False, kw_only=True)
    padded_canvas: bool = field(default=False, kw_only=True)

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """What brings both images to one size, the decoder of masks, and the cutting-out."""
        cut = () if self.in_place else (framed,)
        undone = (off_canvas,) if self.padded_canvas else ()
        return (decode, fitted, load_mask, *cut, *undone)

    def calls(self, item: Item, fields: frozenset[str]) -> Mapping[str, int]:
        """Return two calls to each service, for source and edit."""
        return dict.fromkeys(self.roles, 2)

    def reads(self, item: Item) -> frozenset[str]:
        """Return the source, and the mask unless the whole image is the subject."""
        whole = item.extra.get(SUBJECT_REGION) == "whole"
        return frozenset({"source"} if whole else {"source", "mask"})

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Embed both images concurrently and compare them."""
        if self.padded_canvas:
            edit = await in_thread(off_canvas, edit)
        region = str(edit.item.extra[SUBJECT_REGION])
        source, within = await in_thread(_of_source, edit, region)
        output, note = await in_thread(_as_large, edit.output, source)
        embeddings = (self._embedding((image, within), panel) for image in (source, output))
        cosine = compute_cosine(*await gather_all(*embeddings))
        return {"subject": Score(value=cosine, evidence={"region": region, **note})}

    async def _embedding(self, subject: _Subject, panel: Panel) -> Vector:
        inputs = await in_thread(self._inputs, subject)
        return await fetch_embedding(panel, self.service, inputs, "pool" if self.pooled else "zero")

    def _inputs(self, subject: _Subject) -> dict[str, bytes]:
        image, region = subject
        if self.in_place:
            mask = {} if region is None else {"MASK": encode_mask(region)}
            return {"IMAGE": image.encoded_bytes, **mask}
        everything = np.ones(image.rgb.shape[:2], np.bool_)
        square, within = framed(image.rgb, everything if region is None else region)
        mask = {"MASK": encode_mask(within)} if self.pooled else {}
        return {"IMAGE": load_image(square, image.name).encoded_bytes, **mask}


@implementation(1)
def framed(pixels: RGB, region: RegionMask) -> tuple[RGB, RegionMask]:
    """Cut out a subject and place it alone in the middle of a square.

    The subject's box with a margin of `MARGIN` of its longer side on every side, padded to a
    square; what is not the subject is `FILL` in all of it. CLIP's processor takes the middle
    of a picture, and DINOv2's cuts 6.25 % off every side of a square: neither cuts into the box.

    Args:
        pixels: uint8 (H, W, 3).
        region: bool (H, W), True where the subject is; at least one pixel.

    Returns:
        uint8 (S, S, 3), and bool (S, S) where the subject is in it.
    """
    rows, columns = (np.flatnonzero(region.any(axis=axis)) for axis in (1, 0))
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    subject_mask = region[box]
    height, width = subject_mask.shape
    side = max(height, width) + 2 * math.ceil(MARGIN * max(height, width))
    top, left = (side - height) // 2, (side - width) // 2
    middle = np.s_[top : top + height, left : left + width]
    square, within = np.full((side, side, 3), FILL, np.uint8), np.zeros((side, side), np.bool_)
    square[middle] = np.where(subject_mask[..., None], pixels[box], np.uint8(FILL))
    within[middle] = subject_mask
    return square, within


def _of_source(edit: Edit, region: str) -> _Subject:
    source = edit.item.source
    if source is None:
        raise ValueError(f"{edit.item.id} has no single source")
    return source, require_region(edit, region, source.size)


def _as_large(output: Image, reference: Image) -> tuple[Image, dict[str, Any]]:
    """Resize an output to the source's size; without a change it keeps its bytes."""
    pixels, note = fitted(output, reference)
    return (load_image(pixels, output.name) if note else output), note


@dataclass(frozen=True)
class KeptDistance(ServiceScorer):
    """LPIPS of source and edit where nothing was to be edited (Co-EditBench, appendix B.3).

    Field `kept`, 0 or more, lower is better, 0 for equal pictures. In the edited part both
    pictures show the source, so the network sees no edge there and nothing that differs, and
    the distances are averaged over what is kept alone: the size of the mask changes neither. An
    edited image of another size is first resized to the source's (Lanczos). Where nothing is
    kept it is `degenerate`.

    Attributes:
        service: Of the role `lpips`.
        blacked_out: In the edited part both pictures are black instead.
        whole_frame: Averaged over the whole frame: the edited part counts as equal, so the
            larger the mask, the smaller the distance.
        padded_canvas: See `off_canvas`.
    """

    name: ClassVar[str] = "kept_distance"

    blacked_out: bool = field(default=False, kw_only=True)
    whole_frame: bool = field(default=False, kw_only=True)
    padded_canvas: bool = field(default=False, kw_only=True)

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """What brings both images to one size, the decoder of masks, and what undoes the canvas."""
        undone = (off_canvas,) if self.padded_canvas else ()
        return (decode, fitted, load_mask, *undone)

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """One call."""
        pair, mask, note = await in_thread(self._prepare_comparison, edit)
        distance = await fetch_distance(panel, self.service, pair, mask, "weight")
        return {"kept": Score(value=distance, evidence=note)}

    def _prepare_comparison(self, edit: Edit) -> tuple[tuple[Image, Image], dict[str, bytes], dict[str, Any]]:
        """Return both images, the background's mask, and a note of what was resized."""
        if self.padded_canvas:
            edit = off_canvas(edit)
        source, background = _of_source(edit, "outside")
        if background is None:
            raise Abstention("degenerate", "there is no mask")
        pixels, note = fitted(edit.output, source)
        weights, under = background[..., None], np.uint8(0) if self.blacked_out else source.rgb
        output = load_image(np.where(weights, pixels, under), edit.output.name)
        reference = source
        if self.blacked_out:
            reference = load_image(np.where(weights, source.rgb, under), source.name)
        mask = {} if self.whole_frame else {"MASK": encode_mask(background)}
        return (reference, output), mask, note
