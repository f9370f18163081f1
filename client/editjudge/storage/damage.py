"""What is damaged, in the words of those who look at runs: a row, or the head of the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from .checksums import Damage
from .codec import from_text

HEAD = 100
"""Bytes of the head of a file of SQLite's."""
_MAGIC = b"SQLite format 3\0"
_ENOUGH = 8
"""How many bytes of these tell that a file was one."""
_PAYLOAD = bytes((64, 32, 32))
_UNKNOWN = "?"
_SHORT = 60


def head_damage(head: bytes) -> str:
    """What is wrong with the head of a file that is, or was, one of SQLite's; else "".

    Only what is the same in every file is looked at. Whether the rest is true SQLite finds out.

    Args:
        head: The first `HEAD` bytes, fewer of a shorter file.
    """
    if len(head) < HEAD:
        return ""
    if not any(head):
        return "its beginning is all zeros"
    alike = sum(is_ == was for is_, was in zip(head, _MAGIC, strict=False))
    if alike < _ENOUGH:
        return ""
    page = page_size(head)
    sound = (
        alike == len(_MAGIC)
        and 512 <= page <= 65536
        and page & (page - 1) == 0
        and {head[18], head[19]} <= {1, 2}
        and head[21:24] == _PAYLOAD
        and int.from_bytes(head[44:48], "big") <= 4
    )
    return "" if sound else "its first bytes are not as they were written"


def page_size(head: bytes) -> int:
    """Bytes of a page by the head of a file; 1 where that tells none."""
    if not head.startswith(_MAGIC):
        return 1
    page = int.from_bytes(head[16:18], "big")
    return {0: 1, 1: 65536}.get(page, page)


def told(db: sqlite3.Connection, damage: Damage) -> str:
    """Which row it is, as far as the rows that name it can be read."""
    name: Callable[..., str] = _WORDS.get(damage.table.name, _named)
    return f"{name(db, *damage.key)} (table {damage.table.name})"


def _verdict(db: sqlite3.Connection, edit: Any, dimension: Any, *_: Any) -> str:
    return f"the verdict on {_edit_name(db, edit)} on {_name(db, dimension)}"


def _earlier(db: sqlite3.Connection, number: Any) -> str:
    row = _first(db, "SELECT edit, dimension FROM main.earlier WHERE id = ?", number)
    return f"an earlier verdict on {_edit_name(db, row[0])} on {_name(db, row[1])}"


def _edit(db: sqlite3.Connection, number: Any) -> str:
    return f"the edit {_edit_name(db, number)}"


def _item(db: sqlite3.Connection, number: Any) -> str:
    return f"what is known of item {_name(db, number)}"


def _text(db: sqlite3.Connection, number: Any) -> str:
    return f"text {number}, {_name(db, number)[:_SHORT]!r}"


def _named(_: sqlite3.Connection, key: Any) -> str:
    return f"row {key.decode(errors='replace') if isinstance(key, bytes) else key}"


_WORDS: Mapping[str, Callable[..., str]] = {
    "verdicts": _verdict,
    "verdict_calls": _verdict,
    "earlier": _earlier,
    "edits": _edit,
    "items": _item,
    "texts": _text,
}


def _edit_name(db: sqlite3.Connection, number: Any) -> str:
    model, item = _first(db, "SELECT model, item FROM main.edits WHERE id = ?", number)
    return f"{_name(db, item)} of {_name(db, model)}"


def _name(db: sqlite3.Connection, number: Any) -> str:
    text, _ = _first(db, "SELECT CAST(text AS BLOB), 0 FROM main.texts WHERE id = ?", number)
    return from_text(text.decode(errors="replace")) if isinstance(text, bytes) else _UNKNOWN


def _first(db: sqlite3.Connection, query: str, value: Any) -> tuple[Any, Any]:
    """A row of two columns; two times nothing where there is none that can be read."""
    try:
        row = db.execute(query, (value,)).fetchone()
    except sqlite3.Error:
        row = None
    return row or (None, None)
