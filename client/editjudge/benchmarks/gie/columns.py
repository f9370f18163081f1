"""Tables 2 and 3 of the paper, the preservation score of its figure 4, correctness by content."""

from functools import partial

from ...base.item import Item
from ..column import Aggregation, Column, Mean, PooledMean, of_tasks
from ..fusion import min_max
from .switches import GieSwitches
from .taxonomy import CONTENTS, TITLES, content

TO_PERCENT = (100.0, 0.0)
CORRECTNESS, PRESERVATION = "Functional Correctness", "Preservation"
_TABLE_2, _TABLE_3, _FIGURE_4 = (f"GIE-Bench, {one}" for one in ("table 2", "table 3", "figure 4"))


def _correct(name: str, title: str, how: Aggregation) -> Column:
    return Column(f"gie.{name}", title, how, True, _TABLE_2, CORRECTNESS)


def _preservation_column(name: str, title: str, *, higher: bool = True) -> Column:
    """Make a column of a raw mean; means between 0 and 1 have four decimals in the paper."""
    how, decimals = Mean(f"gie.{name}"), 2 if name in {"psnr", "mse"} else 4
    column = f"gie.mean.{name}"
    return Column(column, title, how, higher, _TABLE_3, PRESERVATION, decimals=decimals)


_CORRECTNESS = "gie.functional_correctness"
TABLES: tuple[Column, ...] = (
    *(_correct(name, title, Mean(_CORRECTNESS, of_tasks(name), affine=TO_PERCENT)) for name, title in TITLES.items()),
    _correct("overall", "Overall", Mean(_CORRECTNESS, affine=TO_PERCENT)),
    _correct("reachable_maximum", "Reachable maximum", Mean("gie.reachable", affine=TO_PERCENT)),
    _preservation_column("ssim", "SSIM"),
    _preservation_column("clip", "CLIP"),
    _preservation_column("clip_whole", "Unmasked CLIP"),
    _preservation_column("psnr", "PSNR"),
    _preservation_column("mse", "MSE", higher=False),
)
UNALIGNED_SHARE = Column(
    "gie.unaligned",
    "Not aligned, % (PSNR and MSE)",
    Mean("gie.unaligned", affine=TO_PERCENT),
    False,
    _TABLE_3,
    PRESERVATION,
)
"""The percentage of edits that could not be aligned for PSNR and MSE."""
CALIBRATED_MSE = Column(
    "gie.preservation",
    "MSE inverted, 0 to 1 over this run's models",
    PooledMean(partial(min_max, invert=True), "gie.mse"),
    True,
    _FIGURE_4,
    PRESERVATION,
    decimals=4,
)


def _shows(kind: str, item: Item) -> bool:
    return content(item.extra.get("content_type")) == kind


BY_CONTENT: tuple[Column, ...] = tuple(
    Column(
        f"gie.content.{name}",
        row["title"],
        Mean(_CORRECTNESS, partial(_shows, name), affine=TO_PERCENT),
        True,
        "GIE-Bench, section 3.1",
        "Correctness by Content",
    )
    for name, row in CONTENTS.items()
)
"""Functional correctness by what the pictures show."""


def columns(switches: GieSwitches) -> tuple[Column, ...]:
    """Return the columns for the switches that are on."""
    more = () if switches.any_alignment else (UNALIGNED_SHARE,)
    figure_4 = () if switches.uncalibrated else (CALIBRATED_MSE,)
    return (*TABLES, *more, *figure_4, *BY_CONTENT)
