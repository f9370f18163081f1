"""Tables 2 to 5: the metrics of each track, by semantic scale and by round."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

from ...base.item import Item
from ..column import Column, Composite, Mean, PairedDifference, Where
from ..fusion import Values
from .switches import OmniSwitches
from .taxonomy import ROUNDS, SCALES, TABLES, TURNS

_PAPER = "Omni IIE Bench"

METRICS: dict[str, tuple[str, str, bool]] = {
    name: (row["of"], row["title"], row["higher_is_better"]) for name, row in TABLES["columns"].items()
}
"""By name in ids: the dimension, the title, and whether higher is better."""
Columns: TypeAlias = Iterator[Column]
Sign: TypeAlias = Literal["+", "-"]


def columns(switches: OmniSwitches) -> tuple[Column, ...]:
    """By the switches that are on."""
    return tuple(_list_columns(switches))


def _list_columns(switches: OmniSwitches) -> Columns:
    yield from _group("single_turn", "Single turn", _of("level", *SCALES), "table 2", switches)
    for scale, table in zip(SCALES, ("table 4", "table 5"), strict=True):
        yield from _group(f"single_turn.{scale}", f"Single turn, {scale}", _of("level", scale), table, switches)
    yield from _drop(switches)
    yield from _group("multi_turn", "Multi turn", _in_dialogue, "table 3", switches)
    for number in range(1, ROUNDS + 1):
        name, where = f"multi_turn.round_{number}", _of("level", str(number))
        yield from _group(name, f"Multi turn, round {number}", where, "section 5.4", switches)
    for turn, words in TURNS.items():
        name, where = f"multi_turn.{turn}", _of("switch", turn)
        yield from _group(name, f"Multi turn, {words}", where, "section 3.3.2", switches)


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


def _group(name: str, title: str, where: Where, table: str, switches: OmniSwitches) -> Columns:
    """The columns of one of the paper's tables."""
    for metric in _metrics(switches):
        of, words, higher = METRICS[metric]
        weight = TABLES["columns"][metric].get("weight") if switches.area_weighted else None
        how = Mean(f"omni_iie.{of}", where, weighted_by=f"omni_iie.{weight}" if weight else "")
        yield Column(f"omni_iie.{name}.{metric}", words, how, higher, f"{_PAPER}, {table}", title)
    if not switches.no_qa:
        yield _overall(name, title, overall, table, True)


def _drop(switches: OmniSwitches) -> Columns:
    """What is lost from the low to the high scale of the same image; positive where it is worse.

    Over pairs only, each of which counts once: also where means are weighted by area. A pair with
    an empty region has no difference, also where the region itself counts as a number.
    """
    name, title = "single_turn.drop", "Single turn, drop from low to high"
    source = f"{_PAPER}, section 5.3"
    for metric in _metrics(switches):
        of, words, higher = METRICS[metric]
        how = PairedDifference(f"omni_iie.{of}", _pair if higher else _pair_turned)
        yield Column(f"omni_iie.{name}.{metric}", words, how, False, source, title)
    if not switches.no_qa:
        yield _overall(name, title, overall_loss, "section 5.3", False)


def _overall(name: str, title: str, fn: Callable[[Values], float], source: str, higher: bool) -> Column:
    parts = {metric: f"omni_iie.{name}.{metric}" for metric in METRICS if metric != "psnr"}
    how, column = Composite(fn, parts), f"omni_iie.{name}.overall"
    return Column(column, "Overall", how, higher, f"{_PAPER}, {source}", title)


def _of(field: str, *values: str) -> Where:
    return lambda item: item.extra.get(field) in values


def _in_dialogue(item: Item) -> bool:
    return str(item.extra.get("level", "")).isdecimal()


_SIDES: Mapping[object, Sign] = {"low": "+", "high": "-"}
_REVERSED_SIDES: Mapping[object, Sign] = {"low": "-", "high": "+"}


def _pair(item: Item, sides: Mapping[object, Sign] = _SIDES) -> tuple[str, Sign] | None:
    """The two scales of one image; what is at `low` less what is at `high`."""
    side = sides.get(item.extra.get("level"))
    return side and (str(item.extra["scene"]), side)


def _pair_turned(item: Item) -> tuple[str, Sign] | None:
    """Likewise, what is at `high` less what is at `low`."""
    return _pair(item, _REVERSED_SIDES)
