"""The SQL tables of a ledger or run (`schema.toml`), and the version of this schema.

Texts are stored as UTF-8 bytes with `surrogatepass`, so that lone surrogates survive. Each row has
a checksum (see `checksum`); its long values have one of their own, so that a row can be checked
without reading them.
"""

import marshal
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from ..base.parse import package_tables

VERSION = 1
"""Version of the schema (`PRAGMA user_version`)."""
Value: TypeAlias = int | float | bytes | None


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose rows have a number, `id`.

    Attributes:
        columns: SQL types by column name, besides `id`.
        long: Names of columns with long values, which are read only where they are needed.
        index: SQL statements that create its indexes.
    """

    name: str
    columns: dict[str, str]
    long: Sequence[str] = ()
    index: Sequence[str] = ()

    @cached_property
    def short(self) -> tuple[str, ...]:
        """The columns that the checksum of a row covers."""
        return ("id", *self.columns, *(("long_checksum",) if self.long else ()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in their order."""
        return (*self.short, "checksum", *self.long)

    @property
    def sql(self) -> tuple[str, ...]:
        """The SQL statements that create the table and its indexes."""
        types = dict.fromkeys(("long_checksum", "checksum"), "INTEGER")
        types |= {"id": "INTEGER PRIMARY KEY", **self.columns, **dict.fromkeys(self.long, "BLOB")}
        columns = ", ".join(f"{name} {types[name]}" for name in self.names)
        return (f"CREATE TABLE {self.name} ({columns})", *self.index)


def checksum(row: tuple[Value, ...]) -> int:
    """Compute the CRC-32 of a row's values, as one tuple in version 2 of `marshal`.

    It finds a flipped bit, two values that changed places, and a row under another row's number. It
    does not protect against deliberate changes.
    """
    return zlib.crc32(marshal.dumps(row, 2))


def long_checksum(values: Iterable[bytes | None]) -> int | None:
    """Compute the CRC-32 of long values; None where all are empty."""
    there = tuple(values)
    return checksum(there) if any(value is not None for value in there) else None


TABLES = tuple(Table(name, **table) for name, table in package_tables(__package__, "schema.toml").items())
FACTS, DICTIONARIES, PROMPTS, CALLS, FILES, DATA, EDITS, SIGNINGS = TABLES


def decode_text(data: Any) -> str:
    """Decode the text of stored bytes."""
    return bytes(data).decode("utf-8", "surrogatepass")


def encode_text(value: str) -> bytes:
    """Encode a text for `decode_text`."""
    return value.encode("utf-8", "surrogatepass")
