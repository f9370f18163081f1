"""Tracks, categories of prompts and dimensions (sections 3.1 and 3.2, appendices D and F)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from ...base.item import Item

Track: TypeAlias = Literal["se", "me"]
"""Single-image and multi-image editing."""

TITLES: Mapping[Track, str] = {"se": "Single-image editing", "me": "Multi-image editing"}

CATEGORIES: Mapping[Track, Mapping[str, str]] = {
    "se": {
        "object_manipulation": "Object Manipulation",
        "local_editing": "Local Editing",
        "hybrid_editing": "Hybrid Editing",
        "text_rendering": "Text Rendering",
        "world_knowledge_reasoning": "World Knowledge & Reasoning",
    },
    "me": {
        "basic_combination": "Basic Combination",
        "combination_content_editing": "Combination + Content Editing",
        "combination_text_rendering": "Combination + Text Rendering",
        "combination_editing_text": "Combination + Editing + Text",
        "combination_reasoning": "Combination + Reasoning",
    },
}
"""The categories of prompts, an item's `task`; 100 prompts each in the paper."""

TEXT, WORLD, ARTIFACTS = (
    "text_content_style_accuracy",
    "world_knowledge_reasoning",
    "editing_artifacts",
)
# In the order of tables 1 and 2.
DIMENSIONS: Mapping[Track, Mapping[str, str]] = {
    "se": {
        "action_state_change_accuracy": "Action/State Change",
        "aesthetic_quality": "Aesthetic Quality",
        "blending_naturalness": "Blending Naturalness",
        "composition_interaction": "Composition & Interaction",
        ARTIFACTS: "Editing Artifacts",
        "image_quality": "Image Quality",
        "instruction_following": "Instruction Following",
        "local_attribute_accuracy": "Local Attribute",
        "non_edited_region_fidelity": "Non-Edited Fidelity",
        "object_manipulation_accuracy": "Object Manipulation",
        "physical_plausibility": "Physical Plausibility",
        "spatial_accuracy": "Spatial Accuracy",
        "subject_identity_fidelity": "Subject Identity",
        TEXT: "Text Content & Style",
        WORLD: "World Knowledge",
    },
    "me": {
        "aesthetic_quality": "Aesthetic Quality",
        "blending_naturalness": "Blending Naturalness",
        "composition_interaction": "Composition & Interaction",
        "cross_source_transfer": "Cross-Source Attribute",
        "detail_fidelity": "Detail Fidelity",
        ARTIFACTS: "Editing Artifacts",
        "image_quality": "Image Quality",
        "instruction_following": "Instruction Following",
        "inter_subject_consistency": "Inter-Subject Consistency",
        "non_edited_element_fidelity": "Non-Edited Fidelity",
        "physical_plausibility": "Physical Plausibility",
        "spatial_accuracy": "Spatial Accuracy",
        "subject_consistency": "Subject Consistency",
        "subject_extraction_composition": "Subject Extraction",
        TEXT: "Text Content & Style",
        WORLD: "World Knowledge",
    },
}
"""Dimensions with their titles; of `me`, editing artifacts stand in appendix F only."""

SHARED = (
    "aesthetic_quality",
    "blending_naturalness",
    "composition_interaction",
    "image_quality",
    "instruction_following",
    "physical_plausibility",
    "spatial_accuracy",
    TEXT,
    WORLD,
)
"""The dimensions that both tables have, judged by the same method (section 4.5)."""

# Those that every prompt of the paper is judged on: all 500 of a track (tables 4 and 5).
_EVERY: Mapping[Track, frozenset[str]] = {
    "se": frozenset(
        {
            "aesthetic_quality",
            "blending_naturalness",
            ARTIFACTS,
            "image_quality",
            "instruction_following",
            "non_edited_region_fidelity",
            "physical_plausibility",
        }
    ),
    "me": frozenset(
        {
            "aesthetic_quality",
            "blending_naturalness",
            "composition_interaction",
            "detail_fidelity",
            ARTIFACTS,
            "image_quality",
            "instruction_following",
            "non_edited_element_fidelity",
            "physical_plausibility",
            "subject_consistency",
            "subject_extraction_composition",
        }
    ),
}
NEEDS = {TEXT: "target_text", WORLD: "hint"}
"""Dimensions without which an item's field is of no use, and that are nothing without it."""
ABOUT = {
    "text_rendering": TEXT,
    "combination_text_rendering": TEXT,
    "combination_editing_text": TEXT,
    "world_knowledge_reasoning": WORLD,
    "combination_reasoning": WORLD,
}
"""Categories that are about one of these dimensions."""

TRACKS: Mapping[str, Track] = {
    category: track for track, categories in CATEGORIES.items() for category in categories
}
"""The track of each category."""


def usual(track: Track, *, target_text: bool, hint: bool) -> tuple[str, ...]:
    """The dimensions of an item that names none: those of every prompt, and what it has text for.

    Args:
        target_text: Whether it says which text the result must show.
        hint: Whether it says what a right result shows.
    """
    has_text = {TEXT: target_text, WORLD: hint}
    return tuple(one for one in DIMENSIONS[track] if one in _EVERY[track] or has_text.get(one))


def not_asked(dimension: str, item: Item) -> str | None:
    """Why a dimension does not ask anything about an item; None where it does.

    Args:
        dimension: As `se.image_quality`.
    """
    track = TRACKS.get(item.task)
    asked = item.extra.get("dimensions")
    if track is None or asked is None:
        return "not an item of I2I-Bench"
    own, _, name = dimension.partition(".")
    if own != track:
        return f"{item.task} is {TITLES[track].lower()}"
    return None if name in asked else f"the item is not judged on {name}"
