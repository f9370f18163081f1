"""Verdicts as rows: small numbers, and the rest as JSON. The calls they rest on are rows too."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from pydantic import TypeAdapter

from ..base.item import MissingKind
from ..base.verdict import Scored, Unscored, UnscoredKind, Verdict
from .codec import pack, unpack

# Numbers that are in files: they stay.
STATUSES = {"scored": 1, "unscored": 2, "failed": 3, "not_applicable": 4}
KINDS = {"abstained": 1, "unparsable": 2, "refused": 3, "degenerate": 4}
MISSING: dict[MissingKind, int] = {"absent": 1, "several": 2, "unreadable": 3}
_IMPUTED = 1  # the kind of a scored verdict that a rule put in

_STATUS = {number: status for status, number in STATUSES.items()}
_KIND = {number: kind for kind, number in KINDS.items()}
_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_COLUMNS = ("status", "value", "kind", "imputed", "calls")

if set(KINDS) != set(get_args(UnscoredKind)) or set(MISSING) != set(get_args(MissingKind)):
    raise TypeError("every kind of unscored verdict and missing output needs a number in runs")


class Packed(NamedTuple):
    """A verdict as columns of its row.

    Attributes:
        kind: Of an unscored one; whether a scored one is imputed.
        detail: All that has no column, as `codec.pack` has it; None where that is nothing.
    """

    status: int
    value: float | None
    kind: int | None
    detail: bytes | None


def packed(verdict: Verdict) -> Packed:
    """A verdict as a row, without its calls.

    Raises:
        ValueError: a number in its evidence is not finite.
    """
    status = STATUSES[verdict.status]
    rest = {name: getattr(verdict, name) for name in type(verdict).model_fields}
    # What has a column, and what is as by default, comes back by itself.
    rest = {n: one for n, one in rest.items() if n not in _COLUMNS and one not in ({}, False)}
    detail = pack(rest) if rest else None
    if isinstance(verdict, Scored):
        return Packed(status, verdict.value, _IMPUTED if verdict.imputed else None, detail)
    kind = KINDS[verdict.kind] if isinstance(verdict, Unscored) else None
    return Packed(status, None, kind, detail)


def unpacked(row: Packed, calls: tuple[str, ...] = (), *, evidence: bool = True) -> Verdict:
    """The verdict of a row.

    Args:
        calls: Keys of those that it rests on.
        evidence: False leaves it out.

    Raises:
        ValueError: the detail cannot be read.
    """
    scored = row.status == STATUSES["scored"]
    if scored and not evidence:  # a hundred thousand times; a default would be copied each time
        imputed = row.kind == _IMPUTED
        return Scored(value=row.value, evidence={}, imputed=imputed, calls=calls)  # type: ignore[arg-type]
    fields: dict[str, Any] = {"status": _STATUS[row.status]}
    if scored:
        fields |= {"value": row.value, "imputed": row.kind == _IMPUTED}
    elif row.kind is not None:
        fields["kind"] = _KIND[row.kind]
    if calls:
        fields["calls"] = calls
    if row.detail is not None:
        fields |= unpack(row.detail)
        if not evidence:
            fields.pop("evidence", None)
    return _VERDICT.validate_python(fields)
