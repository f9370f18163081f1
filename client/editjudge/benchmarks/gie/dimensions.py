"""Functional correctness and preservation (section 3.5), by the paper and by the released code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...dimension import Dimension, Reading, Scorer
from ...item import Edit, Need
from ...pixels import PSNR_CAP
from ...scorers.generalist import JUDGE, MultipleChoice
from ...scorers.pixels import BlackedOutSsim, PixelComparison
from ...scorers.similarity import FeatureSimilarity
from ...verdict import Scored, Verdict
from ..benchmark import Switch
from .official import PROMPTS, THEIRS
from .released import SIDE

if TYPE_CHECKING:
    from ...panel import Panel

CLIP = "clip.vit_b_32"
_SOURCE = "GIE-Bench, section 3.5"
_CLIP_SSIM = "masked_clip_ssim_evaluation.py"
_MSE_PSNR = "masked_mse_evaluation.py, masked_psnr_evaluation.py"
_VQA = "GPT-4o_VQA_evaluation.py"

ORIGINAL_PROMPTS = Switch(
    "original_prompts",
    "The authors' own prompts, imported; labels and order of the images are theirs too",
    _VQA,
)
EXACT_MATCH = Switch(
    "exact_match",
    "A reply is right where it equals the expected answer to the letter; any other is wrong, even"
    " one that is no option",
    _VQA,
)
BOTH_IMAGES = Switch(
    "both_images", "The judge sees the source beside the edited image for every question", _VQA
)
OPTIONS_IN_LINE = Switch(
    "options_in_line",
    "The options are told in one line, commas between them, though 79 records have options that"
    " hold commas",
    _VQA,
)
ANY_ALIGNMENT = Switch(
    "any_alignment",
    "Whatever transform is found is taken for the alignment; only where there is none the edit"
    " drops out of MSE and PSNR",
    _MSE_PSNR,
)
ALIGN_AS_IS = Switch(
    "align_as_is",
    "An edit of another aspect ratio is aligned as it is, though no similarity transform undoes a"
    " squeeze; otherwise it is resized to its source first",
    _MSE_PSNR,
)
UNMASKED_PIXELS = Switch(
    "unmasked_pixels",
    "MSE and PSNR are those of the whole image: masks of 0 and 1 are compared with 128",
    _MSE_PSNR,
)
SSIM_BLACKED_OUT = Switch(
    "ssim_blacked_out",
    f"SSIM of grey {SIDE}x{SIDE} squares, black inside the mask; what is black in both counts as 1",
    _CLIP_SSIM,
)
CLIP_TOUCHED = Switch(
    "clip_touched",
    f"Masked CLIP of {SIDE}x{SIDE} squares, the mean over every patch that the region touches",
    _CLIP_SSIM,
)
EMPTY_IS_KEPT = Switch(
    "empty_is_kept", "Masked CLIP counts as 1 where the mask leaves nothing outside it", _CLIP_SSIM
)
UNCALIBRATED = Switch(
    "uncalibrated",
    "No inverted and normalised MSE: the released code has raw means only",
    "masked_mse_evaluation.py",
)
SWITCHES = (
    ORIGINAL_PROMPTS,
    EXACT_MATCH,
    BOTH_IMAGES,
    OPTIONS_IN_LINE,
    ANY_ALIGNMENT,
    ALIGN_AS_IS,
    UNMASKED_PIXELS,
    SSIM_BLACKED_OUT,
    CLIP_TOUCHED,
    EMPTY_IS_KEPT,
    UNCALIBRATED,
)


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
        self, edit: Edit, panel: Panel, wanted: frozenset[str]
    ) -> Mapping[str, Verdict]:
        """Look at the questions."""
        questions = edit.item.questions
        won = sum(MultipleChoice.can_be_won(one, exact=self.exact) for one in questions)
        return {"reachable": Scored(value=won / len(questions))}


def dimensions(on: frozenset[str]) -> tuple[Dimension, ...]:
    """Tables 2 and 3 for one edit.

    Args:
        on: Names of the switches that are on.
    """
    return (*_correctness(on), *_perceived(on), *_pixels(on))


def _correctness(on: frozenset[str]) -> tuple[Dimension, ...]:
    exact, both = EXACT_MATCH.name in on, BOTH_IMAGES.name in on
    original = ORIGINAL_PROMPTS.name in on
    alone, beside = "gie/choice", "gie/choice_with_source"
    if original:
        alone, beside = THEIRS[alone], THEIRS[beside]
    scorer = MultipleChoice(
        JUDGE,
        beside if both else alone,
        exact=exact,
        comparing="" if both else beside,
        in_line=OPTIONS_IN_LINE.name in on,
        originals=PROMPTS if original else (),
    )
    return (
        Dimension(
            id="gie.functional_correctness",
            asks="Is the question about the edited image answered as it should be?",
            range=(0.0, 1.0),
            higher_is_better=True,
            source=_SOURCE,
            how=Reading(scorer, "correct"),
            needs=frozenset({"questions", "source"}),
            variant="vqa.choice.exact" if exact else "vqa.choice",
            tolerance=1.0,  # of one answer, which is right or wrong
        ),
        Dimension(
            id="gie.reachable",
            asks="Is the expected answer among the options?",
            range=(0.0, 1.0),
            higher_is_better=True,
            source="the released data",
            how=Reading(Reachable(exact), "reachable"),
            needs=frozenset({"questions"}),
            variant="options.exact" if exact else "options",
        ),
    )


def _perceived(on: frozenset[str]) -> tuple[Dimension, ...]:
    black, touched = SSIM_BLACKED_OUT.name in on, CLIP_TOUCHED.name in on
    pixels = BlackedOutSsim("source", SIDE) if black else PixelComparison("source")
    clip = FeatureSimilarity(
        CLIP,
        "source",
        rule="pool_any" if touched else "pool",
        side=SIDE if touched else 0,
        empty=1.0 if EMPTY_IS_KEPT.name in on else None,
    )
    return (
        _kept(
            "ssim",
            "How alike are source and edit in structure outside the mask?",
            Reading(pixels, "outside" if black else "ssim.outside"),
            f"ssim.grey.black{SIDE}" if black else "ssim.rgb.win7",
            tolerance=1e-9,
        ),
        _kept(
            "clip",
            "How alike are source and edit to CLIP outside the mask?",
            Reading(clip, "outside"),
            f"cosine.pool_any.squash{SIDE}" if touched else "cosine.pool",
            tolerance=1e-4,
        ),
        _kept(
            "clip_whole",
            "How alike are source and edit to CLIP, mask or not?",
            Reading(FeatureSimilarity(CLIP, "source"), "whole"),
            "cosine",
            needs=frozenset({"source"}),
            tolerance=1e-4,
        ),
    )


def _pixels(on: frozenset[str]) -> tuple[Dimension, ...]:
    scorer = PixelComparison(
        "source",
        aligned=True,
        plausible=ANY_ALIGNMENT.name not in on,
        as_is=ALIGN_AS_IS.name in on,
    )
    whole = UNMASKED_PIXELS.name in on
    region = "whole" if whole else "outside"
    needs: frozenset[Need] = frozenset({"source"} if whole else {"source", "mask"})
    where = "anywhere" if whole else "outside the mask"
    aligned = "sift" if scorer.plausible else "sift.any"
    return (
        _kept(
            "psnr",
            f"How faint is the difference to the source {where}, once aligned?",
            Reading(scorer, f"psnr.{region}"),
            f"psnr.rgb.cap{PSNR_CAP:g}.{aligned}",
            (0.0, PSNR_CAP),
            needs=needs,
            unit="dB",
            tolerance=1e-9,
        ),
        _kept(
            "mse",
            f"How large is the difference to the source {where}, once aligned?",
            Reading(scorer, f"mse.{region}"),
            f"mse.rgb.{aligned}",
            (0.0, 65025.0),
            needs=needs,
            higher_is_better=False,
            tolerance=1e-9,
        ),
    )


def _kept(
    name: str,
    asks: str,
    how: Reading,
    variant: str,
    bounds: tuple[float, float] = (-1.0, 1.0),
    *,
    needs: frozenset[Need] = frozenset({"source", "mask"}),
    higher_is_better: bool = True,
    unit: str = "",
    tolerance: float,
) -> Dimension:
    """One of the preservation metrics."""
    return Dimension(
        id=f"gie.{name}",
        asks=asks,
        range=bounds,
        higher_is_better=higher_is_better,
        source=_SOURCE,
        how=how,
        needs=needs,
        variant=variant,
        unit=unit,
        tolerance=tolerance,
    )
