"""Rows of a run, read: what they are, how they are chosen, and what their columns say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..base.files import STAT, Seen
from ..base.item import Missing
from ..base.verdict import Verdict
from ..panel.calls import Said
from .codec import digest_from_bytes, from_text, to_text
from .packing import KINDS, MISSING, STATUSES

Names: TypeAlias = "str | Sequence[str] | None"
"""Of one, of several, or of all."""
_MISSING = {number: kind for kind, number in MISSING.items()}


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """One verdict of a run.

    Attributes:
        versions: Of the packages that it was made with; see `base.signature.versions`.
        said: What came back from the calls that it rests on, in the order of its `calls`.
    """

    item: str
    model: str
    dimension: str
    verdict: Verdict
    signature: str
    versions: str = ""
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEdit:
    """One edit of a run.

    Attributes:
        id: Its number in this run.
        digest: Of the output; None where it is missing.
        missing: Why it is; None where it is not.
        seen: Its file; None where there is none, or nobody kept it.
    """

    id: int
    item: str
    model: str
    digest: str | None
    missing: Missing | None
    seen: Seen | None = None


def where(
    *,
    model: Names = None,
    dimension: Names = None,
    item: Names = None,
    status: str | None = None,
    kind: str | None = None,
) -> tuple[str, list[object]]:
    """A condition on what is asked for; names of columns are written here, never data."""
    conditions: list[str] = []
    values: list[object] = []
    columns = {"edits.model": model, "verdicts.dimension": dimension, "edits.item": item}
    for column, names in columns.items():
        if names is not None:
            texts = [to_text(name) for name in ([names] if isinstance(names, str) else names)]
            places = ", ".join("?" * len(texts))
            among = f"(SELECT id FROM texts WHERE text IN ({places}))"  # noqa: S608
            conditions.append(f"{column} IN {among}")
            values += texts
    numbers = {
        "verdicts.status": None if status is None else STATUSES[status],
        "verdicts.kind": None if kind is None else KINDS[kind],
    }
    for column, number in numbers.items():
        if number is not None:
            conditions.append(f"{column} = ?")
            values.append(number)
    return f"WHERE {' AND '.join(conditions)}" if conditions else "", values


def seen_of(stored: bytes | None, digest: bytes | None) -> Seen | None:
    """The file of an output as it was read, from its columns; None where nobody kept it."""
    if stored is None:
        return None
    return Seen(stored[:STAT], digest_from_bytes(stored[STAT:] if digest is None else digest))


def digest_of(stored: bytes | str | None) -> str | None:
    """The digest of an output, from its column."""
    return None if stored is None else digest_from_bytes(stored)


def missing_of(kind: int | None, reason: str | bytes | None) -> Missing | None:
    """Why an output is missing, from its columns; None where it is not."""
    return None if kind is None else Missing(_MISSING[kind], from_text(reason or ""))
