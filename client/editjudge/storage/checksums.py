"""Checksums of rows: what was written is what is read, or it is refused.

A row's checksum is the CRC-32 of its values, its key among them, as one Python tuple in version 2
of `marshal`: whole numbers, 64-bit floats, None, and texts as the bytes of their UTF-8. So a
flipped bit, two values that changed places and a row below another row's key are all found. It is
no protection from somebody who means it.

Each connection has a view in the place of every table, which hands out no row and no long value
without comparing it. Whatever is selected has been checked, sums and counts too; only what writes
says `main.` before a table's name.
"""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from .tables import TABLES, Table, checksum_of

Value: TypeAlias = int | float | str | bytes | None
_NO_CHECKSUM = -1


@dataclass(frozen=True)
class Damage:
    """A row that is not as it was written.

    Attributes:
        key: The values of the columns `table.key`.
    """

    table: Table
    key: tuple[Any, ...]


class Checks:
    """The checks of one connection.

    Attributes:
        damage: What the last statement that failed came upon; None where it failed otherwise.
    """

    def __init__(self) -> None:
        self.damage: Damage | None = None

    def register(self, db: sqlite3.Connection) -> None:
        """Let a connection compute and compare checksums."""
        db.create_function("row_checksum", -1, row_checksum, deterministic=True)
        db.create_function("long_checksum", 1, long_checksum, deterministic=True)
        for table in TABLES:
            db.create_function(f"damaged_{table.name}", -1, self._damaged(table))

    def taken(self) -> Damage | None:
        """What the last statement came upon, once."""
        damage, self.damage = self.damage, None
        return damage

    def shadow(self, db: sqlite3.Connection) -> None:
        """Put the views in the tables' place."""
        for table in TABLES:
            db.execute(_view(table))

    def _damaged(self, table: Table) -> Callable[..., None]:
        def damaged(*key: Value) -> None:
            self.damage = Damage(table, key)
            raise ValueError("it is not as it was written")

        return damaged


def row_checksum(*row: Value, _crc=zlib.crc32, _dumped=marshal.dumps) -> int:  # type: ignore[no-untyped-def]
    """Of a row's values, as they are in the file; called so often that looking up names counts."""
    return _crc(_dumped(row, 2))  # type: ignore[no-any-return]


def damaged(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Those of rows, each its checksum and its values, that are not as they were written."""
    crc, dumped = zlib.crc32, marshal.dumps
    return [row for row in rows if crc(dumped(row[1:], 2)) != row[0]]


def long_checksum(value: Value) -> int | None:
    """Of a long value; None of none, and no checksum of what is no bytes."""
    if value is None:
        return None
    return zlib.crc32(value) if isinstance(value, bytes) else _NO_CHECKSUM


def expressions(table: Table, changed: Iterable[str] = ()) -> str:
    """The values of a row that its checksum is made of, in SQL.

    Args:
        changed: Columns whose values are parameters, by name.
    """
    parameters = set(changed)
    names = ((name, f":{name}" if name in parameters else name) for name in table.checked)
    return ", ".join(f"CAST({of} AS BLOB)" if n in table.in_bytes else of for n, of in names)


def sound(table: Table) -> str:
    """The condition in SQL that a row is as it was written; elsewhere the statement fails."""
    damaged = f"damaged_{table.name}({', '.join(table.key)})"
    return f"(row_checksum({expressions(table)}) = checksum OR {damaged})"


def as_stored(table: Table, name: str, value: Any) -> Value:
    """A value as SQLite gives it back from a column."""
    if value is None or name in table.in_bytes:
        return value  # type: ignore[no-any-return]
    if name not in table.real:
        return int(value)
    number = (
        float(value) + 0.0
    )  # SQLite has no negative zero, and stores none for what is no number
    return number if number == number else None


def checked(table: Table, row: dict[str, Value]) -> dict[str, Value]:
    """All columns of a row to be written, with their checksums.

    Args:
        row: As stored, all but the checksums.
    """
    sums = {checksum_of(name): long_checksum(row[name]) for name in table.long}
    whole = {**row, **sums}
    values = (whole[name] for name in table.checked)
    of = (value.encode() if isinstance(value, str) else value for value in values)
    return {**whole, "checksum": row_checksum(*of)}


def _view(table: Table) -> str:
    # Where a query says `kind = 2`, SQLite puts 2 for `kind` into all of its conditions, ours among
    # them, which may come first. It does not for an expression; but that is looked up in no index.
    # So a query that goes through all rows says `kind + 0 = 2` of a column that has one.
    columns = (n if n in table.indexed else f"+{n} AS {n}" for n in table.columns)
    damaged = f"damaged_{table.name}({', '.join(table.key)})"
    long = (
        f"CASE WHEN {n} IS NULL AND {of} IS NULL THEN NULL"
        f" WHEN long_checksum({n}) = {of} THEN {n} ELSE {damaged} END AS {n}"
        for n, of in ((name, checksum_of(name)) for name in table.long)
    )
    return (
        f"CREATE TEMP VIEW {table.name} AS SELECT {', '.join((*columns, *long))}"  # noqa: S608
        f" FROM main.{table.name} WHERE {sound(table)}"
    )
