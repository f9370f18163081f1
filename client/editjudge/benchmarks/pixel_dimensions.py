"""The generic dimensions that compare pixels.

They stand apart from those that ask a judge or a specialist, so that a score of pixels imports
neither; see `registry.load_dimensions`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ..base.item import Item, Need
from ..base.parse import package_tables
from ..scorers.pixels import CoarseToFineComparison, PixelComparison
from ..scorers.regions import Reference, Region
from .dimension import Dimension, Reading, make_dimension, make_formula

PROTOCOL = "core.1"
_TABLES = package_tables(__package__, "core/tables.toml")
REGIONS: Mapping[tuple[Reference, Region], str] = {
    (row["reference"], row["region"]): row["asks"] for row in _TABLES["against"]
}
"""The question of each comparison: with a reference, within a region."""


def required_fields(reference: Reference, region: Region) -> frozenset[Need]:
    """The fields of an item that a comparison with a reference within a region needs."""
    return frozenset({reference} if region == "whole" else {reference, "mask"})


def _pixel(metric: str, row: Mapping[str, Any], reference: Reference, region: Region) -> Dimension:
    kind = CoarseToFineComparison if metric.startswith("aligned_") else PixelComparison
    scorer = kind(reference)
    fields = dict(row)
    region_variant = fields.pop("region_variant", row["variant"])
    return make_dimension(
        fields,
        f"core.{metric}.{reference}.{region}",
        Reading(scorer, f"{metric.removeprefix('aligned_')}.{region}"),
        asks=REGIONS[reference, region],
        needs=required_fields(reference, region),
        variant=row["variant"] if region == "whole" else region_variant,
        tolerance=1e-9,
    )


_ELSEWHERE = re.compile(r"(?:\b|_)(view|viewpoint|perspective|camera|style|tone|outpaint|outpainting)(?:\b|_)")
"""Tasks that ask for another view, frame or look of the whole picture, by a word of their names."""


def _keeps_frame(item: Item) -> str | None:
    return f"the task {item.task} changes the whole picture" if _ELSEWHERE.search(item.task) else None


@dataclass(frozen=True)
class Below:
    """1 where a value is below a limit, else 0."""

    limit: float

    def __call__(self, values: Mapping[str, float]) -> float:
        """Compare the only value."""
        return float(min(values.values()) < self.limit)


def _drift() -> Iterator[Dimension]:
    """How far what was to stay has drifted; one measurement shares the alignment of `aligned_…`."""
    more = dict[str, Any](when=_keeps_frame, source="ours: docs/explanation/dimensions.md#drift", needs={"source"})
    for name, row in _TABLES["drift"].items():
        yield make_dimension(
            row, f"core.drift.{name}", Reading(CoarseToFineComparison("source"), f"drift.{name}"), **more
        )
    for name, row in _TABLES["below"].items():
        fields = dict(row)
        share = make_formula(Below(fields.pop("limit")), "core.drift.shift")
        yield make_dimension(fields, f"core.drift.{name}", share, tolerance=1.0, **more)


PIXEL_DIMENSIONS: tuple[Dimension, ...] = tuple(
    replace(each, protocol=PROTOCOL)
    for each in (
        *(_pixel(name, row, *of) for (name, row), of in product(_TABLES["pixels"].items(), REGIONS)),
        *_drift(),
    )
)
