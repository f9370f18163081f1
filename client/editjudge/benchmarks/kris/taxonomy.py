"""Types of knowledge, reasoning dimensions and tasks, as `tables.toml` has them."""

from collections.abc import Mapping
from typing import Any

from ...base.item import Item
from ...base.parse import package_tables

TABLES: Mapping[str, Any] = package_tables(__package__, "tables.toml")
TAXONOMY: Mapping[str, Mapping[str, Mapping[str, int]]] = TABLES["folders"]
"""By type of knowledge and reasoning dimension the folders, each with its number of items."""
TESTS_KNOWLEDGE = ("social_science", "natural_science", "logical_reasoning")
"""The reasoning dimensions whose edits must agree with what is known (section 3.4)."""

_ROWS = [
    (dimension, folder, items)
    for dimensions in TAXONOMY.values()
    for dimension, folders in dimensions.items()
    for folder, items in folders.items()
]
KNOWLEDGE_TASKS = tuple(folder for dimension, folder, _ in _ROWS if dimension in TESTS_KNOWLEDGE)
MULTI_ELEMENT = "multi-element_composition"
TEMPORAL = "temporal_prediction"
_BY_FRAME: list[str] = TABLES["temporal_tasks"]["by_frame"]
FRAMES = len(_BY_FRAME)
TEMPORAL_TASKS = tuple(dict.fromkeys(_BY_FRAME))

FOLDERS: Mapping[str, int] = {folder: items for _, folder, items in _ROWS}
"""Folders of the release, each with its number of items; 1,267 in all."""

REASONING_DIMENSIONS: Mapping[str, str] = {
    task: dimension for dimension, folder, _ in _ROWS for task in (TEMPORAL_TASKS if folder == TEMPORAL else (folder,))
}
"""The reasoning dimension of each of the 22 tasks."""


def task_of(folder: str, frame: int | None = None) -> str:
    """The task of an item.

    Args:
        frame: The one to be predicted, 1 to 4; of temporal prediction.
    """
    return folder if frame is None else _BY_FRAME[frame - 1]


def reasoning_dimension(item: Item) -> str | None:
    """The reasoning dimension that an item belongs to; None for items of other benchmarks."""
    return REASONING_DIMENSIONS.get(item.task)
