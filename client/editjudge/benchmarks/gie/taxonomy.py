"""The nine edit types of GIE-Bench, as `tables.toml` has them."""

from collections.abc import Mapping
from typing import Any

from ...answers.json_object import normalise_key
from ...base.parse import package_tables

TABLES: Mapping[str, Any] = package_tables(__package__, "tables.toml")
_TYPES: Mapping[str, Any] = TABLES["types"]
TITLES: Mapping[str, str] = {name: row["title"] for name, row in _TYPES.items()}
"""The types as table 2 heads its columns, in its order."""
EDIT_TYPES: Mapping[str, str] = {label: name for name, row in _TYPES.items() for label in row["labels"]}
"""By `edit_type` of a record."""
CONTENTS: Mapping[str, Any] = TABLES["contents"]
"""What pictures show: kinds of categories, with `title` and `labels`."""
_BY_CONTENT = {normalise_key(label): name for name, row in CONTENTS.items() for label in row["labels"]}
_BY_NAME = {
    normalise_key(alias): name for name, row in _TYPES.items() for alias in (name, *row["labels"], *row.get("also", ()))
}


def content(name: object) -> str:
    """The kind of content that a category is of, whatever its case and spaces; "" for none."""
    return _BY_CONTENT.get(normalise_key(str(name)), "")


def edit_type(name: str) -> str:
    """The type that a task of one's own data names, whatever its case and spaces.

    Args:
        name: For example `Add Object`; one that is no type stays as it is.
    """
    return _BY_NAME.get(normalise_key(name), name)
