"""Verdicts as rows: small numbers, and evidence that does not repeat the replies it rests on.

Evidence says which calls it rests on by their keys, and repeats much of what they returned: the
reply, its reasoning, probabilities, tokens. It is deflated with these replies as text already
said, so all this takes a few bytes and still comes back to the letter, whatever its form.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias, get_args

from pydantic import TypeAdapter

from ..verdict import Scored, Unscored, UnscoredKind, Verdict
from .codec import digest_to_bytes, dumps, pack, unpack
from .database import Database
from .ledger import said_by

# Numbers that are in files: they stay.
STATUSES = {"scored": 1, "unscored": 2, "failed": 3, "not_applicable": 4}
KINDS = {"abstained": 1, "unparsable": 2, "refused": 3, "degenerate": 4}
_IMPUTED = 1  # the kind of a scored verdict that a rule put in

_STATUS = {number: status for status, number in STATUSES.items()}
_KIND = {number: kind for kind, number in KINDS.items()}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)

if set(KINDS) != set(get_args(UnscoredKind)):
    raise TypeError("every kind of unscored verdict needs a number in stored runs")


class Packed(NamedTuple):
    """A verdict as columns of its row.

    Attributes:
        kind: Of an unscored one; whether a scored one is imputed.
        detail: All that has no column, deflated; None where that is nothing.
        calls: Numbers of the calls it rests on, joined by commas; None where it names none.
    """

    status: int
    value: float | None
    kind: int | None
    detail: bytes | None
    calls: str | None


Done: TypeAlias = dict[str, tuple[bytes, str | None]]


def packed(database: Database, verdict: Verdict, done: Done) -> Packed:
    """A verdict as a row.

    Args:
        done: What was packed before within the same transaction: the fields of one scorer have
            their evidence in common.

    Raises:
        ValueError: a number in its evidence is not finite.
    """
    status = STATUSES[verdict.status]
    rest = {name: getattr(verdict, name) for name in type(verdict).model_fields}
    # What has a column, and what is as by default, comes back by itself.
    for name in ("status", "value", "kind", "imputed"):
        rest.pop(name, None)
    rest = {name: one for name, one in rest.items() if one not in ({}, False)}
    if isinstance(verdict, Scored):
        value, kind = verdict.value, _IMPUTED if verdict.imputed else None
    else:
        value, kind = None, KINDS[verdict.kind] if isinstance(verdict, Unscored) else None
    if not rest:
        return Packed(status, value, kind, None, None)
    text = dumps(rest)
    if text not in done:
        calls = _calls(database, text)
        done[text] = pack(rest, said_by(database, calls)), ",".join(map(str, calls)) or None
    return Packed(status, value, kind, *done[text])


def unpacked(database: Database, row: Packed, *, evidence: bool = True) -> Verdict:
    """The verdict of a row.

    Args:
        evidence: False leaves it out.

    Raises:
        ValueError: the detail cannot be read.
    """
    fields: dict[str, Any] = {"status": _STATUS[row.status]}
    scored = row.status == STATUSES["scored"]
    if scored:
        fields |= {"value": row.value, "imputed": row.kind == _IMPUTED, "evidence": {}}
    elif row.kind is not None:
        fields["kind"] = _KIND[row.kind]
    if row.detail is not None and (evidence or not scored):
        calls = [int(one) for one in row.calls.split(",")] if row.calls else []
        fields |= unpack(row.detail, said_by(database, calls))
        if not evidence:
            fields.pop("evidence", None)
    return _VERDICT.validate_python(fields)


def _calls(database: Database, text: str) -> list[int]:
    """The calls whose keys stand in a text, in order of appearance."""
    found = []
    for digest in dict.fromkeys(_DIGEST.findall(text)):
        row = database.one(
            "SELECT id FROM calls WHERE key = ? AND dropped = 0", digest_to_bytes(digest)
        )
        if row is not None:
            found.append(int(row[0]))
    return found
