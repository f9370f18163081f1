"""The generic dimensions: what can be said of any edit, whatever benchmark it is from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from ...base.identity import ServiceName
from ...base.item import Item, Need
from ...pixels import PSNR_CAP
from ...scorers.asking import JUDGE
from ...scorers.pixels import PixelComparison
from ...scorers.regions import Reference, Region
from ...scorers.similarity import FeatureSimilarity, Lpips
from ...scorers.specialists import Quality, TextContent
from ...scorers.vqa import FactCheck, FiveLevel, MultipleChoice, QuestionList
from ..dimension import Dimension, Reading

_AGAINST: dict[tuple[Reference, Region], str] = {
    ("source", "whole"): "How little of the source was changed?",
    ("source", "outside"): "How well is the source kept outside the mask?",
    ("target", "whole"): "How close is the result to the target?",
    ("target", "inside"): "How close is the result to the target inside the mask?",
}
_GIE = "GIE-Bench, section 3.5"
_SIFT = "sift.or_resized"
# By metric: variant, range, whether higher is better, unit and source.
_METRICS = {
    "psnr": (f"psnr.rgb.cap{PSNR_CAP:g}", (0.0, PSNR_CAP), True, "dB", "scikit-image"),
    "ssim": ("ssim.rgb.win7", (-1.0, 1.0), True, "", "Wang et al. 2004; scikit-image"),
    "mse": ("mse.rgb", (0.0, 65025.0), False, "", "scikit-image"),
    "aligned_psnr": (f"psnr.rgb.cap{PSNR_CAP:g}.{_SIFT}", (0.0, PSNR_CAP), True, "dB", _GIE),
    "aligned_mse": (f"mse.rgb.{_SIFT}", (0.0, 65025.0), False, "", _GIE),
}
_COSINE = (FeatureSimilarity, "cosine.pool", (-1.0, 1.0), True)
_DISTANCE = (Lpips, "lpips.weight", (0.0, 10.0), False)
# By service: the way of judging, variant, range, whether higher is better; and source.
_SEEN = {
    "features.dinov3": (*_COSINE, "I2I-Bench, eq. 2"),
    "features.dinov2": (*_COSINE, "Co-EditBench, section 4 (DINO)"),
    "clip.vit_b_32": (*_COSINE, "GIE-Bench, section 3.5; Omni IIE Bench"),
    "lpips.vgg": (*_DISTANCE, "Zhang et al. 2018; Omni IIE Bench"),
    "lpips.alex": (*_DISTANCE, "Zhang et al. 2018"),
}
# By service: question, variant, source and tolerance.
_QUALITY = {
    "quality.piqe": (
        "How free of visible distortion is the result? (a baseline without weights)",
        "piqe.baseline",
        "PIQE, Venkatanath et al., NCC 2015; as 1 - PIQE/100",
        1e-6,
    ),
    "quality.qinsight": (
        "How good is the quality of the result?",
        "qinsight.greedy",
        "I2I-Bench, section 3.2 (Q-Insight); as (rating - 1)/4",
        1e-2,
    ),
    "aesthetics.artimuse": (
        "How beautiful is the result?",
        "artimuse.expectation",
        "I2I-Bench, section 3.2 (ArtiMuse); as score/100",
        1e-2,
    ),
}
_RATED = {
    "quality": "How good is the quality of the result?",
    "aesthetics": "How beautiful is the result?",
}
PROTOCOL = "core.1"


def _questions(form: str, item: Item) -> str | None:
    for question in item.questions:
        known = all(isinstance(question.get(name), str) for name in ("question", "answer"))
        if not known or ("options" in question) != (form == "options"):
            return f"needs questions with their answers and {form}"
    return None


def _needs(reference: Reference, region: Region) -> frozenset[Need]:
    return frozenset({reference} if region == "whole" else {reference, "mask"})


def _pixel(metric: str, reference: Reference, region: Region) -> Dimension:
    variant, bounds, higher, unit, source = _METRICS[metric]
    if metric == "ssim" and region != "whole":
        variant = f"{variant}.within"
    scorer = PixelComparison(reference, aligned=metric.startswith("aligned_"))
    return Dimension(
        id=f"core.{metric}.{reference}.{region}",
        asks=_AGAINST[reference, region],
        range=bounds,
        higher_is_better=higher,
        source=source,
        how=Reading(scorer, f"{metric.removeprefix('aligned_')}.{region}"),
        needs=_needs(reference, region),
        variant=variant,
        unit=unit,
        tolerance=1e-9,
    )


def _seen(
    service: str, reference: Reference, region: Region, how: tuple[Any, ...] = ()
) -> Dimension:
    scorer, variant, bounds, higher, source = how or _SEEN[service]
    return Dimension(
        id=f"core.{service}.{reference}.{region}",
        asks=_AGAINST[reference, region],
        range=bounds,
        higher_is_better=higher,
        source=source,
        how=Reading(scorer(service, reference), region),
        needs=_needs(reference, region),
        variant=variant,
        tolerance=1e-4,
        worst_of=None if higher else 1.0,
    )


def _alone(service: str, how: tuple[str, str, str, float] | None = None) -> Dimension:
    asks, variant, source, tolerance = how or _QUALITY[service]
    return Dimension(
        id=f"core.{service}",
        asks=asks,
        source=source,
        how=Reading(Quality(service), "score"),
        variant=variant,
        tolerance=tolerance,
    )


def _text(name: str, service: str, reader: str) -> Dimension:
    return Dimension(
        id=name,
        asks="Does the result show the target text, letter by letter?",
        source=f"I2I-Bench, section 3.2 (reader: {reader})",
        how=Reading(TextContent(service), "accuracy"),
        needs=frozenset({"target_text"}),
        variant=f"levenshtein.nfkc.{ServiceName.parsed(service).variant}",
    )


def specialist_dimensions(services: Iterable[ServiceName]) -> tuple[Dimension, ...]:
    """What specialists of one's own say, as those of ours of the same role; of a segmenter none."""
    each = (one for service in services for one in _of_one(service))
    return tuple(replace(one, protocol=PROTOCOL) for one in each)


