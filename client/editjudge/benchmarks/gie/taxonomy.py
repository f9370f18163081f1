"""The nine edit types of GIE-Bench (section 3.1), as its official data calls them."""

from __future__ import annotations

from collections.abc import Mapping

from ...answers.json_object import plain

EDIT_TYPES: Mapping[str, str] = {
    "Add Object": "add_object",
    "Attribute Change": "attribute_change",
    "Color Change": "color_change",
    "Layout Modification": "layout_modification",
    "Object Replacement": "object_replacement",
    "Remove Object": "remove_object",
    "Scene Change": "scene_background_change",
    "Background Change": "scene_background_change",
    "Size Change": "size_change",
    "Textual Edit": "textual_edit",
}
"""By `edit_type` of a record; two of the ten labels are one type (table 5)."""

TITLES: Mapping[str, str] = {
    "add_object": "Add Object",
    "attribute_change": "Attribute Change",
    "color_change": "Color Change",
    "layout_modification": "Layout Modif.",
    "object_replacement": "Object Replace",
    "remove_object": "Remove Object",
    "scene_background_change": "Scene / Bkgd Change",
    "size_change": "Size Change",
    "textual_edit": "Textual Edit",
}
"""The types as table 2 heads its columns, in its order."""

_BY_NAME = {
    **{plain(label): one for label, one in EDIT_TYPES.items()},
    **{plain(name): name for name in TITLES},
    "sceneorbackgroundchange": "scene_background_change",
    "colourchange": "color_change",
    "textualchange": "textual_edit",
}


def edit_type(name: str) -> str:
    """The type that a task of one's own data names, whatever its case and spaces.

    Args:
        name: For example `Add Object`; one that is no type stays as it is.
    """
    return _BY_NAME.get(plain(name), name)
