"""How the official scripts ask and what they read: prompts and readers.

The release (github.com/mercurystraw/Kris_Bench) has one script for each group of tasks and none
that summarises. Its authors point to the one of BAGEL (`eval/gen/kris/summarize.py`), whose own
scripts for judging differ from theirs again: they give the judge the instruction.
"""

from __future__ import annotations

from typing import NamedTuple

from ...answers import ScoreField, Scores
from ...answers.first_digit import FirstDigit
from ...prompts import Labels
from ...prompts.official import OfficialPrompt
from .taxonomy import KNOWLEDGE_TASKS, MULTI_ELEMENT, TEMPORAL_TASKS

OFFICIAL_PROMPTS = "kris"

_PLAIN = Labels(
    source="This is the original image:",
    edited="This is the edited image:",
    target="This is the ground truth image:",
)
_ELEMENTS = Labels(source="Reference Image {n}:", edited="Predicted Image:")
_FRAMES = Labels(given="Frame {n} (Reference):", made="Frame {n} (Generated):")
_ALONE = Labels(edited="This is the image to evaluate:")


def _scores(*names: str, reasoning: bool | tuple[str, ...] = True) -> Scores:
    return Scores(tuple(ScoreField(name, 1, 5) for name in names), reasoning)


class _Kind(NamedTuple):
    """What a prompt asks, and what is read of a reply."""

    asks: str
    contract: Scores


_KEPT = _Kind(
    "Is everything kept that the instruction does not touch?", _scores("consistency_score")
)
_NATURAL = _Kind(
    "Is the edited image, seen alone, natural and free of artefacts?", _scores("quality_score")
)
_FOLLOWED = _Kind("Is the instruction carried out?", _scores("instruction_score"))
_BOTH = _Kind(
    _FOLLOWED.asks,
    _scores(
        "instruction_score",
        "knowledge_score",
        reasoning=("instruction_reasoning", "knowledge_reasoning"),
    ),
)
_TOLD = (("instruct", "instruction"),)
_TOLD_BOTH = (*_TOLD, ("explanation", "hint"))
_PAIR, _TIME, _EDIT = ("sources", "edited"), ("frames",), ("edited",)


def _original(
    name: str,
    kind: _Kind,
    figure: str,
    images: tuple[str, ...],
    labels: Labels,
    fields: tuple[tuple[str, str], ...] | None = _TOLD,
) -> OfficialPrompt:
    return OfficialPrompt(
        f"kris/{name}",
        OFFICIAL_PROMPTS,
        f"{name.removesuffix('_alone')}.txt",
        kind.asks,
        f"KRIS-Bench, {figure}",
        images,
        labels,
        kind.contract,
        fields,
    )


# By the names of ours. The prompt for quality is sent as it stands: the scripts do not format it.
_BY_OURS = {
    "consistency": _original("prompt_consist", _KEPT, "figure 28", _PAIR, _PLAIN),
    "consistency_temporal": _original(
        "prompt_consist_temporal", _KEPT, "figure 33", _TIME, _FRAMES
    ),
    "consistency_multi_element": _original(
        "prompt_consist_multi", _KEPT, "figure 34", _PAIR, _ELEMENTS
    ),
    "quality": _original("prompt_quality", _NATURAL, "figure 29", _EDIT, _PLAIN, None),
    "quality_alone": _original("prompt_quality_alone", _NATURAL, "figure 29", _EDIT, _ALONE, None),
    "instruction": _original("prompt_instruction_following", _FOLLOWED, "figure 30", _PAIR, _PLAIN),
    "instruction_and_knowledge": _original(
        "prompt_dual_evaluation", _BOTH, "figures 31 and 32", _PAIR, _PLAIN, _TOLD_BOTH
    ),
    "instruction_anomaly": _original(
        "prompt_abnormal_instruction_following", _FOLLOWED, "figure 36", _PAIR, _PLAIN, _TOLD_BOTH
    ),
    "instruction_viewpoint": _original(
        "prompt_view_instruction_following", _FOLLOWED, "figure 35", (*_PAIR, "target"), _PLAIN
    ),
    "instruction_temporal": _original(
        "prompt_instruction_temporal", _FOLLOWED, "figure 33", _TIME, _FRAMES
    ),
    "instruction_multi_element": _original(
        "prompt_instruction_multi", _FOLLOWED, "figure 34", _PAIR, _ELEMENTS
    ),
}
PROMPTS = tuple(_BY_OURS.values())
THEIRS = {f"kris/{ours}": prompt.name for ours, prompt in _BY_OURS.items()}
"""The official prompts by the names of ours."""

SEVERAL = (*TEMPORAL_TASKS, MULTI_ELEMENT)
"""Tasks with several sources, which two scripts of their own judge."""


def readers(key: str, *, joint: bool = False) -> tuple[tuple[str, FirstDigit], ...]:
    """What reads the replies about one metric, by task: every script has its own.

    Args:
        key: Of the score.
        joint: Where knowledge is judged, one reply has its score too.
    """
    keys = (key, "knowledge_score") if joint else (key,)
    knowing = FirstDigit(keys, colon="required", anywhere=not joint, null_ends=True)
    return (
        ("", FirstDigit((key,), colon="optional")),
        *((task, knowing) for task in KNOWLEDGE_TASKS),
        *((task, FirstDigit((key,))) for task in SEVERAL),
    )
