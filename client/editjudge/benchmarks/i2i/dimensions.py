"""The dimensions of I2I-Bench: section 3.2, by the pipelines of appendix F."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from ...scorers.asking import JUDGE
from ...scorers.region_similarity import RegionSimilarity
from ...scorers.rubric import Rubric
from ...scorers.specialists import Quality, TextContent
from ...scorers.vqa import FiveLevel, QuestionList, YesNo
from ..dimension import Dimension, Reading, derived
from ..fusion import product, styled_text
from .switches import I2iSwitches
from .taxonomy import ARTIFACTS, NEEDS, ROWS, TABLES, TEXT, Track, not_asked

_Pipeline: TypeAlias = "partial[Dimension]"
"""How a dimension comes about, whatever its track."""


def _asked(scorer: FiveLevel | YesNo, variant: str) -> _Pipeline:
    asks, how = scorer.template.asks, Reading(scorer, "score")
    return partial(Dimension, asks=asks, how=how, variant=variant, tolerance=1e-3)


def _pipeline(name: str, row: Mapping[str, Any], *, found_only: bool) -> _Pipeline:
    """The pipeline that a row of `tables.toml` names."""
    match row:
        case {"levels": prompt}:
            return _asked(FiveLevel(JUDGE, prompt), "vqa.5level")
        case {"yes_no": prompt}:
            return _asked(YesNo(JUDGE, prompt), "vqa.2level")
        case {"questions": prompt, "asks": asks}:
            # One answer in five to seven may tip.
            how = Reading(QuestionList(JUDGE, prompt, "core/question"), "score")
            return partial(Dimension, asks=asks, how=how, variant="vqa.questions", tolerance=0.2)
        case {"specialist": service, "asks": asks}:
            how, variant = Reading(Quality(service), "score"), service.partition(".")[2]
            return partial(Dimension, asks=asks, how=how, variant=variant, tolerance=1e-2)
        case {"regions": prompt, "asks": asks}:
            in_which, inverted = row.get("found", "each"), row.get("inverted", False)
            regions = RegionSimilarity(JUDGE, prompt, found=in_which, inverted=inverted)
            read, variant = ("score", "cosine.pool")
            if found_only and in_which == "each":
                read, variant = ("found_only", "cosine.pool.found")
            # Another command is another region.
            return partial(
                Dimension,
                asks=asks,
                how=Reading(regions, read),
                variant=variant,
                tolerance=0.1,
                range=(-1.0, 1.0),
            )
    return _DERIVED[name]


_DERIVED: Mapping[str, _Pipeline] = {
    TEXT: partial(
        Dimension,
        asks="Does the result show the target text, in the style and place asked for?",
        how=derived(
            styled_text,
            of={
                "content": Reading(TextContent("ocr.got"), "accuracy"),
                "style": Reading(Rubric(JUDGE, "i2i/text_style"), "style_score"),
            },
            complete=True,
        ),
        variant="levenshtein.nfkc.got+rubric.1to5",
        tolerance=0.25,
    ),
    "subject_extraction_composition": partial(
        Dimension,
        asks="Are all subjects there, and themselves?",
        how=derived(
            product,
            "i2i.me.subject_consistency",
            of={"count": Reading(YesNo(JUDGE, "i2i/subject_count"), "score")},
            complete=True,
        ),
        variant="vqa.2level*cosine.pool",
        tolerance=0.1,
        range=(-1.0, 1.0),
    ),
}


def _row(name: str, row: Mapping[str, Any], switches: I2iSwitches) -> Mapping[str, Any]:
    """A row with what the switches change in it."""
    changes = row.get("with", {})
    for switch in switches.on & changes.keys():
        row = {**row, **changes[switch]}
    if switches.lmm_baseline and "levels" not in row:  # every dimension by equation 1 (section 4.3)
        return {"levels": f"i2i/baseline_{name}"}
    return row


def _dimension(track: Track, name: str, pipeline: _Pipeline, part: str = "") -> Dimension:
    return pipeline(
        id=f"i2i.{track}.{name}{part}",
        source=TABLES[track]["source"],
        needs=frozenset({NEEDS[name]}) if name in NEEDS else frozenset(),
        when=partial(not_asked, f"{track}.{name}"),
    )


def _share_lost(of: _Pipeline) -> _Pipeline:
    """How many of a dimension's regions the edit lost, by the calls that the dimension makes."""
    return partial(
        Dimension,
        asks="What share of what is compared did the edit lose?",
        how=Reading(of.keywords["how"].scorer, "lost"),
        variant="lost",
        tolerance=0.5,
        higher_is_better=False,
    )


def dimensions(switches: I2iSwitches) -> tuple[Dimension, ...]:
    """All of them, given the switches that are on, in the order of tables 1 and 2.

    After them, the shares that edits lost of what the regions compare; the baseline has none.
    """
    pipelines = {
        (track, name): _pipeline(name, _row(name, row, switches), found_only=switches.found_only)
        for track, rows in ROWS.items()
        for name, row in rows.items()
        if not (track == "me" and name == ARTIFACTS and not switches.me_editing_artifacts)
    }
    lost = [
        (track, name)
        for track, table in TABLES.items()
        for name in table["losable"]
        if not switches.lmm_baseline
    ]
    return (
        *(_dimension(track, name, how) for (track, name), how in pipelines.items()),
        *(_dimension(*one, _share_lost(pipelines[one]), ".lost") for one in lost),
    )
