"""Comparing with the target at 768x768, whole and on both sides of its mask (Omni IIE Bench).

Both images are squashed to 768x768 (Lanczos) and the mask likewise (nearest), whatever their
aspect ratios (section 4.1). Regions are `whole`, `foreground` (where the mask is white) and
`background`; of a region everything else is black in both images (section 4.3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

from ..base.errors import Abstention
from ..base.images import Image, decode, drop_alpha, encode_mask, load_mask, make_ppm
from ..base.item import Edit, Item
from ..base.signature import implementation
from ..base.threads import in_thread
from ..base.verdict import Score, Verdict, Verdicts
from ..panel import Panel
from ..panel.coalesce import gather_all
from ..pixels.metrics import METRICS
from .pixels import PixelScorer
from .regions import squashed
from .scorer import Scorer
from .similarity import Pair, RegionScorer, compute_cosine, fetch_distance, fetch_embedding

RegionRule: TypeAlias = Literal["zero", "stretched"]

SIDE = 768
SMALLEST_SHARE = 1e-5
"""The share of the image below which a region counts as empty in the released code."""


@dataclass(frozen=True)
class SquaredPixels(PixelScorer):
    """PSNR and SSIM against the target at 768x768 (section 4.2).

    Fields `psnr`, 0..100 dB, and `ssim`, -1..1, higher is better; of uint8 RGB, as scikit-image
    has them by default.

    Attributes:
        alpha_dropped: Transparency is dropped instead of laid over white, as in the released code.
    """

    name: ClassVar[str] = "squared_pixels"

    alpha_dropped: bool = False
    side: int = SIDE

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The decoder, the resizing to a square and the metric."""
        return (decode, squared, *METRICS[field].implementations)

    def compare(self, edit: Edit, fields: frozenset[str]) -> Verdicts:
        """Resize both images to squares and compare them."""
        images = (image.rgb for image in _squared_pair(edit, self.side, self.alpha_dropped))
        target, edited_pixels = images
        results = {name: METRICS[name].compute(target, edited_pixels, None) for name in fields}
        return {k: Score(value=v, evidence=dict(details)) for k, (v, details) in results.items()}


@dataclass(frozen=True)
class RegionShare(Scorer):
    """How much of the picture a region is: its weight in the released code.

    Fields `foreground` and `background`, 0..1, of the mask at 768x768; together 1.
    """

    name: ClassVar[str] = "region_share"

    side: int = SIDE

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The decoder of masks."""
        return (load_mask,)

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Count the pixels of each region; no service is called."""

        def share(region: str) -> Verdict:
            return Score(value=float(_select_region(edit.item, region, self.side).mean()))

        return {region: await in_thread(share, region) for region in fields}


class _SquaredRegions(RegionScorer):
    """Compares regions of the edited image and the target, both resized to squares."""

    alpha_dropped: bool
    side: int

    def dependencies(self, field: str) -> tuple[Callable[..., object], ...]:
        """The decoder, the resizing to a square and, of a region, the decoder of masks."""
        return (decode, squared, *(() if field == "whole" else (load_mask,)))

    def pair(self, edit: Edit) -> Pair:
        """Return the target and the edited image, both resized to a square."""
        return _squared_pair(edit, self.side, self.alpha_dropped)


@dataclass(frozen=True)
class RegionLpips(_SquaredRegions):
    """LPIPS of edited image and target at 768x768 (equations 1, 3 and 5).

    Fields are the regions; 0 or more, lower is more alike. The mean over the whole picture, so
    a small region makes a small number. A region without a pixel is `degenerate`.

    Attributes:
        service: Of the role `lpips`.
        rule: How the service takes a region: `zero`, or `stretched` as the released code does.
        empty_counts: A region that is as good as empty counts as 0, as in the released code.
        alpha_dropped: Transparency is dropped instead of laid over white, as in the released code.
    """

    name: ClassVar[str] = "region_lpips"

    rule: RegionRule = "zero"
    empty_counts: bool = False
    alpha_dropped: bool = False
    side: int = SIDE

    async def compare_region(self, region: str, edit: Edit, pair: Pair, panel: Panel) -> Verdict:
        """Call the service once with both images and the region's mask."""
        smallest = SMALLEST_SHARE if self.empty_counts else 0.0
        mask = await in_thread(_mask, edit.item, region, self.side, smallest)
        if mask is None:
            return _empty(region, 0.0 if self.empty_counts else None)
        return Score(value=await fetch_distance(panel, self.service, pair, mask, self.rule))


