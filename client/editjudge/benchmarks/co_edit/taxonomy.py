"""Types of edits, and where in the images their subject and their background are."""

from collections.abc import Mapping
from typing import Any

from ...base.item import Item
from ...base.parse import package_tables

TABLES: Mapping[str, Any] = package_tables(__package__, "tables.toml")
EDIT_TYPES: Mapping[str, str] = TABLES["types"]
"""The 16 types with their titles (table 7)."""

IN_CONTEXT = "in_context"
"""An edit without a clear boundary, such as a subject put into a new scene (appendix E.2)."""

TYPES = (*EDIT_TYPES, IN_CONTEXT)

# The paper has masks for all local edits (section 3.1) and does not list which these are. Of
# these three the whole image is what is edited.
GLOBAL = frozenset({"perspective_editing", "style_editing", "tone_editing"})
"""Types whose edits are of the whole image, unless the item has a mask."""
LOCAL = frozenset(EDIT_TYPES) - GLOBAL
"""Types whose edits need a mask."""

AROUND = frozenset({"background_editing", "subject_extract"})
"""Types that change what is around the object of the mask: it is what is kept."""

MUST_SAY = AROUND | {"subject_customization"}
"""Types whose items must say what their mask shows: read the wrong way round, what is kept would
be what the instruction replaces."""

ABOUT_A_SUBJECT = frozenset({"subject_customization", "portrait_editing"})
"""Types whose subject must stay who it is, unless the item says otherwise: those that the paper
names (section 3.3 and table 3)."""

SUBJECT_REGION = "subject_region"
"""Key of `Item.extra`: `inside` or `outside` the mask, or `whole`; absent without a subject."""


def of_co_edit(item: Item) -> str | None:
    """Why an item is none of Co-EditBench, or None."""
    return None if item.task in TYPES else "not a type of Co-EditBench"


def keeps_a_region(item: Item) -> str | None:
    """Why nothing of the source is to be kept as it is, or None (appendix E.2).

    Of an edit of the whole image, a mask that selects all of it says what none says; of a local
    one it is a mistake.
    """
    if item.task == IN_CONTEXT:
        return "an in-context edit has no boundary, so no region is kept"
    if "mask" in item.flaws:
        return of_co_edit(item)
    if item.mask is None:
        return of_co_edit(item) or "needs a mask, without one the whole image is edited"
    if item.task in GLOBAL and item.mask.region.all():
        return "the mask selects the whole image, so no region is kept"
    return of_co_edit(item) or _one_source(item)


def keeps_a_subject(item: Item) -> str | None:
    """Why no subject is to stay who it is, or None (appendix B.3)."""
    if SUBJECT_REGION not in item.extra:
        return of_co_edit(item) or "has no subject whose identity is to be kept"
    return of_co_edit(item) or _one_source(item)


def _one_source(item: Item) -> str | None:
    return None if item.source or "source" in item.flaws else "needs exactly one source image"
