"""Functional correctness and preservation (section 3.5), by the paper and by the official code."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ...base.identity import JUDGE
from ...base.item import Edit, Need
from ...base.verdict import Score, Verdicts
from ...panel import Panel
from ...pixels.metrics import PSNR_CAP
from ...prompts.official_prompts import load_official_prompts
from ...scorers.pixels import NO_ALIGNMENT, BlackedOutSsim, PixelComparison
from ...scorers.scorer import Scorer
from ...scorers.similarity import FeatureSimilarity
from ...scorers.vqa import MultipleChoice
from ..dimension import Dimension, Reading, make_dimension
from .release import SIDE
from .switches import GieSwitches
from .taxonomy import TABLES

CLIP = "clip.vit_b_32"
STRETCHED_MASK = ".stretched"
"""In variants: the mask is brought to the image's size as the released code does."""


def _dimension(name: str, scorer: Scorer, field: str, **more: Any) -> Dimension:
    return make_dimension(TABLES["dimensions"][name], f"gie.{name}", Reading(scorer, field), **more)


@dataclass(frozen=True)
class Reachable(Scorer):
    """Whether a judge that replies with an option can be right; it makes no call.

    Field `reachable`, the share of the item's questions that can be won, 0 or 1 for one question.

    Attributes:
        exact: The reply must equal the expected answer to the letter.
    """

    name: ClassVar[str] = "reachable"
    exact: bool = False

    async def score(self, edit: Edit, panel: Panel, fields: frozenset[str]) -> Verdicts:
        """Count the questions whose right answer is an option."""
        questions = edit.item.questions
        winnable = sum(MultipleChoice.can_be_won(one, exact=self.exact) for one in questions)
        return {"reachable": Score(value=winnable / len(questions))}


def dimensions(switches: GieSwitches) -> tuple[Dimension, ...]:
    """Return the dimensions of tables 2 and 3."""
    return (*_correctness(switches), *_make_similarity_dimension(switches), *_pixels(switches))


def _correctness(switches: GieSwitches) -> tuple[Dimension, ...]:
    exact, both = switches.exact_match, switches.both_images
    alone, beside = "gie/choice", "gie/choice_with_source"
    official = load_official_prompts(__package__) if switches.original_prompts else {}
    if official:
        alone, beside = official[alone].name, official[beside].name
    scorer = MultipleChoice(
        JUDGE,
        beside if both else alone,
        exact=exact,
        comparing="" if both else beside,
        in_line=switches.options_in_line,
        official=tuple(official.values()),
    )
    exactly = ".exact" if exact else ""
    return (
        _dimension("functional_correctness", scorer, "correct", variant=f"vqa.choice{exactly}"),
        _dimension("reachable", Reachable(exact), "reachable", variant=f"options{exactly}"),
    )


def _make_similarity_dimension(switches: GieSwitches) -> tuple[Dimension, ...]:
    over_patches = switches.clip_touched
    clip = FeatureSimilarity(
        CLIP,
        "source",
        rule="pool_any" if over_patches else "pool",
        side=SIDE if over_patches else 0,
        empty=1.0 if switches.empty_is_kept else None,
    )
    pools = f"cosine.pool_any.squash{SIDE}" if over_patches else f"cosine.pool{STRETCHED_MASK}"
    ssim = _dimension("ssim", PixelComparison("source"), "ssim.outside", variant="ssim.rgb.win7.within")
    if switches.ssim_blacked_out:
        black = BlackedOutSsim("source", SIDE)
        ssim = _dimension("ssim", black, "outside", variant=f"ssim.grey.black{SIDE}")
    return (
        ssim,
        _dimension("clip", clip, "outside", variant=pools),
        _dimension("clip_whole", FeatureSimilarity(CLIP, "source"), "whole", variant="cosine"),
    )


def _pixels(switches: GieSwitches) -> tuple[Dimension, ...]:
    scorer = PixelComparison("source", aligned=True, plausible=not switches.any_alignment, as_is=switches.align_as_is)
    aligned_variant = "sift.or_resized" if scorer.plausible else "sift.any"
    unaligned_dimension = _dimension("unaligned", scorer, NO_ALIGNMENT, variant=aligned_variant)
    region, where, needs = "outside", "outside the mask", frozenset[Need]({"source", "mask"})
    if switches.unmasked_pixels:
        region, where, needs = "whole", "anywhere", frozenset[Need]({"source"})
    else:
        aligned_variant += STRETCHED_MASK

    def make_measured(metric: str, variant: str) -> Dimension:
        asks = TABLES["dimensions"][metric]["asks"].format(where=where)
        field, variant = f"{metric}.{region}", f"{variant}.{aligned_variant}"
        return _dimension(metric, scorer, field, asks=asks, needs=needs, variant=variant)

    return (
        make_measured("psnr", f"psnr.rgb.cap{PSNR_CAP:g}"),
        make_measured("mse", "mse.rgb"),
        *((unaligned_dimension,) if scorer.plausible else ()),
    )
