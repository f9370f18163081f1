"""The four metrics of KRIS-Bench (section 3.4), by the protocol of the paper."""

from __future__ import annotations

from ...dimension import Derived, Dimension, Reading, derived
from ...fusion import gated
from ...item import Item
from ...scorers.generalist import JUDGE, Rubric
from .taxonomy import TEMPORAL_TASKS, TESTS_KNOWLEDGE, reasoning_dimension

LOW, HIGH = 1.0, 5.0

CONSISTENCY = Rubric(
    JUDGE,
    "kris/consistency",
    by_task=(
        *((task, "kris/consistency_temporal") for task in TEMPORAL_TASKS),
        ("multi-element_composition", "kris/consistency_multi_element"),
    ),
)
QUALITY = Rubric(JUDGE, "kris/quality")
# Where knowledge is judged, one call gives both scores: apart, they contradict each other
# (appendix F).
INSTRUCTION = Rubric(
    JUDGE,
    "kris/instruction",
    by_task=(
        ("anomaly_correction", "kris/instruction_anomaly"),
        ("viewpoint_change", "kris/instruction_viewpoint"),
        *((task, "kris/instruction_temporal") for task in TEMPORAL_TASKS),
        ("multi-element_composition", "kris/instruction_multi_element"),
        *(
            (task, "kris/instruction_and_knowledge")
            for task in (
                "humanities",
                "practical_knowledge",
                "biology",
                "chemistry",
                "geography",
                "mathematics",
                "medicine",
                "physics",
                "abstract_reasoning",
                "rule-based_reasoning",
            )
        ),
    ),
)


def _of_kris(item: Item) -> str | None:
    return None if reasoning_dimension(item) else "not a task of KRIS-Bench"


def _tests_knowledge(item: Item) -> str | None:
    if reasoning_dimension(item) in TESTS_KNOWLEDGE:
        return None
    return _of_kris(item) or f"{item.task} tests no knowledge"


def _dimension(name: str, asks: str, how: Reading | Derived, source: str) -> Dimension:
    return Dimension(
        id=f"kris.{name}",
        asks=asks,
        range=(LOW, HIGH),
        higher_is_better=True,
        source=f"KRIS-Bench, section 3.4 and {source}",
        how=how,
        when=_tests_knowledge if name == "knowledge_plausibility" else _of_kris,
        variant="rubric.1to5",
        # The judge writes whole numbers: where it wavers, the next one.
        tolerance=1.0,
    )


DIMENSIONS: tuple[Dimension, ...] = (
    _dimension(
        "visual_consistency",
        "Is everything kept that the instruction does not touch?",
        Reading(CONSISTENCY, "consistency_score"),
        "figures 28, 33 and 34",
    ),
    _dimension(
        "visual_quality",
        "Is the edited image, seen alone, natural and free of artefacts?",
        Reading(QUALITY, "quality_score"),
        "figure 29",
    ),
    _dimension(
        "instruction_following",
        "Is the instruction carried out?",
        Reading(INSTRUCTION, "instruction_score"),
        "figures 30, 31 and 33 to 36",
    ),
    _dimension(
        "knowledge_plausibility",
        "Does the result agree with what is known of the world?",
        derived(
            gated("knowledge_score", by="kris.instruction_following", above=2.0, otherwise=LOW),
            "kris.instruction_following",
            of={"knowledge_score": Reading(INSTRUCTION, "knowledge_score")},
        ),
        "figure 32",
    ),
)