def _of_one(service: ServiceName) -> Iterable[Dimension]:
    source = f"a specialist of one's own, {service}"
    match service.role:
        case "quality" | "aesthetics" as role:
            return (_alone(service, (_RATED[role], service.variant, source, 1e-2)),)
        case "features" | "clip" | "lpips" as role:
            how = (*(_DISTANCE if role == "lpips" else _COSINE), source)
            return tuple(_seen(service, *against, how) for against in _AGAINST)
        case "ocr":
            name = f"core.text_content_accuracy.{service.variant}"
            return (_text(name, service, service.variant),)
    return ()


def _levels(name: str) -> Dimension:
    scorer = FiveLevel(JUDGE, f"core/{name}")
    asks, source, how = scorer.template.asks, scorer.template.source, Reading(scorer, "score")
    return Dimension(f"core.{name}", asks, source, how, variant="vqa.5level", tolerance=1e-3)


def _list(name: str, asks: str) -> Dimension:
    """A question near the balance may tip: then one answer in five to seven changes."""
    scorer = QuestionList(JUDGE, f"core/{name}_questions", "core/question")
    source, how = scorer.template.source, Reading(scorer, "score")
    return Dimension(f"core.{name}", asks, source, how, variant="vqa.questions", tolerance=0.2)


# Of the questions that come with an item; one answer may tip.
_questioned = partial(Dimension, needs=frozenset[Need]({"questions"}), tolerance=1.0)
DIMENSIONS: tuple[Dimension, ...] = (
    *(_pixel(metric, *against) for metric, against in product(_METRICS, _AGAINST)),
    *(_seen(service, *against) for service, against in product(_SEEN, _AGAINST)),
    _text("core.text_content_accuracy", "ocr.ppocr", "PP-OCR"),
    _text("core.text_content_accuracy.got", "ocr.got", "GOT-OCR2.0"),
    *map(_alone, _QUALITY),
    _levels("instruction_following"),
    _levels("blending_naturalness"),
    _levels("editing_artifacts"),
    _list("physical_plausibility", "Does the edited scene obey physics?"),
    _list("composition_and_interaction", "Do the new and the old elements go together?"),
    _questioned(
        "core.multiple_choice",
        "Is each of the item's multiple-choice questions answered as it should be?",
        "GIE-Bench, section 3.5",
        Reading(MultipleChoice(JUDGE, "gie/choice"), "correct"),
        when=partial(_questions, "options"),
        variant="multiple_choice.share",
    ),
    _questioned(
        "core.fact_check",
        "Does every question about the result have the answer that it should? (one strike)",
        "Omni IIE Bench, section 5.1",
        Reading(FactCheck(JUDGE, "omni_iie/fact", "omni_iie/facts"), "correct"),
        when=partial(_questions, "no options"),
        variant="fact_check.strike1",
    ),
)
