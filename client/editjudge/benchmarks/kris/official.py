"""What the released scripts do otherwise than the paper: switches, prompts, readers.

The release (github.com/mercurystraw/Kris_Bench) has one script for each group of tasks and none
that summarises. Its authors point to the one of BAGEL (`eval/gen/kris/summarize.py`), whose own
scripts for judging differ from theirs again: they give the judge the instruction.
"""

from __future__ import annotations

from ...answers import ScoreField, Scores
from ...answers.first_digit import FirstDigit
from ...prompts.originals import Labels, OriginalPrompt
from ..benchmark import Switch
from .taxonomy import KNOWLEDGE_TASKS, MULTI_ELEMENT, TEMPORAL_TASKS

ORIGINALS = "kris"
SWITCHES = (
    Switch(
        "original_prompts",
        "The authors' own prompts, imported; labels and order of the images are theirs too",
        "utils/prompts.py and evaluate_with_gpt of every script",
    ),
    Switch(
        "empty_instruction",
        "The judge is told neither instruction nor explanation: the scripts read fields"
        " (instruction, explain) that the data does not have (ins_en, explain_en)",
        "evaluate_images of every script; not so in BAGEL's",
    ),
    Switch(
        "first_digit",
        "Replies are read by the released fallbacks, down to the first digit from 1 to 5 anywhere;"
        " none is asked for again",
        "metrics_common.py, extract_score_and_reason; metrics_knowledge.py, extract_*",
    ),
    Switch(
        "anomaly_by_common_prompt",
        "Anomaly correction is judged by the common prompt, without the explanation: its own is"
        " chosen by a name that no folder has",
        'metrics_common.py, "abnormality_correction" in category',
    ),
    Switch(
        "knowledge_ungated",
        "Knowledge plausibility stays as judged where the instruction got 2 or less",
        "metrics_knowledge.py, extract_dual_scores",
    ),
    Switch(
        "temporal_jpeg",
        "Frames of temporal prediction are encoded anew, as JPEG of quality 85",
        "metrics_temporal_prediction.py, encode_image_to_base64",
    ),
    Switch(
        "missing_skipped",
        "What has no score, a missing output among it, leaves the weights of averages too, and a"
        " reasoning dimension without any leaves the average; --single-image has no rule",
        "evaluate_images of every script; summarize.py of BAGEL",
    ),
    Switch(
        "pooled_metrics",
        "Averages weigh every metric's values alike, so that items with four metrics weigh more",
        "summarize.py of BAGEL, type_all_values_flat",
    ),
)

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
) -> OriginalPrompt:
    return OriginalPrompt(
        f"kris/{name}",
        ORIGINALS,
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
"""The authors' prompts by the names of ours."""

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
