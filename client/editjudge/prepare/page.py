"""The review page: the page of results, with what was made and a decision for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..base.images import load_mask
from ..benchmarks.dataset import ItemRef
from ..benchmarks.items import Line
from ..report.edits import Edits, Plain
from ..report.page import About, page_html, report_of
from ..report.pictures import PictureNames, data_uri, small, thumbnails
from .folder import REVIEW, Folder, Record, write
from .items import STATUSES, TO_REVIEW, DraftData, Entry, What

DECISIONS = "editjudge.prepare.1"
"""The format of a file of decisions, as the file names it."""
_SIDE = 360
_TITLES: Mapping[What, str] = {
    "instructions": "Instructions",
    "choice": "Multiple-choice questions",
    "facts": "Questions and answers",
    "masks": "Masks",
}
_GOOD_MASK = (
    "A mask is good when every pixel that a right edit has to change is inside it, and what must "
    "stay is outside. An item without a mask can be accepted as it is: it then has no dimension "
    "that needs one."
)
_GOOD_QUESTION = (
    "A question is good when its answer can be seen in a right result, is wrong for the source and "
    "for an edit that failed, and leaves no second answer open."
)
_HOW = (
    "Decisions stay in this browser; saving gives the file for editjudge review. Keys: ? "
    "lists them."
)


def write_page(folder: Folder, record: Record, entries: Mapping[str, Entry]) -> None:
    """Write the page of a folder whose items are written.

    What nobody must decide about (what items had before) is not on it.

    Raises:
        StoreError: it cannot be written.
    """
    data = DraftData(folder.items)
    shown = [ref for ref in data.items() if entries[ref.id].status in TO_REVIEW | {"failed"}]
    names, pictures = PictureNames(), dict[str, str]()

    def keep(name: str, webp: bytes) -> None:
        pictures[name] = data_uri(webp)

    index = _index(data, shown, names)
    for _ in thumbnails(names.files, keep, _SIDE):
        pass  # one that cannot be read stands as missing
    for ref in shown:
        if name := _mask_name(ref):
            keep(name, _mask(data.pictures(ref)["mask"][0], ref.data))
    good = _GOOD_MASK if record.what == "masks" else _GOOD_QUESTION
    made_by = [f"{role}: {identity}" for role, identity in record.made_by.items()]
    about = About(
        f"{_TITLES[record.what]}: accept or reject",
        introduction=[("", good), ("", _HOW), *(("", line) for line in made_by)],
        review={
            "review": DECISIONS,
            "what": record.what,
            "data_digest": record.data_digest,
            "items": [_item(folder, ref.data, entries[ref.id]) for ref in shown],
        },
    )
    report = {**report_of((), Edits(names), about), "models": [{"name": "", "run": 0}]}
    write(folder.path / REVIEW, page_html(report, index, pictures=pictures).encode())


def _index(data: DraftData, shown: Sequence[ItemRef], names: PictureNames) -> Plain:
    """The items as the page's index of edits, of which each has one without a result."""
    files = [data.pictures(ref) for ref in shown]
    lines: list[Line] = [ref.data for ref in shown]
    masks, count = [_mask_name(ref) for ref in shown], len(shown)
    return {
        "items": {
            "id": [line.id for line in lines],
            "run": [0] * count,
            "task": [line.task for line in lines],
            "instruction": [line.instruction for line in lines],
            "target_text": [line.target_text for line in lines],
            "sources": [[names.name(file) for file in of.get("source", ())] for of in files],
            "mask": masks,
            "target": [names.name(of.get("target", (None,))[0]) for of in files],
        },
        "item": list(range(count)),
        "model": [0] * count,
        "picture": masks,
        "missing": [None] * count,
        **{name: [] for name in ("values", "status", "kind")},
    }


def _mask_name(ref: ItemRef) -> str | None:
    return f"mask-{ref.index}" if ref.data.mask else None


def _mask(file: Path, line: Line) -> bytes:
    """What may change in white."""
    mask = load_mask(file)
    mask = mask.inverted() if line.mask_shows == "kept" else mask
    white = mask.selected.astype(np.uint8) * 255
    return small(np.repeat(white[..., None], 3, axis=2), _SIDE)


def _item(folder: Folder, line: Line, entry: Entry) -> Plain:
    """What is decided about.

    `seen` is the digest of what is shown; `status` is empty where something was made.
    """
    return {
        "seen": folder.seen(line),
        "decide": entry.status in TO_REVIEW,
        "status": "" if entry.status == "made" else f"{STATUSES[entry.status]}: {entry.reason}",
        "questions": [question._asdict() for question in entry.questions],
        "notes": entry.notes,
    }
