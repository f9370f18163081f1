"""Applying what reviewers decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from ..base.errors import ConfigError, InputError
from ..base.images import show_path
from ..base.strict import Strict
from ..base.words import few
from ..benchmarks.items import Line
from ..benchmarks.texts import said
from .folder import ACCEPTED, REJECTED, Folder, Record, without, write_lines
from .items import TO_REVIEW, DraftData, Status, What

_NAMED = 5
"""How many items an error names."""
_Part: TypeAlias = Literal["untouched", "accept", "reject", "undecided"]


class Decision(BaseModel, frozen=True, extra="forbid"):
    """One decision.

    Attributes:
        id: Of the item.
        seen: Digest of what was decided about.
    """

    id: str
    seen: str
    decision: Literal["accept", "reject"]
    note: str = ""


class Decisions(BaseModel, frozen=True, extra="forbid"):
    """A file of decisions, as the page saves it.

    Attributes:
        review: What it is, and its format.
        what: Was decided about.
        data_digest: Of the data that it was made for.
    """

    review: Literal["editjudge.prepare.1"]
    what: What
    data_digest: str
    decisions: tuple[Decision, ...]


class Reviewed(Strict):
    """What came of decisions.

    Attributes:
        rejected: Items with what was noted.
        undecided: Items.
        untouched: How many nothing was made for.
    """

    accepted: int
    rejected: dict[str, str]
    undecided: tuple[str, ...]
    untouched: int
    accepted_data: Path
    rejected_data: Path


def apply(folder: Folder, file: Path) -> Reviewed:
    """Write the accepted items to `accepted.jsonl`, the rejected ones to `rejected.jsonl`.

    Rejected ones are without their questions or mask, so that they can be prepared again.

    Raises:
        ConfigError: the folder holds no preparation, or another process uses it.
        InputError: the decisions cannot be read, or are about something else.
        StoreError: nothing can be written.
    """
    # Before the lock, which would make a folder that is not there.
    record = folder.record()
    if record is None or not folder.items.is_file():
        raise ConfigError(f"{folder.path} holds no preparation", "give its --out folder")
    with folder.held():
        return _applied(folder, file, folder.record() or record)


def _applied(folder: Folder, file: Path, record: Record) -> Reviewed:
    decided = _read(file, record)
    lines = {ref.id: ref.data for ref in DraftData(folder.items).items()}
    _check(file, folder, record, decided, lines)
    parts: dict[_Part, list[Line]] = {"untouched": [], "accept": [], "reject": [], "undecided": []}
    accepted: list[Line] = []
    for line in lines.values():
        part = _part(record.statuses[line.id], decided.get(line.id))
        parts[part].append(line)
        if part in {"untouched", "accept"}:
            accepted.append(line)
    accepted_data, rejected_data = folder.path / ACCEPTED, folder.path / REJECTED
    write_lines(accepted_data, accepted)
    write_lines(rejected_data, _undone(parts["reject"], record))
    return Reviewed(
        accepted=len(parts["accept"]),
        rejected={line.id: decided[line.id].note for line in parts["reject"]},
        undecided=tuple(line.id for line in parts["undecided"]),
        untouched=len(parts["untouched"]),
        accepted_data=accepted_data,
        rejected_data=rejected_data,
    )


def _undone(lines: Iterable[Line], record: Record) -> Iterator[Line]:
    for line in lines:
        yield without(line, record.what, record.named.get(line.id, ()))


def _part(status: Status, decision: Decision | None) -> _Part:
    """Where a line belongs."""
    if status in {"had", "unsuited"}:
        return "untouched"
    return "undecided" if decision is None else decision.decision


def _read(file: Path, record: Record) -> dict[str, Decision]:
    name = show_path(file)
    try:
        read = Decisions.model_validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", "check the path") from error
    except ValidationError as error:
        raise InputError(
            name, f"no decisions: {said(error, Decisions)}", "give what the page saved"
        ) from error
    if (read.what, read.data_digest) != (record.what, record.data_digest):
        raise InputError(
            name,
            f"decisions about {read.what} for other data ({read.data_digest[:19]}…), not about"
            f" {record.what} for {record.data} ({record.data_digest[:19]}…)",
            "give what this folder's page saved",
        )
    twice = [name for name, n in Counter(d.id for d in read.decisions).items() if n > 1]
    if twice:
        raise InputError(name, f"two decisions about {few(twice, _NAMED)}")
    return {decision.id: decision for decision in read.decisions}


def _check(
    file: Path,
    folder: Folder,
    record: Record,
    decided: dict[str, Decision],
    lines: dict[str, Line],
) -> None:
    """Refuse decisions about what is not there, or not there any more."""
    others = [name for name in decided if record.statuses.get(name) not in TO_REVIEW]
    if others:
        raise InputError(
            show_path(file),
            f"decisions about items that have nothing to review: {few(others, _NAMED)}",
        )
    changed = [name for name, d in decided.items() if folder.seen(lines[name]) != d.seen]
    if changed:
        raise InputError(
            show_path(file),
            f"what was made for these items has changed since: {few(changed, _NAMED)}",
            "open the page again and decide about them anew",
        )
