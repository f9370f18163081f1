"""The tables of a ledger or run, and the number of their form.

Texts are kept as the bytes of their UTF-8, so that lone surrogates can be kept too. Each row has a
checksum; see `checksum`. Long values have one of their own, so that a row is checked without them.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

VERSION = 1
"""The number of the form (`PRAGMA user_version`)."""
Value: TypeAlias = int | float | bytes | None


@dataclass(frozen=True, eq=False)
class Table:
    """A table, whose rows are numbered.

    Attributes:
        columns: SQL types by name, besides `id`.
        long: Names of values that can be long, which are read only where they are needed.
        index: Statements that make its indexes.
    """

    name: str
    columns: dict[str, str]
    long: tuple[str, ...] = ()
    index: tuple[str, ...] = ()

    @cached_property
    def short(self) -> tuple[str, ...]:
        """The columns of which the checksum of a row is made."""
        return ("id", *self.columns, *(("long_checksum",) if self.long else ()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All columns, in their order."""
        return (*self.short, "checksum", *self.long)

    @property
    def sql(self) -> tuple[str, ...]:
        """The statements that make it."""
        types = dict.fromkeys(("long_checksum", "checksum"), "INTEGER")
        types |= {"id": "INTEGER PRIMARY KEY", **self.columns, **dict.fromkeys(self.long, "BLOB")}
        columns = ", ".join(f"{name} {types[name]}" for name in self.names)
        return (f"CREATE TABLE {self.name} ({columns})", *self.index)


def checksum(row: tuple[Value, ...]) -> int:
    """The CRC-32 of a row's values, as one tuple in version 2 of `marshal`.

    A flipped bit, two values that changed places, and a row below another row's number are found.
    It is no protection from somebody who means it.
    """
    return zlib.crc32(marshal.dumps(row, 2))


def long_checksum(values: Iterable[bytes | None]) -> int | None:
    """The CRC-32 of long values; None where there is none."""
    there = tuple(values)
    return checksum(there) if any(value is not None for value in there) else None


FACTS = Table(
    "facts",
    {"name": "BLOB", "value": "BLOB"},
    index=("CREATE UNIQUE INDEX facts_by_name ON facts (name)",),
)
# Texts that come again and again; what is packed refers to them. See `packing`.
DICTIONARIES = Table("dictionaries", {"text": "BLOB"})
PROMPTS = Table(
    "prompts",
    {"team": "BLOB", "digest": "BLOB", "made": "REAL"},
    long=("document",),
    index=("CREATE UNIQUE INDEX prompts_by_digest ON prompts (team, digest)",),
)
# A call that was dropped answers nobody any more, but verdicts that rest on it can still show it.
CALLS = Table(
    "calls",
    {
        "team": "BLOB",
        "key": "BLOB",
        "dropped": "INTEGER",
        "prompt": "BLOB",
        "made": "REAL",
        "cost": "REAL",
    },
    long=("document", "outputs"),
    index=("CREATE UNIQUE INDEX calls_by_key ON calls (team, key) WHERE dropped = 0",),
)
# What files of items held when they were last read. The number is a digest of the file's name.
FILES = Table("files", {"stat": "BLOB", "digest": "BLOB"})
# What the data says of its items, so that it is read again only where the data is another.
DATA = Table("data", {"digest": "BLOB"}, long=("records",))
# The verdicts of an edit. Its key is the item's id, the model, and what both hold: the item's
# content and the output. `signing` says what was judged, by which signatures.
EDITS = Table(
    "edits",
    {
        "item": "BLOB",
        "model": "BLOB",
        "content": "BLOB",
        "output": "BLOB",
        "missing": "BLOB",
        "stat": "BLOB",
        "signing": "INTEGER",
        "outcomes": "BLOB",
    },
    long=("details",),
    index=("CREATE INDEX edits_by_item ON edits (item, model)",),
)
SIGNINGS = Table("signings", {"signed": "BLOB"})

TABLES = (FACTS, DICTIONARIES, PROMPTS, CALLS, FILES, DATA, EDITS, SIGNINGS)


def decode_text(data: Any) -> str:
    """The text of stored bytes."""
    return bytes(data).decode("utf-8", "surrogatepass")


def encode_text(value: str) -> bytes:
    """What `text` gives back."""
    return value.encode("utf-8", "surrogatepass")