@dataclass(frozen=True)
class RegionClip(_SquaredRegions):
    """Cosine of CLIP's embeddings of edited image and target (equations 2, 4 and 6).

    Fields are the regions; -1..1, higher is more alike. Both images are brought to 768x768
    before CLIP brings them to its own size. A region without a pixel is `degenerate`.

    Attributes:
        service: Of the role `clip`.
        whole_background: The background is the whole picture, as in the released code, which
            keeps the mask in an alpha channel that CLIP's processor drops.
        empty_counts: A background that is as good as empty counts as 0, and a foreground
            without a pixel as 1 (two black pictures), as in the released code.
        alpha_dropped: Transparency is dropped instead of laid over white, as in the released code.
    """

    name: ClassVar[str] = "region_clip"
    each: ClassVar[int] = 2

    whole_background: bool = False
    empty_counts: bool = False
    alpha_dropped: bool = False
    side: int = SIDE

    async def compare_region(self, region: str, edit: Edit, pair: Pair, panel: Panel) -> Verdict:
        """Return the cosine of both embeddings within the region."""
        background = region == "background"
        smallest = SMALLEST_SHARE if self.empty_counts and background else 0.0
        mask = await in_thread(_mask, edit.item, region, self.side, smallest)
        if mask is None:
            counts = 0.0 if background else 1.0
            return _empty(region, counts if self.empty_counts else None)
        if background and self.whole_background:
            mask = {}
        inputs = ({"IMAGE": image.encoded_bytes, **mask} for image in pair)
        embeddings = (fetch_embedding(panel, self.service, each, "zero") for each in inputs)
        return Score(value=compute_cosine(*await gather_all(*embeddings)))


_LOCK = Lock()
# Of an image, by side and whether its transparency is dropped.
_SQUARES: WeakKeyDictionary[Image, tuple[Lock, dict[tuple[int, bool], Image]]] = WeakKeyDictionary()


@implementation(1)
def squared(image: Image, side: int = SIDE, *, alpha_dropped: bool = False) -> Image:
    """Resize an image to a square (Lanczos); scorers that ask for the same square share it.

    An image that has this size already is returned unchanged, with its own bytes.
    """
    drops_alpha = alpha_dropped and image.had_alpha
    if image.size == (side, side) and not drops_alpha:
        return image
    with _LOCK:
        lock, squares = _SQUARES.setdefault(image, (Lock(), {}))
    with lock:
        if (side, drops_alpha) not in squares:
            opaque = drop_alpha(image) if drops_alpha else image
            is_square = opaque.size == (side, side)
            squares[side, drops_alpha] = opaque if is_square else make_ppm(image.name, squashed(opaque, side))
        return squares[side, drops_alpha]


def _squared_pair(edit: Edit, side: int, alpha_dropped: bool) -> Pair:
    """Return the target and the edited image as squares."""
    if edit.item.target is None:
        raise ValueError(f"{edit.item.id} has no target")
    return (
        squared(edit.item.target, side, alpha_dropped=alpha_dropped),
        squared(edit.output, side, alpha_dropped=alpha_dropped),
    )


def _select_region(item: Item, region: str, side: int) -> NDArray[np.bool_]:
    """A region of the mask squashed to a square (nearest), bool (side, side)."""
    if item.mask is None:
        raise ValueError(f"{region} of {item.id} needs a mask")
    picture = Pil.fromarray(item.mask.region).resize((side, side), Pil.Resampling.NEAREST)
    inside = np.asarray(picture, dtype=bool)
    return inside if region == "foreground" else ~inside


def _mask(item: Item, region: str, side: int, smallest: float) -> dict[str, bytes] | None:
    """Encode a region as services take it: `{}` for the whole image, None for an empty region.

    Args:
        smallest: The share of the image below which a region counts as empty.
    """
    if region == "whole":
        return {}
    region_mask = _select_region(item, region, side)
    if not region_mask.any() or region_mask.mean() < smallest:
        return None
    return {"MASK": encode_mask(region_mask)}


def _empty(region: str, counts: float | None) -> Score:
    """Return the score of a region without pixels.

    Raises:
        Abstention: `degenerate`, if such a region has no score.
    """
    if counts is None:
        raise Abstention("degenerate", f"the {region} has no pixel")
    return Score(value=counts, evidence={"empty": region}, imputed=True)
