"""Functional correctness and preservation (section 3.5), by the paper and by the official code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ...base.item import Edit, Need
from ...base.verdict import Scored, Verdict
from ...pixels import PSNR_CAP
from ...prompts.official import declared_in
from ...scorers.asking import JUDGE
from ...scorers.pixels import UNALIGNED, BlackedOutSsim, PixelComparison
from ...scorers.scorer import Scorer
from ...scorers.similarity import FeatureSimilarity
from ...scorers.vqa import MultipleChoice
from ..dimension import Dimension, Reading
from .release import SIDE
from .switches import GieSwitches

if TYPE_CHECKING:
    from ...panel import Panel

CLIP = "clip.vit_b_32"
STRETCHED = ".stretched"
"""In variants: the mask is brought to the image's size as the released code does."""
_SOURCE = "GIE-Bench, section 3.5"
_preserved = partial(
    Dimension, source=_SOURCE, range=(-1.0, 1.0), needs=frozenset[Need]({"source", "mask"})
)
"""One of the metrics of what lies outside the mask."""


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
    return (
        Dimension(
            id="gie.functional_correctness",
            asks="Is the question about the edited image answered as it should be?",
            source=_SOURCE,
            how=Reading(scorer, "correct"),
            needs=frozenset({"questions", "source"}),
            variant="vqa.choice.exact" if exact else "vqa.choice",
            tolerance=1.0,  # of one answer, which is right or wrong
        ),
        Dimension(
            id="gie.reachable",
            asks="Is the expected answer among the options?",
            source="the official data",
            how=Reading(Reachable(exact), "reachable"),
            needs=frozenset({"questions"}),
            variant="options.exact" if exact else "options",
            of_data=True,
        ),
    )


def _perceived(switches: GieSwitches) -> tuple[Dimension, ...]:
    black, touched = switches.ssim_blacked_out, switches.clip_touched
    pixels = BlackedOutSsim("source", SIDE) if black else PixelComparison("source")
    clip = FeatureSimilarity(
        CLIP,
        "source",
        rule="pool_any" if touched else "pool",
        side=SIDE if touched else 0,
        empty=1.0 if switches.empty_is_kept else None,
    )
    return (
        _preserved(
            "gie.ssim",
            "How alike are source and edit in structure outside the mask?",
            how=Reading(pixels, "outside" if black else "ssim.outside"),
            variant=f"ssim.grey.black{SIDE}" if black else "ssim.rgb.win7.within",
            tolerance=1e-9,
        ),
        _preserved(
            "gie.clip",
            "How alike are source and edit to CLIP outside the mask?",
            how=Reading(clip, "outside"),
            variant=f"cosine.pool_any.squash{SIDE}" if touched else f"cosine.pool{STRETCHED}",
            tolerance=1e-4,
        ),
        _preserved(
            "gie.clip_whole",
            "How alike are source and edit to CLIP, mask or not?",
            how=Reading(FeatureSimilarity(CLIP, "source"), "whole"),
            variant="cosine",
            needs=frozenset({"source"}),
            tolerance=1e-4,
        ),
    )


def _pixels(switches: GieSwitches) -> tuple[Dimension, ...]:
    scorer = PixelComparison(
        "source",
        aligned=True,
        plausible=not switches.any_alignment,
        as_is=switches.align_as_is,
    )
    whole = switches.unmasked_pixels
    region = "whole" if whole else "outside"
    needs: frozenset[Need] = frozenset({"source"} if whole else {"source", "mask"})
    where = "anywhere" if whole else "outside the mask"
    aligned = "sift.or_resized" if scorer.plausible else "sift.any"
    unaligned = _preserved(
        "gie.unaligned",
        "Can the edit not be aligned, so that it is measured resized? (1: it cannot)",
        how=Reading(scorer, UNALIGNED),
        variant=aligned,
        range=(0.0, 1.0),
        needs=frozenset({"source"}),
        higher_is_better=False,
        tolerance=1.0,  # an alignment near the limits of what is plausible may tip
    )
    if not whole:
        aligned += STRETCHED
    return (
        _preserved(
            "gie.psnr",
            f"How faint is the difference to the source {where}, once aligned?",
            how=Reading(scorer, f"psnr.{region}"),
            variant=f"psnr.rgb.cap{PSNR_CAP:g}.{aligned}",
            range=(0.0, PSNR_CAP),
            needs=needs,
            unit="dB",
            tolerance=1e-9,
        ),
        _preserved(
            "gie.mse",
            f"How large is the difference to the source {where}, once aligned?",
            how=Reading(scorer, f"mse.{region}"),
            variant=f"mse.rgb.{aligned}",
            range=(0.0, 65025.0),
            needs=needs,
            higher_is_better=False,
            tolerance=1e-9,
        ),
        *((unaligned,) if scorer.plausible else ()),
    )
