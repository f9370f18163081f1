"""Types of knowledge, reasoning dimensions and tasks (figure 2 and section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.item import Item

# By type of knowledge and reasoning dimension: folders with their number of items.
TAXONOMY: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "factual_knowledge": {
        "attribute_perception": {
            "count_change": 50,
            "color_change": 50,
            "part_completion": 50,
            "size_adjustment": 50,
            "anomaly_correction": 75,
        },
        "spatial_perception": {"viewpoint_change": 50, "position_movement": 50},
        "temporal_prediction": {"temporal_prediction": 74},
    },
    "conceptual_knowledge": {
        "social_science": {"humanities": 75, "practical_knowledge": 50},
        "natural_science": {
            "biology": 68,
            "chemistry": 75,
            "geography": 75,
            "mathematics": 50,
            "medicine": 50,
            "physics": 75,
        },
    },
    "procedural_knowledge": {
        "logical_reasoning": {"abstract_reasoning": 75, "rule-based_reasoning": 75},
        "instruction_decomposition": {
            "multi-element_composition": 75,
            "multi-instruction_execution": 75,
        },
    },
}
TESTS_KNOWLEDGE = ("social_science", "natural_science", "logical_reasoning")
"""The reasoning dimensions whose edits must agree with what is known (section 3.4)."""

KNOWLEDGE_TASKS = tuple(
    folder
    for dimensions in TAXONOMY.values()
    for dimension, folders in dimensions.items()
    if dimension in TESTS_KNOWLEDGE
    for folder in folders
)
MULTI_ELEMENT = "multi-element_composition"
TEMPORAL = "temporal_prediction"
FRAMES = 4
# The folder is three tasks, by the frame that is to be predicted.
_TEMPORAL_TASKS = {
    1: "reverse_prediction",
    2: "intermediate_prediction",
    3: "intermediate_prediction",
    4: "forward_prediction",
}
TEMPORAL_TASKS = tuple(dict.fromkeys(_TEMPORAL_TASKS.values()))

FOLDERS: Mapping[str, int] = {
    folder: items
    for dimensions in TAXONOMY.values()
    for folders in dimensions.values()
    for folder, items in folders.items()
}
"""Folders of the release, each with its number of items; 1,267 in all."""

SOURCES: Mapping[str, range] = dict.fromkeys(FOLDERS, range(1, 2)) | {
    TEMPORAL: range(FRAMES - 1, FRAMES),
    MULTI_ELEMENT: range(2, 6),
}
"""How many sources an item of the release has, by folder."""

UNEXPLAINED: Mapping[str, int] = {"anomaly_correction": 1} | {
    folder: 0 for folder in KNOWLEDGE_TASKS if folder != "rule-based_reasoning"
}
"""The folders with explanations, each with how many items of the release lack one."""

REASONING_DIMENSIONS: Mapping[str, str] = {
    task: dimension
    for dimensions in TAXONOMY.values()
    for dimension, folders in dimensions.items()
    for folder in folders
    for task in (TEMPORAL_TASKS if folder == TEMPORAL else (folder,))
}
"""The reasoning dimension of each of the 22 tasks."""


def task_of(folder: str, frame: int | None = None) -> str:
    """The task of an item.

    Args:
        frame: The one to be predicted, 1 to 4; of temporal prediction.
    """
    return folder if frame is None else _TEMPORAL_TASKS[frame]


def reasoning_dimension(item: Item) -> str | None:
    """The reasoning dimension that an item belongs to; None for items of other benchmarks."""
    return REASONING_DIMENSIONS.get(item.task)
