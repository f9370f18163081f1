"""The review page: one self-contained file on which people accept and reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..answers import ChoiceQuestion, QuestionAnswer
from ..base.signature import package_version
from ..benchmarks.items import Line
from ..report.page import page_template
from .draft import DraftData
from .entry import STATUSES, TO_REVIEW, Entry
from .folder import REVIEW, Folder, Record, write

DECISIONS = "editjudge.prepare.1"
"""The format of a file of decisions, as the file names it."""
_TITLES = {
    "instructions": "Instructions",
    "choice": "Multiple-choice questions",
    "facts": "Questions and answers",
    "masks": "Masks",
}
_SHOWN = (*sorted(TO_REVIEW), "failed")


@dataclass(frozen=True)
class _Card:
    """An item on the page.

    Attributes:
        seen: Digest of what is shown.
        decide: Whether somebody must accept or reject it.
        status: In words; "" where something was made.
    """

    id: str
    task: str
    instruction: str
    seen: str
    decide: bool
    status: str
    reason: str
    questions: tuple[ChoiceQuestion | QuestionAnswer, ...]
    notes: tuple[tuple[str, str], ...]
    pictures: tuple[tuple[str, str], ...]


def write_sheet(folder: Folder, record: Record, entries: Mapping[str, Entry]) -> None:
    """Write the page of a folder whose items are written.

    What nobody must decide about (what items had before) is not on it.

    Raises:
        StoreError: it cannot be written.
    """
    items = [
        _card(folder, ref.data, entries[ref.id])
        for ref in DraftData(folder.items).items()
        if entries[ref.id].status in _SHOWN
    ]
    page = page_template("editjudge.prepare", "review.html.j2").render(
        title=_TITLES[record.what],
        record=record,
        items=items,
        decisions=DECISIONS,
        version=package_version("editjudge"),
    )
    write(folder.path / REVIEW, page.encode())


def _card(folder: Folder, line: Line, entry: Entry) -> _Card:
    return _Card(
        id=line.id,
        task=line.task,
        instruction=line.instruction,
        seen=folder.seen(line),
        decide=entry.status in TO_REVIEW,
        status="" if entry.status == "made" else STATUSES[entry.status],
        reason=entry.reason,
        questions=entry.questions,
        notes=entry.notes,
        pictures=entry.pictures,
    )
