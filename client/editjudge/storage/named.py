"""The items of a run one after another in the order of their ids, to lay two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from ..engine.items import ItemState
from .codec import digest_from_bytes
from .database import Database
from .packing import STATUSES

_STATUS = {number: status for status, number in STATUSES.items()}


class Said(NamedTuple):
    """A verdict, as far as two runs are compared."""

    status: str
    value: float | None
    signature: str
    versions: str


class NamedEdit(NamedTuple):
    """An edit of an item.

    Attributes:
        digest: Of the output; None where it is missing.
        verdicts: By dimension.
    """

    digest: str | None
    verdicts: Mapping[str, Said]


@dataclass(frozen=True, slots=True)
class NamedItem:
    """An item of a run.

    Attributes:
        state: What it was when it was judged; None where nobody kept it.
        edits: By model under test.
    """

    id: str
    state: ItemState | None
    edits: Mapping[str, NamedEdit]


def by_name(database: Database) -> Iterator[NamedItem]:
    """See `RunStore.by_name`."""
    rows = database.each(
        "SELECT CAST(texts.text AS BLOB), edits.item, edits.id, edits.model, edits.digest"
        " FROM edits JOIN texts ON texts.id = edits.item ORDER BY 1"
    )
    for (name, number), of_item in groupby(rows, itemgetter(0, 1)):
        state = database.one("SELECT record, files, stats FROM items WHERE item = ?", number)
        yield NamedItem(
            name.decode("utf-8", "surrogatepass"),
            None if state is None else ItemState(*state),
            {
                database.text(model): NamedEdit(
                    None if digest is None else digest_from_bytes(digest), _said(database, edit)
                )
                for _, _, edit, model, digest in of_item
            },
        )


def _said(database: Database, edit: int) -> dict[str, Said]:
    text = database.text
    rows = database.each(
        "SELECT dimension, status, value, signature, versions FROM verdicts WHERE edit = ?", edit
    )
    return {
        text(dimension): Said(
            _STATUS[status], value, text(signature), text(versions) if versions else ""
        )
        for dimension, status, value, signature, versions in rows
    }
