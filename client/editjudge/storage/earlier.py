"""Verdicts in whose place others came: kept, shown when asked for, and never counted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..base.errors import StoreError
from ..base.verdict import Verdict
from .codec import digest_from_bytes, pack, to_text, unpack
from .database import COPY, Database
from .ledger import said
from .packing import STATUSES, Packed, unpacked
from .rows import StoredVerdict
from .tables import EARLIER

Why: TypeAlias = Literal["output", "item", "signature", "again"]
WHY: Mapping[Why, int] = {"output": 1, "signature": 2, "again": 3, "item": 4}  # in files: they stay
_WHY = {number: why for why, number in WHY.items()}
_ROW = ("dimension", "status", "signature", "value", "kind", "versions", "detail")


@dataclass(frozen=True, slots=True)
class EarlierVerdict:
    """A verdict in whose place another came.

    Attributes:
        verdict: With what came back from the calls that it rests on.
        output: Digest of the output that it is about.
        why: `output`: another one was there; `item`: it was another one; `signature`: what the
            number depends on changed; `again`: it was judged again, and said something else or
            nothing yet.
        replaced: Seconds since the epoch.
    """

    verdict: StoredVerdict
    output: str | None
    why: Why
    replaced: float


def keep_earlier(
    database: Database,
    edit: int,
    why: Why | None = None,
    successors: Mapping[int, tuple[int, Packed]] | None = None,
) -> None:
    """Keep verdicts of an edit that are about to go.

    One that failed says nothing that is worth keeping, and neither does one whose successor says
    the same by the same signature.

    Args:
        why: None tells it by the successor.
        successors: By dimension the signature and the row of each verdict to come; None where all
            of the edit's go without.
    """
    rows = database.each(
        f"SELECT {', '.join(_ROW)} FROM verdicts WHERE edit = ? AND status != ?",  # noqa: S608
        edit,
        STATUSES["failed"],
    )
    for values in list(rows):
        row = dict(zip(_ROW, values, strict=True))
        reason = why or "again"
        if successors is not None:
            if row["dimension"] not in successors:
                continue
            signature, later = successors[row["dimension"]]
            reason = why or ("again" if signature == row["signature"] else "signature")
            if reason == "again" and _says(row) == (later.status, later.value, later.kind):
                continue
        _put(database, edit, row, reason)


def _says(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["status"], row["value"], row["kind"]


def _put(database: Database, edit: int, row: Mapping[str, Any], why: Why) -> None:
    calls = database.each(
        "SELECT call FROM verdict_calls WHERE edit = ? AND dimension = ? ORDER BY position",
        edit,
        row["dimension"],
    )
    numbers = [number for (number,) in calls]
    (output,) = database.one("SELECT digest FROM edits WHERE id = ?", edit) or (None,)
    database.put(
        EARLIER,
        edit=edit,
        **row,
        output=output,
        why=WHY[why],
        replaced=time.time(),
        calls=pack(numbers) if numbers else None,
    )


def copy_earlier(
    source: Database, at: int, target: Database, edit: int, calls: Mapping[int, int]
) -> None:
    """Copy the earlier verdicts of an edit into another file.

    Args:
        at: Its number in the source.
        edit: Its number in the target.
        calls: By number of a call in the source, its number in the target.
    """
    names = [name for name in (*EARLIER.columns, *EARLIER.long) if name not in {"id", "edit"}]
    rows = source.each(
        f"SELECT {', '.join(names)} FROM earlier WHERE edit = ? ORDER BY id",  # noqa: S608
        at,
    )
    for values in list(rows):
        row = dict(zip(names, values, strict=True))
        for name in ("dimension", "signature", "versions"):
            row[name] = row[name] and target.intern(source.text(row[name]))
        if row["calls"] is not None:
            row["calls"] = pack([calls[number] for number in unpack(row["calls"])])
        target.put(EARLIER, edit=edit, **row)


def earlier_verdicts(
    database: Database, model: str | None = None, item: str | None = None
) -> Iterator[EarlierVerdict]:
    """Earlier verdicts in the order in which others came in their place.

    Args:
        model: Only of this model under test.
        item: Only this item's.

    Raises:
        StoreError: one cannot be read.
    """
    named = "(SELECT id FROM texts WHERE text = ?)"
    asked = {"edits.model": model, "edits.item": item}
    conditions = [f"{name} = {named}" for name, value in asked.items() if value is not None]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = database.each(
        "SELECT edits.item, edits.model, earlier.dimension, earlier.signature,"  # noqa: S608
        " earlier.versions, earlier.calls, earlier.output, earlier.why, earlier.replaced,"
        " earlier.status, earlier.value, earlier.kind, earlier.detail"
        f" FROM earlier JOIN edits ON edits.id = earlier.edit {where} ORDER BY earlier.id",
        *(to_text(value) for value in asked.values() if value is not None),
    )
    for row in rows:
        yield _earlier(database, row)


def _earlier(database: Database, row: tuple[Any, ...]) -> EarlierVerdict:
    text = database.text
    item, model, on, signature, versions, calls, output, why, replaced, *packed = row
    try:
        numbers = unpack(calls) if calls else []
        replies = tuple(said(database, number) for number in numbers)
        verdict: Verdict = unpacked(Packed(*packed), tuple(one.call for one in replies))
    except ValueError as error:
        raise StoreError(
            f"{database.path}: an earlier verdict on {text(item)}, {text(model)}, {text(on)}"
            f" cannot be read: {error}",
            COPY,
        ) from error
    made_with = text(versions) if versions else ""
    return EarlierVerdict(
        StoredVerdict(
            text(item), text(model), text(on), verdict, text(signature), made_with, replies
        ),
        None if output is None else digest_from_bytes(output),
        _WHY[why],
        replaced,
    )
