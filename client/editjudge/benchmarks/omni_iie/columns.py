"""Tables 2 to 5: the metrics of each track, by semantic scale and by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from ...base.item import Item
from ..column import Column, Composite, Mean, Paired
from ..fusion import Values
from .switches import OmniSwitches
from .taxonomy import ROUNDS, SCALES, TURNS

_PAPER = "Omni IIE Bench"

# By name in ids: the dimension, the title, and whether higher is better.
METRICS: dict[str, tuple[str, str, bool]] = {
    "lpips_fg": ("lpips.foreground", "LPIPS FG", False),
    "lpips_bg": ("lpips.background", "LPIPS BG", False),
    "lpips_all": ("lpips.whole", "LPIPS ALL", False),
    "clip_fg": ("clip.foreground", "CLIP FG", True),
    "clip_bg": ("clip.background", "CLIP BG", True),
    "clip_all": ("clip.whole", "CLIP ALL", True),
    "qa": ("qa", "QA", True),
    "psnr": ("psnr", "PSNR", True),
    "ssim": ("ssim", "SSIM", True),
}
_WEIGHTS = {
    "lpips_fg": "omni_iie.share.foreground",
    "lpips_bg": "omni_iie.share.background",
    "clip_bg": "omni_iie.share.background",
}


_ROUNDS, _SWITCHING = "section 5.4", "section 3.3.2"

Where: TypeAlias = Callable[[Item], bool]


def columns(switches: OmniSwitches) -> tuple[Column, ...]:
    """By the switches that are on."""
    return (
        *_group("single_turn", "Single turn", _of("level", *SCALES), "table 2", switches),
        *(
            column
            for scale, table in zip(SCALES, ("table 4", "table 5"), strict=True)
            for column in _group(
                f"single_turn.{scale}",
                f"Single turn, {scale}",
                _of("level", scale),
                table,
                switches,
            )
        ),
        *_drop(switches),
        *_group("multi_turn", "Multi turn", _in_dialogue, "table 3", switches),
        *(
            column
            for number in range(1, ROUNDS + 1)
            for column in _group(
                f"multi_turn.round_{number}",
                f"Multi turn, round {number}",
                _of("level", str(number)),
                _ROUNDS,
                switches,
            )
        ),
        *(
            column
            for turn, words in TURNS.items()
            for column in _group(
                f"multi_turn.{turn}",
                f"Multi turn, {words}",
                _of("switch", turn),
                _SWITCHING,
                switches,
            )
        ),
    )


def overall(values: Values) -> float:
    """The Overall score of a group, from its columns (captions of tables 2, 4 and 5).

    1/4 [(3 - sum of LPIPS)/3 + (sum of CLIP)/3 + QA + SSIM], sums over the three regions; 0..1
    for values in 0..1, higher is better.
    """
    return (1 - _mean("lpips", values) + _mean("clip", values) + values["qa"] + values["ssim"]) / 4


def overall_loss(values: Values) -> float:
    """What `overall` loses where its parts get worse by these values: it is linear."""
    return (_mean("lpips", values) + _mean("clip", values) + values["qa"] + values["ssim"]) / 4


def _mean(metric: str, values: Values) -> float:
    return math.fsum(values[f"{metric}_{region}"] for region in ("fg", "bg", "all")) / 3


def _metrics(switches: OmniSwitches) -> tuple[str, ...]:
    return tuple(name for name in METRICS if name != "qa" or not switches.no_qa)


def _group(
    name: str, title: str, where: Where, source: str, switches: OmniSwitches
) -> Iterator[Column]:
    """The columns of one of the paper's tables."""
    for metric in _metrics(switches):
        of, words, higher = METRICS[metric]
        weight = _WEIGHTS.get(metric, "") if switches.area_weighted else ""
        how = Mean(f"omni_iie.{of}", where, weighted_by=weight)
        yield Column(f"omni_iie.{name}.{metric}", words, how, higher, f"{_PAPER}, {source}", title)
    if not switches.no_qa:
        yield _overall(name, title, overall, source, higher_is_better=True)


def _drop(switches: OmniSwitches) -> Iterator[Column]:
    """What is lost from the low to the high scale of the same image; positive where it is worse.

    Over pairs only, each of which counts once: also where means are weighted by area. A pair with
    an empty region has no difference, also where the region itself counts as a number.
    """
    name, title = "single_turn.drop", "Single turn, drop from low to high"
    source = f"{_PAPER}, section 5.3"
    for metric in _metrics(switches):
        of, words, higher = METRICS[metric]
        how = Paired(f"omni_iie.{of}", _pair if higher else _pair_turned)
        yield Column(f"omni_iie.{name}.{metric}", words, how, False, source, title)
    if not switches.no_qa:
        yield _overall(name, title, overall_loss, "section 5.3", higher_is_better=False)


def _overall(
    name: str,
    title: str,
    fn: Callable[[Values], float],
    source: str,
    *,
    higher_is_better: bool,
) -> Column:
    parts = {metric: f"omni_iie.{name}.{metric}" for metric in METRICS if metric != "psnr"}
    return Column(
        f"omni_iie.{name}.overall",
        "Overall",
        Composite(fn, parts),
        higher_is_better,
        f"{_PAPER}, {source}",
        title,
    )


def _of(field: str, *values: str) -> Where:
    return lambda item: item.extra.get(field) in values


def _in_dialogue(item: Item) -> bool:
    return str(item.extra.get("level", "")).isdecimal()


def _pair(item: Item) -> tuple[str, Literal["+", "-"]] | None:
    """The two scales of one image; what is at `low` less what is at `high`."""
    match item.extra.get("level"):
        case "low":
            return str(item.extra["scene"]), "+"
        case "high":
            return str(item.extra["scene"]), "-"
    return None


def _pair_turned(item: Item) -> tuple[str, Literal["+", "-"]] | None:
    """Likewise, what is at `high` less what is at `low`."""
    match _pair(item):
        case scene, "+":
            return scene, "-"
        case scene, "-":
            return scene, "+"
    return None
