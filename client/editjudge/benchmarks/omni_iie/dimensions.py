"""The metrics of Omni IIE Bench (sections 4 and 5.1)."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.item import Item, Need
from ...pixels import PSNR_CAP
from ...scorers.asking import JUDGE
from ...scorers.resized import RegionClip, RegionLpips, RegionShare, SquaredPixels
from ...scorers.vqa import AnsweredFacts, FactCheck
from ..dimension import Dimension, Reading
from .switches import OmniSwitches
from .taxonomy import REGIONS

_TARGET: frozenset[Need] = frozenset({"target"})
_BOTH: frozenset[Need] = frozenset({"target", "mask"})
_WITHIN = {"foreground": " where the mask is white", "background": " outside the mask", "whole": ""}


def dimensions(switches: OmniSwitches) -> tuple[Dimension, ...]:
    """By the switches that are on; what weighs a mean stands last and is in no table."""
    weighs = REGIONS[:2] if switches.area_weighted else ()
    return (
        *(_lpips(region, switches) for region in REGIONS),
        *(_clip(region, switches) for region in REGIONS),
        *(() if switches.no_qa else (_qa(switches),)),
        *_pixels(switches),
        *map(_share, weighs),
    )


def _lpips(region: str, switches: OmniSwitches) -> Dimension:
    # Only regions are fed otherwise: the whole picture shares its calls with the paper's.
    stretched = region != "whole" and switches.stretched_lpips
    scorer = RegionLpips(
        "lpips.vgg",
        "stretched" if stretched else "zero",
        region != "whole" and switches.empty_counts,
        switches.alpha_dropped,
    )
    return Dimension(
        id=f"omni_iie.lpips.{region}",
        asks=f"How far is the result from the target{_WITHIN[region]}?",
        range=(0.0, 10.0),
        higher_is_better=False,
        source="Omni IIE Bench, sections 4.2 and 4.3, equations 1, 3 and 5",
        how=Reading(scorer, region),
        needs=_TARGET if region == "whole" else _BOTH,
        variant=f"lpips.vgg.768.{'stretched' if stretched else 'zero'}",
        worst_of=1.0,
        tolerance=1e-4,
    )


def _clip(region: str, switches: OmniSwitches) -> Dimension:
    background = region == "background"
    scorer = RegionClip(
        "clip.vit_b_32",
        background and switches.whole_background_clip,
        region != "whole" and switches.empty_counts,
        switches.alpha_dropped,
    )
    return Dimension(
        id=f"omni_iie.clip.{region}",
        asks=f"How alike are the meanings of result and target{_WITHIN[region]}?",
        range=(-1.0, 1.0),
        source="Omni IIE Bench, sections 4.2 and 4.3, equations 2, 4 and 6",
        how=Reading(scorer, region),
        needs=_TARGET if region == "whole" else _BOTH,
        variant="cosine.768.zero",
        tolerance=1e-4,
    )


def _pixels(switches: OmniSwitches) -> Iterator[Dimension]:
    scorer = SquaredPixels(switches.alpha_dropped)
    yield Dimension(
        "omni_iie.psnr",
        "How close are the result's pixels to the target's?",
        "Omni IIE Bench, section 4.2; scikit-image",
        Reading(scorer, "psnr"),
        (0.0, PSNR_CAP),
        needs=_TARGET,
        variant=f"psnr.rgb.768.cap{PSNR_CAP:g}",
        unit="dB",
        tolerance=1e-9,
    )
    yield Dimension(
        "omni_iie.ssim",
        "How alike are the structures of result and target?",
        "Omni IIE Bench, section 4.2; Wang et al. 2004; scikit-image",
        Reading(scorer, "ssim"),
        (-1.0, 1.0),
        needs=_TARGET,
        variant="ssim.rgb.win7.768",
        tolerance=1e-9,
    )


def _share(region: str) -> Dimension:
    return Dimension(
        id=f"omni_iie.share.{region}",
        asks=f"How much of the picture is the {region}? (a weight)",
        source="Omni IIE Bench, official code",
        how=Reading(RegionShare(), region),
        needs=frozenset({"mask"}),
        variant="share.768",
        of_data=True,
    )


def _whole_pairs(item: Item) -> str | None:
    """Questions may be of another form than this dimension reads, in data of one's own."""
    for number, pair in enumerate(item.questions, 1):
        for name in ("question", "answer"):
            text = pair.get(name)
            if not (isinstance(text, str) and text.strip()):
                return f"question {number} of the item has no text `{name}`"
    return None


def _qa(switches: OmniSwitches) -> Dimension:
    how: FactCheck = FactCheck(JUDGE, "omni_iie/fact", "omni_iie/facts")
    if switches.two_stage_qa:
        how = AnsweredFacts(JUDGE, "omni_iie/same_answer", "omni_iie/facts", "omni_iie/answer")
    return Dimension(
        id="omni_iie.qa",
        asks="Does the result show everything that the instruction implies?",
        source="Omni IIE Bench, section 5.1",
        how=Reading(how, "correct"),
        when=_whole_pairs,
        variant="qa.two_stage.one_strike" if switches.two_stage_qa else "qa.one_strike",
        # Of one edit: an answer near the balance may tip.
        tolerance=1.0,
    )
