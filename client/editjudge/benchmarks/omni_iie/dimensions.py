"""The metrics of Omni IIE Bench (sections 4 and 5.1)."""

from typing import Any

from ...base.identity import JUDGE
from ...base.item import Item, Need
from ...scorers.scorer import Scorer
from ...scorers.square_images import RegionClip, RegionLpips, RegionRule, RegionShare, SquaredPixels
from ...scorers.vqa import FactCheck
from ..dimension import Dimension, Reading, make_dimension
from .switches import OmniSwitches
from .taxonomy import REGIONS, TABLES

_ROWS = TABLES["dimensions"]
_WITHIN = {"foreground": " where the mask is white", "background": " outside the mask", "whole": ""}


def dimensions(switches: OmniSwitches) -> tuple[Dimension, ...]:
    """Return the dimensions for the switches that are on; weights stand last, in no table."""
    pixels = SquaredPixels(switches.alpha_dropped)
    weighs = REGIONS[:2] if switches.area_weighted else ()
    return (
        *(_lpips(region, switches) for region in REGIONS),
        *(_clip(region, switches) for region in REGIONS),
        *(() if switches.no_qa else (_qa(),)),
        *(make_dimension(_ROWS[one], f"omni_iie.{one}", Reading(pixels, one)) for one in ("psnr", "ssim")),
        *(_of_region("share", region, RegionShare()) for region in weighs),
    )


def _of_region(name: str, region: str, scorer: Scorer, **more: Any) -> Dimension:
    row, how = _ROWS[name], Reading(scorer, region)
    asks = row["asks"].format(region=region, within=_WITHIN[region])
    return make_dimension(row, f"omni_iie.{name}.{region}", how, asks=asks, **more)


def _needs(region: str) -> frozenset[Need]:
    return frozenset({"target"} if region == "whole" else {"target", "mask"})


def _lpips(region: str, switches: OmniSwitches) -> Dimension:
    # Only regions are fed otherwise: the whole picture shares its calls with the paper's.
    rule: RegionRule = "stretched" if region != "whole" and switches.stretched_lpips else "zero"
    empty_counts = region != "whole" and switches.empty_counts
    scorer = RegionLpips("lpips.vgg", rule, empty_counts, switches.alpha_dropped)
    variant = f"lpips.vgg.768.{rule}"
    return _of_region("lpips", region, scorer, needs=_needs(region), variant=variant)


def _clip(region: str, switches: OmniSwitches) -> Dimension:
    scorer = RegionClip(
        "clip.vit_b_32",
        region == "background" and switches.whole_background_clip,
        region != "whole" and switches.empty_counts,
        switches.alpha_dropped,
    )
    return _of_region("clip", region, scorer, needs=_needs(region))


def _whole_pairs(item: Item) -> str | None:
    """Return why the questions of an item cannot be used, or None; own data may have others."""
    for number, pair in enumerate(item.questions, 1):
        for name in ("question", "answer"):
            text = pair.get(name)
            if not (isinstance(text, str) and text.strip()):
                return f"question {number} of the item has no text `{name}`"
    return None


def _qa() -> Dimension:
    reading = Reading(FactCheck(JUDGE, "omni_iie/fact", "omni_iie/facts"), "correct")
    return make_dimension(_ROWS["qa"], "omni_iie.qa", reading, when=_whole_pairs)
