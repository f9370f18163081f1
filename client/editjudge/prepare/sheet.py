"""The review page: one self-contained file on which people accept and reject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..signature import package_version
from .draft import DraftData
from .entry import STATUSES, TO_REVIEW, Entry
from .folder import REVIEW, Folder, Record, write

DECISIONS = "editjudge.prepare.1"
"""What a file of decisions says that it is."""
_TITLES = {
    "choice": "Multiple-choice questions",
    "facts": "Questions and answers",
    "masks": "Masks",
}
_SHOWN = (*sorted(TO_REVIEW), "failed")


def write_sheet(folder: Folder, record: Record, entries: Mapping[str, Entry]) -> None:
    """Write the page of a folder whose items are written.

    What nobody must decide about (what items had before) is not on it.

    Raises:
        StoreError: it cannot be written.
    """
    items = [
        _item(folder, ref.data, entries[ref.id])
        for ref in DraftData(folder.items).items()
        if entries[ref.id].status in _SHOWN
    ]
    environment = Environment(
        loader=PackageLoader("editjudge.prepare"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("review.html.j2").render(
        title=_TITLES[record.what],
        record=record,
        items=items,
        decisions=DECISIONS,
        version=package_version("editjudge"),
    )
    write(folder.path / REVIEW, page.encode())


def _item(folder: Folder, line: Any, entry: Entry) -> dict[str, Any]:
    return {
        "id": line.id,
        "task": line.task,
        "instruction": line.instruction,
        "seen": folder.seen(line),
        "decide": entry.status in TO_REVIEW,
        "status": "" if entry.status == "made" else STATUSES[entry.status],
        "reason": entry.reason,
        "questions": entry.questions,
        "told": entry.told,
        "pictures": entry.pictures,
    }
