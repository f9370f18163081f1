"""The dimensions of I2I-Bench: section 3.2, by the pipelines of appendix F."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

from ...base.item import Need
from ...scorers.asking import JUDGE
from ...scorers.region_similarity import RegionSimilarity
from ...scorers.rubric import Rubric
from ...scorers.specialists import Quality, TextContent
from ...scorers.vqa import FiveLevel, QuestionList, YesNo
from ..dimension import Dimension, Reading, derived
from ..fusion import product, styled_text
from .switches import I2iSwitches
from .taxonomy import ARTIFACTS, DIMENSIONS, LOSABLE, NEEDS, TEXT, WORLD, Track, not_asked

_Pipeline: TypeAlias = "partial[Dimension]"
"""How a dimension comes about, whatever its track."""


def _asked(scorer: FiveLevel | YesNo, variant: str) -> _Pipeline:
    asks, how = scorer.template.asks, Reading(scorer, "score")
    return partial(Dimension, asks=asks, how=how, variant=variant, tolerance=1e-3)


def _specialist(asks: str, service: str, variant: str) -> _Pipeline:
    how = Reading(Quality(service), "score")
    return partial(Dimension, asks=asks, how=how, variant=variant, tolerance=1e-2)


def _levels(prompt: str) -> _Pipeline:
    """Eq. 1."""
    return _asked(FiveLevel(JUDGE, prompt), "vqa.5level")


def _yes_no(prompt: str) -> _Pipeline:
    """Eq. 4."""
    return _asked(YesNo(JUDGE, prompt), "vqa.2level")


def _questions(prompt: str, asks: str) -> _Pipeline:
    """Eq. 3; one answer in five to seven may tip."""
    how = Reading(QuestionList(JUDGE, prompt, "core/question"), "score")
    return partial(Dimension, asks=asks, how=how, variant="vqa.questions", tolerance=0.2)


def _regions(asks: str, scorer: RegionSimilarity, *, found_only: bool = False) -> _Pipeline:
    """Eq. 2; another command is another region."""
    read, variant = ("found_only", ".found") if found_only else ("score", "")
    return partial(
        Dimension,
        asks=asks,
        how=Reading(scorer, read),
        variant=f"cosine.pool{variant}",
        tolerance=0.1,
        range=(-1.0, 1.0),
    )


_QUALITY = _specialist("How good is the quality of the result?", "quality.qinsight", "qinsight")
_BEAUTY = _specialist("How beautiful is the result?", "aesthetics.artimuse", "artimuse")
_TEXT = partial(
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
)
_WORLD = _yes_no("i2i/world_knowledge")
_COMMON: Mapping[str, _Pipeline] = {
    "image_quality": _QUALITY,
    "aesthetic_quality": _BEAUTY,
    "blending_naturalness": _levels("core/blending_naturalness"),
    ARTIFACTS: _levels("core/editing_artifacts"),
    "instruction_following": _levels("core/instruction_following"),
    TEXT: _TEXT,
    WORLD: _WORLD,
}


def _accuracy(name: str, switches: I2iSwitches) -> _Pipeline:
    """One of four; in appendix F they put one question, so equal scorers make one call of them."""
    return _yes_no(f"i2i/{name}" if switches.own_question else "i2i/accuracy")


def _se(switches: I2iSwitches) -> Mapping[str, _Pipeline]:
    """Of single-image editing."""
    accuracies = (
        "spatial_accuracy",
        "object_manipulation_accuracy",
        "local_attribute_accuracy",
        "action_state_change_accuracy",
    )
    return {
        **_COMMON,
        **{name: _accuracy(name, switches) for name in accuracies},
        "physical_plausibility": _questions(
            "core/physical_plausibility_questions", "Does the edited scene obey physics?"
        ),
        "composition_interaction": _questions(
            "core/composition_and_interaction_questions",
            "Do the new and the old elements go together?",
        ),
        "non_edited_region_fidelity": _regions(
            "Is what lies outside the edited region as it was?",
            RegionSimilarity(JUDGE, "i2i/edited_region", found="edited", inverted=True),
        ),
        "subject_identity_fidelity": _regions(
            "Are the subjects that must stay still the same?",
            RegionSimilarity(JUDGE, "i2i/unchanged_subjects"),
            found_only=switches.found_only,
        ),
    }


def _me(switches: I2iSwitches) -> Mapping[str, _Pipeline]:
    """Of multi-image editing; where the paper says two things, the switches choose."""
    only = switches.found_only
    return {
        **_COMMON,
        "spatial_accuracy": _accuracy("spatial_accuracy", switches),
        "physical_plausibility": _questions(
            "i2i/physical_plausibility_questions", "Does the composed scene obey physics?"
        ),
        "composition_interaction": _questions(
            "i2i/composition_and_interaction_questions",
            "Do the elements of several images go together?",
        ),
        "cross_source_transfer": _yes_no("i2i/cross_source_transfer")
        if switches.transfer_yes_no
        else _questions(
            "i2i/cross_source_transfer_questions", "Was the attribute or pose carried over?"
        ),
        "inter_subject_consistency": _levels("i2i/inter_subject_consistency")
        if switches.consistency_levels
        else _questions(
            "i2i/inter_subject_consistency_questions",
            "Do subjects of several images look like parts of one picture?",
        ),
        "non_edited_element_fidelity": _regions(
            "Are the elements that were to be left alone as they were?",
            RegionSimilarity(JUDGE, "i2i/preserved_subjects", inverted=switches.inverted_elements),
            found_only=only,
        ),
        "subject_consistency": _regions(
            "Are the subjects those of the source images?",
            RegionSimilarity(JUDGE, "i2i/source_subjects"),
            found_only=only,
        ),
        "detail_fidelity": _regions(
            "Are the subjects' details those of the source images?",
            RegionSimilarity(JUDGE, "i2i/source_details"),
            found_only=only,
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


# Those that are asked on five levels anyway; the baseline has templates of its own for the rest.
_ON_LEVELS = {
    "blending_naturalness": "core/blending_naturalness",
    ARTIFACTS: "core/editing_artifacts",
    "instruction_following": "core/instruction_following",
    "inter_subject_consistency": "i2i/inter_subject_consistency",
}


def _baseline(track: Track) -> Mapping[str, _Pipeline]:
    """Every dimension of a track by eq. 1 (section 4.3)."""
    prompts = {name: _ON_LEVELS.get(name, f"i2i/baseline_{name}") for name in DIMENSIONS[track]}
    return {name: _levels(prompt) for name, prompt in prompts.items()}


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


_SECTIONS: Mapping[Track, str] = {
    "se": "section 3.2.1 and appendix F.1",
    "me": "section 3.2.2 and appendix F.2",
}
_FIELDS: Mapping[str, Need] = {TEXT: "target_text", WORLD: "hint"}


def _dimension(track: Track, name: str, pipeline: _Pipeline, part: str = "") -> Dimension:
    return pipeline(
        id=f"i2i.{track}.{name}{part}",
        source=f"I2I-Bench, {_SECTIONS[track]}",
        needs=frozenset({_FIELDS[name]}) if name in NEEDS else frozenset(),
        when=partial(not_asked, f"{track}.{name}"),
    )


def dimensions(switches: I2iSwitches) -> tuple[Dimension, ...]:
    """All of them, given the switches that are on, in the order of tables 1 and 2.

    After them, the shares that edits lost of what the regions compare.
    """
    tracks: Mapping[Track, Mapping[str, _Pipeline]] = (
        {track: _baseline(track) for track in DIMENSIONS}
        if switches.lmm_baseline
        else {"se": _se(switches), "me": _me(switches)}
    )
    judged = tuple(
        _dimension(track, name, tracks[track][name])
        for track, names in DIMENSIONS.items()
        for name in names
        if not (track == "me" and name == ARTIFACTS and not switches.me_editing_artifacts)
    )
    if switches.lmm_baseline:
        return judged
    lost = (
        _dimension(track, name, _share_lost(tracks[track][name]), ".lost")
        for track, names in LOSABLE.items()
        for name in names
    )
    return (*judged, *lost)
