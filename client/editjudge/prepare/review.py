"""Reviews: writes the page on which people accept or reject items, and applies their decisions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ValidationError

from ..base.errors import ConfigError, InputError
from ..base.images import format_path, load_mask
from ..base.output_files import write_output
from ..base.parse import package_tables
from ..base.strict import Strict
from ..base.text import group_by_key, shorten_list
from ..benchmarks.dataset import ItemRef
from ..benchmarks.items import Line
from ..benchmarks.texts import describe_error
from ..report.edits import Edits, JsonObject
from ..report.page import PageOptions, build_report, render_page
from ..report.pictures import PictureNames, encode_thumbnail, make_thumbnails, to_data_uri
from .folder import ACCEPT_FILE, REJECT_FILE, REVIEW, Folder, Record, strip_made, write_lines
from .items import CANDIDATE, ORIGIN, STATUSES, TO_REVIEW, WHOLE, DraftData, Entry, What, find_type

DECISIONS = "editjudge.prepare.1"
"""The format of a file of decisions, as the file names it."""
_SIDE = 360
_MOST_CANDIDATES = 3
"""How many of the instructions for an item are kept (Co-EditBench, section 3.1)."""
_MAX_IDS = 5
"""How many items an error names."""
_WORDS = package_tables(__package__, "review.toml")
_BEST_MARK: int = _WORDS["marks"]["best"]


def write_page(folder: Folder, record: Record, entries: Mapping[str, Entry]) -> None:
    """Write the page of a folder whose items are written.

    Items that need no decision (because they had the field before) are not on it.

    Raises:
        StoreError: it cannot be written.
    """
    data = DraftData(folder.items)
    listed_refs = [ref for ref in data.items() if entries[ref.id].status in TO_REVIEW | {"failed"}]
    names, pictures = PictureNames(), dict[str, str]()

    def keep(name: str, webp: bytes) -> None:
        pictures[name] = to_data_uri(webp)

    index = _index(data, listed_refs, names)
    for _ in make_thumbnails(names.files, keep, _SIDE):
        pass  # one that cannot be read stands as missing
    for ref in listed_refs:
        if name := _mask_name(ref):
            keep(name, _mask(data.image_paths(ref)["mask"][0], ref.data))
    good = _WORDS["good"].get(record.what, _WORDS["good"]["others"])
    made_by = [f"{role}: {identity}" for role, identity in record.made_by.items()]
    about = PageOptions(
        f"{_WORDS['titles'][record.what]}: accept or reject",
        introduction=[("", good), ("", _WORDS["how"]), *(("", line) for line in made_by)],
        review={
            "review": DECISIONS,
            "what": record.what,
            "data_digest": record.data_digest,
            "best_mark": _BEST_MARK,
            "items": [_item(folder, ref.data, entries[ref.id]) for ref in listed_refs],
        },
    )
    report = {**build_report((), Edits(names, lambda *_: None), about), "models": [{"name": "", "run": 0}]}
    write_output(folder.path / REVIEW, render_page(report, index, pictures=pictures).encode())


def _index(data: DraftData, listed_refs: Sequence[ItemRef], names: PictureNames) -> JsonObject:
    """Write the items as the page's index of edits; each item has one edit without a result."""
    files = [data.image_paths(ref) for ref in listed_refs]
    lines: list[Line] = [ref.data for ref in listed_refs]
    masks, count = [_mask_name(ref) for ref in listed_refs], len(listed_refs)
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
    """Draw what may change in white, as a thumbnail."""
    mask = load_mask(file)
    mask = mask.invert() if line.mask_shows == "kept" else mask
    white = mask.region.astype(np.uint8) * 255
    return encode_thumbnail(np.repeat(white[..., None], 3, axis=2), _SIDE)


def _item(folder: Folder, line: Line, entry: Entry) -> JsonObject:
    """Describe one item for the page.

    `seen` is the digest of what is shown; `status` is empty where something was made.
    """
    return {
        "seen": folder.review_digest(line),
        "decide": entry.status in TO_REVIEW,
        "status": "" if entry.status == "made" else f"{STATUSES[entry.status]}: {entry.reason}",
        "questions": [question._asdict() for question in entry.questions],
        "notes": entry.notes,
        "marks": _WORDS["marks"]["names"] if line.target else [],
    }


class Decision(BaseModel, frozen=True, extra="forbid"):
    """The decision about one item.

    Attributes:
        id: The id of the item.
        seen: Digest of what the reviewer saw, see `Folder.review_digest`.
        marks: What the reviewer gave an item with a target, from 1, by name.
    """

    id: str
    seen: str
    decision: Literal["accept", "reject"]
    note: str = ""
    marks: Mapping[str, int] = {}


class Decisions(BaseModel, frozen=True, extra="forbid"):
    """A file of decisions, as the page saves it.

    Attributes:
        review: The name of the format.
        what: What was reviewed: instructions, questions or masks.
        data_digest: Digest of the data file of the preparation.
    """

    review: Literal["editjudge.prepare.1"]
    what: What
    data_digest: str
    decisions: tuple[Decision, ...]


class ReviewResult(Strict):
    """The result of applying decisions.

    Attributes:
        accepted: How many items were accepted.
        rejected: The reviewer's notes on rejected items, by id.
        undecided: Ids of the items without a decision.
        disputes: Ids of those of them on which reviewers differ.
        untouched: How many items needed nothing.
        accepted_data: The file of accepted and untouched items.
        rejected_data: The file of rejected items.
    """

    accepted: int
    rejected: dict[str, str]
    undecided: tuple[str, ...]
    disputes: tuple[str, ...]
    untouched: int
    accepted_data: Path
    rejected_data: Path


