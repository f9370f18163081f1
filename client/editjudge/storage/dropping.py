"""Verdicts and the replies behind them, forgotten so that both are made again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .database import Database
from .earlier import keep_earlier
from .packing import STATUSES, Packed
from .rows import where
from .tables import CALLS, VERDICT_CALLS, VERDICTS

_NO_SUCCESSOR = 0, Packed(0, None, None, None)


def drop_verdicts(
    database: Database,
    status: str,
    kind: str | None,
    model: str | None,
    dimension: str | None,
    above: Mapping[str, Collection[str]],
) -> int:
    """Forget verdicts and their replies; see `RunStore.drop_verdicts`."""
    chosen, values = where(model=model, dimension=dimension, status=status, kind=kind)
    which = (
        "SELECT verdicts.edit, verdicts.dimension FROM verdicts"  # noqa: S608
        f" JOIN edits ON edits.id = verdicts.edit {chosen}"
    )
    with database.transaction():
        # All are read before any is deleted: SQLite leaves open what a query sees otherwise.
        rows = list(database.each(which, *values))
        kept = {on: _under_numbers(database, on) for on in {on for _, on in rows}}
        for edit, on in rows:
            beside = _drop_calls(database, edit, on, kept[on] if status != "scored" else set())
            names = {database.text(each) for each in {on, *beside}}
            names.update(*(above.get(name, ()) for name in names))
            for name in names:
                _forget(database, edit, database.intern(name))
    return len(rows)


def _under_numbers(database: Database, on: int) -> set[int]:
    """The calls that numbers on a dimension rest on."""
    rows = database.each(
        "SELECT call FROM verdict_calls JOIN verdicts USING (edit, dimension)"
        " WHERE verdict_calls.dimension + 0 = ? AND status = ?",  # see `checksums`
        on,
        STATUSES["scored"],
    )
    return {call for (call,) in rows}


def _drop_calls(database: Database, edit: int, on: int, kept: Collection[int]) -> set[int]:
    """Drop the calls of a verdict but for those kept; the dimensions that rest on them too."""
    resting: dict[int, set[int]] = {}
    rows = database.each("SELECT call, dimension FROM verdict_calls WHERE edit = ?", edit)
    for call, dimension in rows:
        resting.setdefault(call, set()).add(dimension)
    dropped = [call for call, names in resting.items() if on in names and call not in kept]
    for call in dropped:
        database.change(CALLS, "id = :call", {"call": call}, dropped=True)
    return set().union(*(resting[call] for call in dropped))


def _forget(database: Database, edit: int, on: int) -> None:
    keep_earlier(database, edit, "again", {on: _NO_SUCCESSOR})
    for table in (VERDICT_CALLS, VERDICTS):
        database.delete(table, "edit = ? AND dimension = ?", edit, on)
