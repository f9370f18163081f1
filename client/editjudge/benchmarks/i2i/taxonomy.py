"""Tracks, categories of prompts and dimensions, as `tables.toml` has them."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from ...base.item import Item, Need
from ...base.parse import package_tables

Track: TypeAlias = Literal["se", "me"]
"""Single-image and multi-image editing."""
TEXT, WORLD, ARTIFACTS = ("text_content_style_accuracy", "world_knowledge_reasoning", "editing_artifacts")
PROMPTS = 500
"""How many prompts the paper has of each track (section 3.1)."""
_FILE = package_tables(__package__, "tables.toml")
TABLES: Mapping[Track, Mapping[str, Any]] = {track: _FILE[track] for track in get_args(Track)}
METHODS: Mapping[str, Mapping[str, Any]] = _FILE["methods"]
ROWS: Mapping[Track, Mapping[str, Any]] = {t: TABLES[t]["dimensions"] for t in TABLES}
TITLES: Mapping[Track, str] = {track: table["title"] for track, table in TABLES.items()}
CATEGORIES: Mapping[Track, Mapping[str, str]] = {t: TABLES[t]["categories"] for t in TABLES}
"""The categories of prompts, an item's `task`, with their titles."""
TRACKS: Mapping[str, Track] = {name: track for track in CATEGORIES for name in CATEGORIES[track]}
"""The track of each category."""
DIMENSIONS: Mapping[Track, Mapping[str, str]] = {
    track: {name: row["title"] for name, row in rows.items()} for track, rows in ROWS.items()
}
"""Dimensions with their titles."""
SHARED_DIMENSIONS = tuple(name for name in ROWS["se"] if name in ROWS["me"] and name != ARTIFACTS)
"""The dimensions that both tables have, judged by the same method (section 4.5)."""
NEEDS: Mapping[str, Need] = {TEXT: "target_text", WORLD: "hint"}
"""The item's field that each of these dimensions needs."""
ABOUT: Mapping[str, str] = _FILE["about"]
"""The categories that test one of these dimensions."""


def usual(track: Track, *, target_text: bool, hint: bool) -> tuple[str, ...]:
    """Return the dimensions of an item that names none: the common ones, and those it has text for.

    Editing artifacts of `me` are among them, though only a switch judges them.

    Args:
        target_text: Whether it says which text the result must show.
        hint: Whether it says what a right result shows.
    """
    has_text = {TEXT: target_text, WORLD: hint}
    return tuple(
        name
        for name, row in ROWS[track].items()
        if row["prompts"] == PROMPTS or name == ARTIFACTS or has_text.get(name)
    )


def not_asked(dimension: str, item: Item) -> str | None:
    """Return why a dimension does not apply to an item; None if it does.

    Args:
        dimension: As `se.image_quality`.
    """
    track = TRACKS.get(item.task)
    dimension_names = item.extra.get("dimensions")
    if track is None or dimension_names is None:
        return "not an item of I2I-Bench"
    own, _, name = dimension.partition(".")
    if own != track:
        return f"{item.task} is {TITLES[track].lower()}"
    return None if name in dimension_names else f"the item is not judged on {name}"
