"""Applying what reviewers decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..benchmarks.items import Line, said
from ..errors import ConfigError, InputError
from ..images import show_path
from .draft import DraftData
from .entry import TO_REVIEW, What
from .folder import ACCEPTED, REJECTED, Folder, Record, without, write_lines

_NAMED = 5
"""How many items an error names."""


class Decision(BaseModel):
    """One decision.

    Attributes:
        id: Of the item.
        seen: Digest of what was decided about.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    seen: str
    decision: Literal["accept", "reject"]
    note: str = ""


class Decisions(BaseModel):
    """A file of decisions, as the page saves it.

    Attributes:
        review: What it is, and its format.
        what: Was decided about.
        data_digest: Of the data that it was made for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    review: Literal["editjudge.prepare.1"]
    what: What
    data_digest: str
    decisions: tuple[Decision, ...]


@dataclass
class Applied:
    """What came of decisions.

    Attributes:
        accepted: Items that go on with what was made for them.
        untouched: Items that go on as they were: they had it before, or have no use for it.
        rejected: Ids with the reviewers' notes.
        undecided: Ids of the others; they are in neither file.
    """

    accepted: int = 0
    untouched: int = 0
    rejected: dict[str, str] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)


def apply(folder: Folder, file: Path) -> Applied:
    """Write the accepted items to `accepted.jsonl`, the rejected ones to `rejected.jsonl`.

    Rejected ones are without their questions or mask, so that they can be prepared again.

    Raises:
        ConfigError: the folder holds no preparation.
        InputError: the decisions cannot be read, or are about something else.
        StoreError: nothing can be written.
    """
    record = folder.record()
    if record is None or not folder.items.is_file():
        raise ConfigError(f"{folder.path} holds no preparation", "give its --out folder")
    decided = _read(file, record)
    lines = [ref.data for ref in DraftData(folder.items).items()]
    _check(file, folder, record, decided, {line.id: line for line in lines})
    applied = Applied()
    kept: list[dict[str, Any]] = []
    sent_back: list[dict[str, Any]] = []
    for line in lines:
        decision = decided.get(line.id)
        if record.statuses[line.id] in {"had", "unsuited"}:
            applied.untouched += 1
            kept.append(line.model_dump(mode="json", exclude_unset=True))
        elif decision is None:
            applied.undecided.append(line.id)
        elif decision.decision == "accept":
            applied.accepted += 1
            kept.append(line.model_dump(mode="json", exclude_unset=True))
        else:
            applied.rejected[line.id] = decision.note
            sent_back.append(without(line, record.what))
    write_lines(folder.path / ACCEPTED, kept)
    write_lines(folder.path / REJECTED, sent_back)
    return applied


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
    twice = [one for one, n in Counter(d.id for d in read.decisions).items() if n > 1]
    if twice:
        raise InputError(name, f"two decisions about {_few(twice)}")
    return {one.id: one for one in read.decisions}


def _check(
    file: Path,
    folder: Folder,
    record: Record,
    decided: dict[str, Decision],
    lines: dict[str, Line],
) -> None:
    """Refuse decisions about what is not there, or not there any more."""
    others = [one for one in decided if record.statuses.get(one) not in TO_REVIEW]
    if others:
        raise InputError(
            show_path(file), f"decisions about items that have nothing to review: {_few(others)}"
        )
    changed = [name for name, one in decided.items() if folder.seen(lines[name]) != one.seen]
    if changed:
        raise InputError(
            show_path(file),
            f"what was made for these items has changed since: {_few(changed)}",
            "open the page again and decide about them anew",
        )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
