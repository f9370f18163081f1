"""The generic dimensions, which apply to edits of any benchmark."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from ...base.identity import JUDGE, ServiceName
from ...base.item import Item
from ...base.parse import package_tables
from ...scorers.similarity import FeatureSimilarity, Lpips
from ...scorers.specialists import Quality, TextContent
from ...scorers.vqa import FactCheck, FiveLevel, MultipleChoice, QuestionList
from ..dimension import Dimension, Reading, make_dimension
from ..pixel_dimensions import PIXEL_DIMENSIONS, PROTOCOL, REGIONS, required_fields
from ..switches import Switches

_TABLES = package_tables(__package__, "tables.toml")
_COSINE = (FeatureSimilarity, "cosine.pool", (-1.0, 1.0), True)
_DISTANCE = (Lpips, "lpips.weight", (0.0, 10.0), False)
# By role: the way of judging, variant, range, whether higher is better.
_COMPARISONS = {"features": _COSINE, "clip": _COSINE, "lpips": _DISTANCE}
_QUESTIONS = {"quality": "How good is the quality of the result?", "aesthetics": "How beautiful is the result?"}


def _questions(form: str, item: Item) -> str | None:
    for question in item.questions:
        is_pair = all(isinstance(question.get(name), str) for name in ("question", "answer"))
        if not is_pair or ("options" in question) != (form == "options"):
            return f"needs questions with their answers and {form}"
    return None


def _make_comparisons(service: str, source: str) -> Iterable[Dimension]:
    scorer, variant, bounds, higher = _COMPARISONS[ServiceName.parse(service).role]
    for (reference, region), asks in REGIONS.items():
        yield Dimension(
            id=f"core.{service}.{reference}.{region}",
            asks=asks,
            range=bounds,
            higher_is_better=higher,
            source=source,
            how=Reading(scorer(service, reference), region),
            needs=required_fields(reference, region),
            variant=variant,
            tolerance=1e-4,
            worst_of=None if higher else 1.0,
        )


def _alone(service: str, **more: Any) -> Dimension:
    return Dimension(id=f"core.{service}", how=Reading(Quality(service), "score"), **more)


def _text(name: str, service: str, reader: str) -> Dimension:
    return Dimension(
        id=name,
        asks="Does the result show the target text, letter by letter?",
        source=f"I2I-Bench, section 3.2 (reader: {reader})",
        how=Reading(TextContent(service), "accuracy"),
        needs=frozenset({"target_text"}),
        variant=f"levenshtein.nfkc.{ServiceName.parse(service).variant}",
    )


def specialist_dimensions(services: Iterable[ServiceName]) -> tuple[Dimension, ...]:
    """Return dimensions for the user's own specialists; a segmenter has none."""
    each = (one for service in services for one in _of_one(service))
    return tuple(replace(one, protocol=PROTOCOL) for one in each)


def _of_one(service: ServiceName) -> Iterable[Dimension]:
    source = f"a specialist of one's own, {service}"
    match service.role:
        case "quality" | "aesthetics" as role:
            more = {"variant": service.variant, "tolerance": 1e-2}
            return (_alone(service, asks=_QUESTIONS[role], source=source, **more),)
        case "features" | "clip" | "lpips":
            return _make_comparisons(service, source)
        case "ocr":
            name = f"core.text_content_accuracy.{service.variant}"
            return (_text(name, service, service.variant),)
    return ()


def _levels(name: str, variant: str = "vqa.5level", **more: Any) -> Dimension:
    scorer = FiveLevel(JUDGE, f"core/{name}")
    asks, source, how = scorer.template.asks, scorer.template.source, Reading(scorer, "score")
    return Dimension(f"core.{name}", asks, source, how, variant=variant, tolerance=1e-3, **more)


def _only_pairs(item: Item) -> str | None:
    return None if "pair" in item.extra else "needs a pair of edits (editjudge run --pairs)"


def _list(name: str, asks: str) -> Dimension:
    """Make a dimension of a question list; its tolerance is one of five to seven answers."""
    scorer = QuestionList(JUDGE, f"core/{name}_questions", "core/question")
    source, how = scorer.template.source, Reading(scorer, "score")
    return Dimension(f"core.{name}", asks, source, how, variant="vqa.questions", tolerance=0.2)


_BY_JUDGE = {
    "core.multiple_choice": (Reading(MultipleChoice(JUDGE, "gie/choice"), "correct"), partial(_questions, "options")),
    "core.fact_check": (
        Reading(FactCheck(JUDGE, "omni_iie/fact", "omni_iie/facts"), "correct"),
        partial(_questions, "no options"),
    ),
}
DIMENSIONS: tuple[Dimension, ...] = (
    *PIXEL_DIMENSIONS,
    *(d for service in _TABLES["specialists"].items() for d in _make_comparisons(*service)),
    _text("core.text_content_accuracy", "ocr.ppocr", "PP-OCR"),
    _text("core.text_content_accuracy.got", "ocr.got", "GOT-OCR2.0"),
    *(_alone(service, **row) for service, row in _TABLES["alone"].items()),
    _levels("instruction_following"),
    _levels("preservation"),
    _levels("blending_naturalness"),
    _levels("editing_artifacts"),
    _levels("preference", "vqa.pair", needs=frozenset({"target"}), when=_only_pairs),
    _list("physical_plausibility", "Does the edited scene obey physics?"),
    _list("composition_and_interaction", "Do the new and the old elements go together?"),
    *(make_dimension(_TABLES["questions"][i], i, how, when=when) for i, (how, when) in _BY_JUDGE.items()),
)


def dimensions(_: Switches) -> tuple[Dimension, ...]:
    """Return the dimensions; there are no switches."""
    return DIMENSIONS
