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
PROMPTS, OF_A_CATEGORY = 500, 100
"""How many prompts the paper has of each track, and of each category (section 3.1)."""
# In the order of tables 1 and 2: the title, and how many prompts the paper judges on it (tables 4
# and 5). Of `me`, editing artifacts stand in appendix F only.
_DIMENSIONS: Mapping[Track, Mapping[str, tuple[str, int]]] = {
    "se": {
        "action_state_change_accuracy": ("Action/State Change", 86),
        "aesthetic_quality": ("Aesthetic Quality", PROMPTS),
        "blending_naturalness": ("Blending Naturalness", PROMPTS),
        "composition_interaction": ("Composition & Interaction", 350),
        ARTIFACTS: ("Editing Artifacts", PROMPTS),
        "image_quality": ("Image Quality", PROMPTS),
        "instruction_following": ("Instruction Following", PROMPTS),
        "local_attribute_accuracy": ("Local Attribute", 282),
        "non_edited_region_fidelity": ("Non-Edited Fidelity", PROMPTS),
        "object_manipulation_accuracy": ("Object Manipulation", 332),
        "physical_plausibility": ("Physical Plausibility", PROMPTS),
        "spatial_accuracy": ("Spatial Accuracy", 275),
        "subject_identity_fidelity": ("Subject Identity", 233),
        TEXT: ("Text Content & Style", 100),
        WORLD: ("World Knowledge", 100),
    },
    "me": {
        "aesthetic_quality": ("Aesthetic Quality", PROMPTS),
        "blending_naturalness": ("Blending Naturalness", PROMPTS),
        "composition_interaction": ("Composition & Interaction", PROMPTS),
        "cross_source_transfer": ("Cross-Source Attribute", 126),
        "detail_fidelity": ("Detail Fidelity", PROMPTS),
        ARTIFACTS: ("Editing Artifacts", 0),
        "image_quality": ("Image Quality", PROMPTS),
        "instruction_following": ("Instruction Following", PROMPTS),
        "inter_subject_consistency": ("Inter-Subject Consistency", 412),
        "non_edited_element_fidelity": ("Non-Edited Fidelity", PROMPTS),
        "physical_plausibility": ("Physical Plausibility", PROMPTS),
        "spatial_accuracy": ("Spatial Accuracy", 476),
        "subject_consistency": ("Subject Consistency", PROMPTS),
        "subject_extraction_composition": ("Subject Extraction", PROMPTS),
        TEXT: ("Text Content & Style", 200),
        WORLD: ("World Knowledge", 100),
    },
}
DIMENSIONS: Mapping[Track, Mapping[str, str]] = {
    track: {name: title for name, (title, _) in of.items()} for track, of in _DIMENSIONS.items()
}
"""Dimensions with their titles."""
QUOTAS: Mapping[Track, Mapping[str, int]] = {
    track: {name: quota for name, (_, quota) in of.items() if quota}
    for track, of in _DIMENSIONS.items()
}
"""How many prompts the paper judges on each dimension."""

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

LOSABLE: Mapping[Track, tuple[str, ...]] = {
    "se": ("subject_identity_fidelity",),
    "me": ("subject_consistency", "detail_fidelity", "non_edited_element_fidelity"),
}
"""Dimensions of subjects and details that are looked for in source and edit, and may be lost."""
# Those that every prompt of the paper is judged on; editing artifacts of `me` by a switch alone.
_EVERY: Mapping[Track, frozenset[str]] = {
    track: frozenset(name for name, count in quotas.items() if count == PROMPTS) | {ARTIFACTS}
    for track, quotas in QUOTAS.items()
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