def apply_decisions(folder: Folder, *files: Path, arbiter: Path | None = None) -> ReviewResult:
    """Write the accepted items to `accepted.jsonl`, the rejected ones to `rejected.jsonl`.

    Rejected items are written without the generated fields, so that they can be prepared again.

    Args:
        files: The decisions of each reviewer. An item on which they differ is undecided.
        arbiter: The decisions of whoever decides about these.

    Raises:
        ConfigError: the folder holds no preparation, or another process uses it.
        InputError: the decisions cannot be read, or are about something else.
        StoreError: nothing can be written.
    """
    # Before the lock, which would make a folder that is not there.
    record = folder.record()
    if record is None or not folder.items.is_file():
        raise ConfigError(f"{folder.path} holds no preparation", "give its --out folder")
    with folder.lock():
        return _apply(folder, files, arbiter, folder.record() or record)


def _apply(folder: Folder, files: Sequence[Path], arbiter: Path | None, record: Record) -> ReviewResult:
    lines = {ref.id: ref.data for ref in DraftData(folder.items).items()}
    by_reviewer = [_read(file, folder, record, lines) for file in files]
    last_word = _read(arbiter, folder, record, lines) if arbiter else {}
    decisions, disputes = dict[str, Decision](), list[str]()
    for name, of in group_by_key(pair for each in by_reviewer for pair in each.items()).items():
        is_disputed = len({each.decision for each in of}) > 1
        if one := last_word.get(name) if is_disputed else max(of, key=lambda each: bool(each.note)):
            decisions[name] = one
        else:
            disputes.append(name)
    _check_candidates(", ".join(map(format_path, files)), decisions, lines)
    untouched_ids = [name for name in lines if record.statuses[name] in {"had", "unsuited"}]
    accepted_ids = [name for name, of in decisions.items() if of.decision == "accept"]
    bad_ids = [name for name in lines if name in decisions and name not in accepted_ids]
    good_ids = {*untouched_ids, *accepted_ids}
    accepted_data, rejected_data = folder.path / ACCEPT_FILE, folder.path / REJECT_FILE
    write_lines(accepted_data, (line for name, line in lines.items() if name in good_ids))
    undone = (strip_made(lines[name], record.what) for name in bad_ids)
    write_lines(rejected_data, undone)
    return ReviewResult(
        accepted=len(accepted_ids),
        rejected={name: decisions[name].note for name in bad_ids},
        undecided=tuple(name for name in lines if name not in good_ids and name not in decisions),
        disputes=tuple(disputes),
        untouched=len(untouched_ids),
        accepted_data=accepted_data,
        rejected_data=rejected_data,
    )


def _read(file: Path, folder: Folder, record: Record, lines: Mapping[str, Line]) -> dict[str, Decision]:
    """Read the decisions of a reviewer; those about what has nothing to review, or has changed since, are refused."""
    name = format_path(file)
    try:
        read = Decisions.model_validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", "check the path") from error
    except ValidationError as error:
        raise InputError(
            name, f"is no file of decisions: {describe_error(error, Decisions)}", "give the file that the page saved"
        ) from error
    if (read.what, read.data_digest) != (record.what, record.data_digest):
        raise InputError(
            name,
            f"decisions about {read.what} for other data ({read.data_digest[:19]}…), not about"
            f" {record.what} for {record.data} ({record.data_digest[:19]}…)",
            "give the file that this folder's page saved",
        )
    twice = [name for name, n in Counter(d.id for d in read.decisions).items() if n > 1]
    if twice:
        raise InputError(name, f"has several decisions about {shorten_list(twice, _MAX_IDS)}")
    if others := [d.id for d in read.decisions if record.statuses.get(d.id) not in TO_REVIEW]:
        raise InputError(name, f"decides about items that have nothing to review: {shorten_list(others, _MAX_IDS)}")
    if stale := [d.id for d in read.decisions if folder.review_digest(lines[d.id]) != d.seen]:
        what = f"items have changed since they were reviewed: {shorten_list(stale, _MAX_IDS)}"
        raise InputError(name, what, "reload the page and review them again")
    poor = [d.id for d in read.decisions if d.decision == "accept" and any(m < _BEST_MARK for m in d.marks.values())]
    if poor:
        raise InputError(name, f"accepts items without full marks: {shorten_list(poor, _MAX_IDS)}", "reject them")
    return {decision.id: decision for decision in read.decisions}


def _check_candidates(place: str, decisions: Mapping[str, Decision], lines: Mapping[str, Line]) -> None:
    """Refuse too many instructions for one item, and turns after one that is not accepted."""
    extras = [lines[name].extra or {} for name, of in decisions.items() if of.decision == "accept"]
    for item, of in group_by_key((extra[ORIGIN], extra) for extra in extras if ORIGIN in extra).items():
        row = find_type(of[0].get(WHOLE, ""))
        if row.get("turns") and max(extra[CANDIDATE] for extra in of) > len(of):
            raise InputError(place, f"accepts a turn of {item} after one that is not accepted", "reject it too")
        if "parts" not in row and len(of) > _MOST_CANDIDATES:
            what = f"accepts more than {_MOST_CANDIDATES} instructions of one item: {item}"
            raise InputError(place, what, "reject the worse ones")
