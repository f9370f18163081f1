"""The four metrics of KRIS-Bench (section 3.4), by the paper and as released."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...base.item import Item
from ...scorers.asking import JUDGE
from ...scorers.rubric import OfficialRubric, Rubric
from ..dimension import Derived, Dimension, Reading, derived
from ..fusion import Gated, mean
from .official import PROMPTS, SEVERAL, THEIRS, readers
from .switches import KrisSwitches
from .taxonomy import (
    KNOWLEDGE_TASKS,
    MULTI_ELEMENT,
    TEMPORAL_TASKS,
    TESTS_KNOWLEDGE,
    reasoning_dimension,
)

LOW, HIGH = 1.0, 5.0

# By metric: the prompt of tasks that have none of their own, and those of the others.
CONSISTENCY = (
    "kris/consistency",
    {
        **dict.fromkeys(TEMPORAL_TASKS, "kris/consistency_temporal"),
        MULTI_ELEMENT: "kris/consistency_multi_element",
    },
)
QUALITY: tuple[str, Mapping[str, str]] = ("kris/quality", {})
# Where knowledge is judged, one call gives both scores: apart, they contradict each other
# (appendix F).
INSTRUCTION = (
    "kris/instruction",
    {
        "anomaly_correction": "kris/instruction_anomaly",
        "viewpoint_change": "kris/instruction_viewpoint",
        **dict.fromkeys(TEMPORAL_TASKS, "kris/instruction_temporal"),
        MULTI_ELEMENT: "kris/instruction_multi_element",
        **dict.fromkeys(KNOWLEDGE_TASKS, "kris/instruction_and_knowledge"),
    },
)


# The same three calls in plain questions, which know neither explanation nor ground truth.
SIMPLE_CONSISTENCY = (
    "kris/consistency_simple",
    dict.fromkeys(TEMPORAL_TASKS, "kris/consistency_temporal_simple"),
)
SIMPLE_QUALITY: tuple[str, Mapping[str, str]] = ("kris/quality_simple", {})
SIMPLE_INSTRUCTION = (
    "kris/instruction_simple",
    {
        **dict.fromkeys(TEMPORAL_TASKS, "kris/instruction_temporal_simple"),
        **dict.fromkeys(KNOWLEDGE_TASKS, "kris/instruction_and_knowledge_simple"),
    },
)


def _consistency(switches: KrisSwitches) -> Rubric:
    prompts = SIMPLE_CONSISTENCY if switches.simple_prompts else CONSISTENCY
    return _rubric(switches, *prompts, readers("consistency_score"))


def _quality(switches: KrisSwitches) -> Rubric:
    prompt, tasks = SIMPLE_QUALITY if switches.simple_prompts else QUALITY
    if switches.original_prompts:  # the same words, the image under another label
        tasks = dict.fromkeys(SEVERAL, "kris/quality_alone")
    told = switches.model_copy(update={"empty_instruction": False})
    return _rubric(told, prompt, tasks, readers("quality_score"))


def _instruction(switches: KrisSwitches) -> Rubric:
    prompt, tasks = SIMPLE_INSTRUCTION if switches.simple_prompts else INSTRUCTION
    if switches.anomaly_by_common_prompt:
        tasks = {task: name for task, name in tasks.items() if task != "anomaly_correction"}
    return _rubric(switches, prompt, tasks, readers("instruction_score", joint=True))


def _rubric(switches: KrisSwitches, prompt: str, tasks: Mapping[str, str], read_by: Any) -> Rubric:
    """A metric's rubric: the paper's own where no switch changes it, whatever the protocol."""
    changes: dict[str, Any] = {}
    if switches.original_prompts:
        prompt, tasks = THEIRS[prompt], {task: THEIRS[name] for task, name in tasks.items()}
        changes["official"] = PROMPTS
    if switches.first_digit:
        changes["readers"] = read_by
    if switches.empty_instruction:
        changes["untold"] = True
    if switches.temporal_jpeg:
        changes["jpeg"] = TEMPORAL_TASKS
    how = OfficialRubric if changes else Rubric
    return how(JUDGE, prompt, by_task=tuple(tasks.items()), **changes)


def _of_kris(item: Item) -> str | None:
    return None if reasoning_dimension(item) else "not a task of KRIS-Bench"


def _tests_knowledge(item: Item) -> str | None:
    if reasoning_dimension(item) in TESTS_KNOWLEDGE:
        return None
    return _of_kris(item) or f"{item.task} tests no knowledge"


_SOURCE = "KRIS-Bench, section 3.4 and"
# The judge writes whole numbers: where it wavers, the next one.
_metric = partial(Dimension, range=(LOW, HIGH), when=_of_kris, variant="rubric.1to5", tolerance=1.0)


_INSTRUCTION = "kris.instruction_following"
_GATE = Gated("knowledge_score", by=_INSTRUCTION, above=2.0, otherwise=LOW)


def _plausibility(switches: KrisSwitches, judged: Reading) -> Reading | Derived:
    if switches.knowledge_ungated:
        return judged
    return derived(_GATE, _INSTRUCTION, of={"knowledge_score": judged})


def dimensions(switches: KrisSwitches) -> tuple[Dimension, ...]:
    """The metrics, then their average; nothing is loaded."""
    if switches.simple_prompts:
        switches = switches.model_copy(update={"original_prompts": False})
    instruction = _instruction(switches)
    metrics = (
        _metric(
            "kris.visual_consistency",
            "Is everything kept that the instruction does not touch?",
            f"{_SOURCE} figures 28, 33 and 34",
            Reading(_consistency(switches), "consistency_score"),
        ),
        _metric(
            "kris.visual_quality",
            "Is the edited image, seen alone, natural and free of artefacts?",
            f"{_SOURCE} figure 29",
            Reading(_quality(switches), "quality_score"),
        ),
        _metric(
            _INSTRUCTION,
            "Is the instruction carried out?",
            f"{_SOURCE} figures 30, 31 and 33 to 36",
            Reading(instruction, "instruction_score"),
        ),
        _metric(
            "kris.knowledge_plausibility",
            "Does the result agree with what is known of the world?",
            f"{_SOURCE} figure 32",
            _plausibility(switches, Reading(instruction, "knowledge_score")),
            when=_tests_knowledge,
        ),
    )
    average = _metric(
        "kris.average",
        "How good is the edit, all its metrics taken together?",
        f"{_SOURCE} figure 3",
        derived(mean, *(one.id for one in metrics)),
    )
    return (*metrics, average)
