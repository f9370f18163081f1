"""The generic dimensions that compare pixels.

They stand apart from those that ask a judge or a specialist, so that a score of pixels imports
neither; see `registry.load_dimensions`.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from ..base.item import Need
from ..base.parse import package_tables
from ..scorers.pixels import CoarseToFineComparison, PixelComparison
from ..scorers.regions import Reference, Region
from .dimension import Dimension, Reading, make_dimension

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


PIXEL_DIMENSIONS: tuple[Dimension, ...] = tuple(
    replace(_pixel(metric, row, *against), protocol=PROTOCOL)
    for (metric, row), against in product(_TABLES["pixels"].items(), REGIONS)
)
