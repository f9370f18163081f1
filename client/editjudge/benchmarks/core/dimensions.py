"""The generic dimensions: what can be said of any edit, whatever benchmark it is from."""

from __future__ import annotations

from itertools import product

from ...dimension import Dimension, Reading
from ...item import Need
from ...pixels import PSNR_CAP
from ...scorers.pixels import PixelComparison, Reference, Region
from ...scorers.specialists import Quality, TextContent

PROTOCOL = "core.1"

_GIE = "GIE-Bench, section 3.5"
# By metric: variant, range, whether higher is better, unit and source.
_METRICS = {
    "psnr": (f"psnr.rgb.cap{PSNR_CAP:g}", (0.0, PSNR_CAP), True, "dB", "scikit-image"),
    "ssim": ("ssim.rgb.win7", (-1.0, 1.0), True, "", "Wang et al. 2004; scikit-image"),
    "mse": ("mse.rgb", (0.0, 65025.0), False, "", "scikit-image"),
    "aligned_psnr": (f"psnr.rgb.cap{PSNR_CAP:g}.sift", (0.0, PSNR_CAP), True, "dB", _GIE),
    "aligned_mse": ("mse.rgb.sift", (0.0, 65025.0), False, "", _GIE),
}
_AGAINST: dict[tuple[Reference, Region], str] = {
    ("source", "whole"): "How little of the source was changed?",
    ("source", "outside"): "How well is the source kept outside the mask?",
    ("target", "whole"): "How close is the result to the target?",
    ("target", "inside"): "How close is the result to the target inside the mask?",
}


def _pixel(metric: str, reference: Reference, region: Region, asks: str) -> Dimension:
    variant, bounds, higher, unit, source = _METRICS[metric]
    aligned = metric.startswith("aligned_")
    scorer = PixelComparison(reference, aligned=aligned)
    needs: set[Need] = {reference} if region == "whole" else {reference, "mask"}
    return Dimension(
        id=f"core.{metric}.{reference}.{region}",
        asks=asks,
        range=bounds,
        higher_is_better=higher,
        source=source,
        how=Reading(scorer, f"{metric.removeprefix('aligned_')}.{region}"),
        needs=frozenset(needs),
        variant=variant,
        unit=unit,
        tolerance=1e-9,
    )


DIMENSIONS: tuple[Dimension, ...] = (
    *(
        _pixel(metric, reference, region, asks)
        for metric, ((reference, region), asks) in product(_METRICS, _AGAINST.items())
    ),
    Dimension(
        id="core.text_content_accuracy",
        asks="Does the result show the target text, letter by letter?",
        range=(0.0, 1.0),
        higher_is_better=True,
        source="I2I-Bench, section 3.2 (reader: PP-OCR)",
        how=Reading(TextContent("ocr.ppocr"), "accuracy"),
        needs=frozenset({"target_text"}),
        variant="levenshtein.nfkc.ppocr",
    ),
    Dimension(
        id="core.quality.piqe",
        asks="How free of visible distortion is the result? (a baseline without weights)",
        range=(0.0, 1.0),
        higher_is_better=True,
        source="PIQE, Venkatanath et al., NCC 2015; as 1 - PIQE/100",
        how=Reading(Quality("quality.piqe"), "score"),
        variant="piqe.baseline",
        tolerance=1e-6,
    ),
)
