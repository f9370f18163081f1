"""Which verdicts of a run stand, and which were made by other signatures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..base.files import ABSENT
from ..engine.outdated import Stale
from ..engine.runplan import Standing
from .database import Database
from .packing import STATUSES
from .rows import digest_of, missing_of
from .tables import EDITS, VERDICTS

_Verdicts: TypeAlias = tuple[tuple[int, int], ...]
"""Of an edit: numbers of their dimensions and signatures."""
_NO_MORE: tuple[float, _Verdicts] = (math.inf, ())


def standing(database: Database, model: str, signatures: Mapping[str, str]) -> Iterator[Standing]:
    """Every edit of a model, with the dimensions on which a verdict stands.

    A verdict stands when it is scored or unscored and its signature is today's. Edits
    with the same dimensions share one set of them, so 100,000 edits are a few megabytes.

    Args:
        signatures: Of today, by dimension.
    """
    of = database.number(model)
    if of is None:
        return
    numbers = {
        (database.number(name), database.number(text)): name for name, text in signatures.items()
    }
    names = database.texts()
    edits = database.rows(EDITS, "WHERE +model = ? ORDER BY id", of)
    verdicts = _by_edit(
        database.rows(
            VERDICTS,
            "WHERE edit IN (SELECT id FROM main.edits WHERE model = ?) ORDER BY edit",
            of,
        )
    )
    shared: dict[_Verdicts, frozenset[str]] = {}
    judged, on = next(verdicts, _NO_MORE)
    for _, edit, _, item, digest, missing, reason, seen in edits:
        while judged < edit:
            judged, on = next(verdicts, _NO_MORE)
        state = on if judged == edit else ()
        if (stands := shared.get(state)) is None:
            known = (numbers.get(each) for each in state)
            stands = shared[state] = frozenset(name for name in known if name)
        yield Standing(
            names.get(item) or database.text(item),
            digest_of(digest),
            None if missing is None else missing_of(missing, reason),
            stands,
            seen or ABSENT,
        )


def stale(database: Database, signatures: Mapping[str, str]) -> Iterator[Stale]:
    """The verdicts on these dimensions, other than failed ones, by other signatures."""
    text = database.text
    pairs = database.each(
        "SELECT DISTINCT dimension, signature FROM verdicts WHERE status != ?",
        STATUSES["failed"],
    )
    others = {
        pair: (text(pair[0]), text(pair[1]))
        for pair in list(pairs)
        if text(pair[0]) in signatures and signatures[text(pair[0])] != text(pair[1])
    }
    if not others:
        return
    rows = database.each(
        "SELECT edits.item, edits.model, verdicts.dimension, verdicts.signature FROM verdicts"
        " JOIN edits ON edits.id = verdicts.edit WHERE status != ?"
        " ORDER BY edits.id, verdicts.dimension",
        STATUSES["failed"],
    )
    for item, model, *pair in rows:
        if (names := others.get((pair[0], pair[1]))) is not None:
            yield Stale(text(item), text(model), *names)


def _by_edit(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[float, _Verdicts]]:
    """Each edit of rows of verdicts in its order, with those that did not fail."""
    failed = STATUSES["failed"]
    on: _Verdicts = ()
    last = None
    for _, edit, dimension, status, signature, *_ in rows:
        if edit != last:
            if last is not None:
                yield last, on
            last, on = edit, ()
        if status != failed:
            on = (*on, (dimension, signature))
    if last is not None:
        yield last, on
