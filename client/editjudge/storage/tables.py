"""The tables of a ledger or run, and the number of their form.

Each row has a checksum of its values; see `checksums`. A value that can be long has one of its own,
which stands for it in that of the row: a row can be checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

VERSION = 1


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    Attributes:
        columns: SQL definitions by name, its key first.
        long: The same of values that are not read with each row.
        rest: Its constraints.
        key: Names of the columns that make a row's key, `id` alone where rows are numbered.
        index: A statement beside it.
        by: Columns besides its key that rows are looked up by.
    """

    name: str
    columns: Mapping[str, str]
    long: Mapping[str, str] = field(default_factory=dict)
    rest: str = ""
    key: tuple[str, ...] = ("id",)
    index: str = ""
    by: tuple[str, ...] = ()

    @cached_property
    def is_numbered(self) -> bool:
        """Whether rows have numbers, which SQLite orders them by."""
        return self.key == ("id",)

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """Names of the columns that a row's checksum is made of."""
        return (*self.columns, *map(checksum_of, self.long))

    @property
    def sql(self) -> str:
        """The statement that makes it."""
        sums = dict.fromkeys(map(checksum_of, self.long), "INTEGER")
        columns = {**self.columns, **sums, "checksum": "INTEGER NOT NULL", **self.long}
        lines = [f"{name} {definition}" for name, definition in columns.items()]
        if not self.is_numbered:
            lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        text = ",\n    ".join((*lines, self.rest) if self.rest else lines)
        how = "" if self.is_numbered else " WITHOUT ROWID"
        return f"CREATE TABLE {self.name} (\n    {text}\n){how}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all columns, in their order."""
        return (*self.checked, "checksum", *self.long)

    @property
    def indexed(self) -> tuple[str, ...]:
        """The columns that rows are looked up by."""
        return (*self.key, *self.by)

    @cached_property
    def in_bytes(self) -> frozenset[str]:
        """The columns that hold text or bytes, and no number."""
        return frozenset((*self._of_type("TEXT", "BLOB"), *self.long))

    @cached_property
    def real(self) -> frozenset[str]:
        """The columns of numbers that need not be whole."""
        return frozenset(self._of_type("REAL"))

    def _of_type(self, *types: str) -> list[str]:
        return [name for name, one in self.columns.items() if one.split()[0] in types]


def checksum_of(name: str) -> str:
    """The column that holds the checksum of a long value."""
    return f"{name}_checksum"


_TEXT = "INTEGER NOT NULL REFERENCES texts (id)"
_NO_TEXT = "INTEGER REFERENCES texts (id)"
_COUNT = "INTEGER NOT NULL"
_FACTS = {"name": "TEXT NOT NULL", "value": "TEXT NOT NULL"}
_VERDICT = {
    "status": "INTEGER NOT NULL",
    "signature": _TEXT,
    "value": "REAL",
    "kind": "INTEGER",
    "versions": _NO_TEXT,
}

# Texts that come again and again (models, dimensions, signatures, identities, items) are held
# once and stood for by numbers.
TEXTS = Table("texts", {"id": "INTEGER PRIMARY KEY", "text": "TEXT NOT NULL UNIQUE"}, by=("text",))
HEADER = Table("header", _FACTS, key=("name",))
FACTS = Table("facts", _FACTS, key=("name",))
PROMPTS = Table(
    "prompts",
    {"id": "INTEGER PRIMARY KEY", "digest": "BLOB NOT NULL UNIQUE", "system": _TEXT},
    {"parts": "BLOB NOT NULL"},
    by=("digest",),
)
# A call that was dropped answers nobody any more, but verdicts that rest on it can still show it.
CALLS = Table(
    "calls",
    {
        "id": "INTEGER PRIMARY KEY",
        "team": "TEXT NOT NULL",
        "key": "BLOB NOT NULL",
        "dropped": _COUNT,
        "service": _TEXT,
        "form": _TEXT,
        "prompt": "INTEGER REFERENCES prompts (id)",
        "repeat": _COUNT,
        "abstained": _COUNT,
        "model": _NO_TEXT,
        "prompt_tokens": _COUNT,
        "cached_tokens": _COUNT,
        "completion_tokens": _COUNT,
        "attempts": _COUNT,
        "cost": "REAL",
        "seconds": "REAL NOT NULL",
        "made": "REAL NOT NULL",
    },
    {"inputs": "BLOB", "reply": "BLOB NOT NULL"},
    index="CREATE UNIQUE INDEX calls_by_key ON calls (team, key) WHERE dropped = 0",
    by=("team", "key", "dropped"),
)
EDITS = Table(
    "edits",
    {
        "id": "INTEGER PRIMARY KEY",
        "model": _TEXT,
        "item": _TEXT,
        "digest": "BLOB",
        "missing": "INTEGER",
        "reason": "TEXT",
        "seen": "BLOB",
    },
    rest="UNIQUE (model, item)",
    by=("model", "item"),
)
# What the items were that verdicts are about.
ITEMS = Table(
    "items",
    {
        "item": _TEXT,
        "record": "BLOB NOT NULL",
        "files": "BLOB NOT NULL",
        "stats": "BLOB NOT NULL",
    },
    key=("item",),
)
# The versions of a verdict are those of the packages that it was made with, which its signature
# does not name.
VERDICTS = Table(
    "verdicts",
    {"edit": "INTEGER NOT NULL REFERENCES edits (id)", "dimension": _TEXT, **_VERDICT},
    {"detail": "BLOB"},
    key=("edit", "dimension"),
)
VERDICT_CALLS = Table(
    "verdict_calls",
    {
        "edit": _COUNT,
        "dimension": _COUNT,
        "position": _COUNT,
        "call": "INTEGER NOT NULL REFERENCES calls (id)",
    },
    key=("edit", "dimension", "position"),
)
# Verdicts in whose place others came. Nothing counts them.
EARLIER = Table(
    "earlier",
    {
        "id": "INTEGER PRIMARY KEY",
        "edit": "INTEGER NOT NULL REFERENCES edits (id)",
        "dimension": _TEXT,
        **_VERDICT,
        "output": "BLOB",
        "why": "INTEGER NOT NULL",
        "replaced": "REAL NOT NULL",
    },
    {"calls": "BLOB", "detail": "BLOB"},
    index="CREATE INDEX earlier_by_edit ON earlier (edit, dimension)",
    by=("edit", "dimension"),
)

TABLES = (TEXTS, HEADER, FACTS, PROMPTS, CALLS, EDITS, ITEMS, VERDICTS, VERDICT_CALLS, EARLIER)

NAMING_TEXTS = tuple(
    (table.name, column)
    for table in TABLES
    for column, definition in table.columns.items()
    if definition in {_TEXT, _NO_TEXT}
)
"""Where texts are stood for by their numbers: tables and their columns."""
