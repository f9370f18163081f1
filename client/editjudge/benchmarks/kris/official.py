"""How the official scripts ask and what they read: prompts and readers.

The release (github.com/mercurystraw/Kris_Bench) has one script for each group of tasks and none
that summarises. Its authors point to the one of BAGEL (`eval/gen/kris/summarize.py`), whose own
scripts for judging differ from theirs again: they give the judge the instruction.
"""

from __future__ import annotations

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


_CONSISTENCY = _scores("consistency_score")
_QUALITY = _scores("quality_score")
_INSTRUCTION = _scores("instruction_score")
_BOTH = _scores(
    "instruction_score",
    "knowledge_score",
    reasoning=("instruction_reasoning", "knowledge_reasoning"),
)
_KEPT = "Is everything kept that the instruction does not touch?"
_NATURAL = "Is the edited image, seen alone, natural and free of artefacts?"
_FOLLOWED = "Is the instruction carried out?"
_TOLD = (("instruct", "instruction"),)
_TOLD_BOTH = (*_TOLD, ("explanation", "hint"))
_PAIR = ("sources", "edited")


def _original(
    name: str,
    asks: str,
    figure: str,
    images: tuple[str, ...],
    labels: Labels,
    contract: Scores,
    fields: tuple[tuple[str, str], ...] | None = _TOLD,
    file: str = "",
) -> OfficialPrompt:
    return OfficialPrompt(
        f"kris/{name}",
        OFFICIAL_PROMPTS,
        f"{file or name}.txt",
        asks,
        f"KRIS-Bench, {figure}",
        images,
        labels,
        contract,
        fields,
    )


# The prompt for quality is sent as it stands: the scripts do not format it.
PROMPTS = (
    _original("prompt_consist", _KEPT, "figure 28", _PAIR, _PLAIN, _CONSISTENCY),
    _original("prompt_consist_temporal", _KEPT, "figure 33", ("frames",), _FRAMES, _CONSISTENCY),
    _original("prompt_consist_multi", _KEPT, "figure 34", _PAIR, _ELEMENTS, _CONSISTENCY),
    _original("prompt_quality", _NATURAL, "figure 29", ("edited",), _PLAIN, _QUALITY, None),
    _original(
        "prompt_quality_alone",
        _NATURAL,
        "figure 29",
        ("edited",),
        _ALONE,
        _QUALITY,
        None,
        "prompt_quality",
    ),
    _original("prompt_instruction_following", _FOLLOWED, "figure 30", _PAIR, _PLAIN, _INSTRUCTION),
    _original(
        "prompt_dual_evaluation", _FOLLOWED, "figures 31 and 32", _PAIR, _PLAIN, _BOTH, _TOLD_BOTH
    ),
    _original(
        "prompt_abnormal_instruction_following",
        _FOLLOWED,
        "figure 36",
        _PAIR,
        _PLAIN,
        _INSTRUCTION,
        _TOLD_BOTH,
    ),
    _original(
        "prompt_view_instruction_following",
        _FOLLOWED,
        "figure 35",
        (*_PAIR, "target"),
        _PLAIN,
        _INSTRUCTION,
    ),
    _original(
        "prompt_instruction_temporal", _FOLLOWED, "figure 33", ("frames",), _FRAMES, _INSTRUCTION
    ),
    _original("prompt_instruction_multi", _FOLLOWED, "figure 34", _PAIR, _ELEMENTS, _INSTRUCTION),
)

THEIRS = {
    "kris/consistency": "kris/prompt_consist",
    "kris/consistency_temporal": "kris/prompt_consist_temporal",
    "kris/consistency_multi_element": "kris/prompt_consist_multi",
    "kris/quality": "kris/prompt_quality",
    "kris/quality_alone": "kris/prompt_quality_alone",
    "kris/instruction": "kris/prompt_instruction_following",
    "kris/instruction_and_knowledge": "kris/prompt_dual_evaluation",
    "kris/instruction_anomaly": "kris/prompt_abnormal_instruction_following",
    "kris/instruction_viewpoint": "kris/prompt_view_instruction_following",
    "kris/instruction_temporal": "kris/prompt_instruction_temporal",
    "kris/instruction_multi_element": "kris/prompt_instruction_multi",
}
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
