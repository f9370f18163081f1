"""Functional correctness and preservation (section 3.5), by the paper and by the official code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...base.item import Edit, Need
from ...base.verdict import Scored, Verdict
from ...pixels import PSNR_CAP
from ...prompts.official import declared_in
from ...scorers.asking import JUDGE
from ...scorers.pixels import UNALIGNED, BlackedOutSsim, PixelComparison
from ...scorers.scorer import Scorer
from ...scorers.similarity import FeatureSimilarity
from ...scorers.vqa import MultipleChoice
from ..dimension import Dimension, Reading, declared
from .release import SIDE
from .switches import GieSwitches
from .taxonomy import TABLES

if TYPE_CHECKING:
    from ...panel import Panel

CLIP = "clip.vit_b_32"


def _dimension(name: str, scorer: Scorer, field: str, **more: Any) -> Dimension:
    return declared(TABLES["dimensions"][name], f"gie.{name}", Reading(scorer, field), **more)


@dataclass(frozen=True)
class Reachable(Scorer):
    """Whether a judge that replies with an option can be right; asks nobody.

    Field `reachable`, the share of the item's questions that can be won, 0 or 1 for one question.

    Attributes:
        exact: The reply must equal the expected answer to the letter.
    """

    name: ClassVar[str] = "reachable"
    exact: bool = False

    async def score(
        self, edit: Edit, panel: Panel, fields: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Look at the questions."""
        questions = edit.item.questions
        won = sum(MultipleChoice.can_be_won(one, exact=self.exact) for one in questions)
        return {"reachable": Scored(value=won / len(questions))}


def dimensions(switches: GieSwitches) -> tuple[Dimension, ...]:
    """Tables 2 and 3 for one edit."""
    return (*_correctness(switches), *_perceived(switches), *_pixels(switches))


def _correctness(switches: GieSwitches) -> tuple[Dimension, ...]:
    exact, both = switches.exact_match, switches.both_images
    alone, beside = "gie/choice", "gie/choice_with_source"
    official = declared_in(__package__) if switches.original_prompts else {}
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
    exactly = {"variant": "vqa.choice.exact"} if exact else {}
    to_the_letter = {"variant": "options.exact"} if exact else {}
    return (
        _dimension("functional_correctness", scorer, "correct", **exactly),
        _dimension("reachable", Reachable(exact), "reachable", **to_the_letter),
    )


def _perceived(switches: GieSwitches) -> tuple[Dimension, ...]:
    clip = FeatureSimilarity(
        CLIP,
        "source",
        rule="pool_any" if switches.clip_touched else "pool",
        side=SIDE if switches.clip_touched else 0,
        empty=1.0 if switches.empty_is_kept else None,
    )
    touched = {"variant": f"cosine.pool_any.squash{SIDE}"} if switches.clip_touched else {}
    ssim = _dimension("ssim", PixelComparison("source"), "ssim.outside")
    if switches.ssim_blacked_out:
        black = BlackedOutSsim("source", SIDE)
        ssim = _dimension("ssim", black, "outside", variant=f"ssim.grey.black{SIDE}")
    return (
        ssim,
        _dimension("clip", clip, "outside", **touched),
        _dimension("clip_whole", FeatureSimilarity(CLIP, "source"), "whole"),
    )


def _pixels(switches: GieSwitches) -> tuple[Dimension, ...]:
    scorer = PixelComparison(
        "source",
        aligned=True,
        plausible=not switches.any_alignment,
        as_is=switches.align_as_is,
    )
    aligned = "sift.or_resized" if scorer.plausible else "sift.any"
    unaligned = _dimension("unaligned", scorer, UNALIGNED, variant=aligned)
    region, more = "outside", dict[str, dict[str, Any]](psnr={}, mse={})
    if switches.unmasked_pixels:
        region, needs = "whole", frozenset[Need]({"source"})
        for name, changes in more.items():
            asks = TABLES["dimensions"][name]["asks"].replace("outside the mask", "anywhere")
            changes |= {"asks": asks, "needs": needs}
    else:  # the mask is brought to the image's size as the released code does
        aligned += ".stretched"
    psnr = f"psnr.rgb.cap{PSNR_CAP:g}.{aligned}"
    return (
        _dimension("psnr", scorer, f"psnr.{region}", variant=psnr, **more["psnr"]),
        _dimension("mse", scorer, f"mse.{region}", variant=f"mse.rgb.{aligned}", **more["mse"]),
        *((unaligned,) if scorer.plausible else ()),
    )
