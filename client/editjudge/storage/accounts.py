"""What each team has used, by day: a small SQLite file beside the ledgers of a service."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self, TypeAlias

from ..base.errors import ConfigError, StoreError
from .private import made_private

Day: TypeAlias = tuple[str, str]
"""A day as ISO 8601 writes it, in UTC, and a team."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Used:
    """What was used.

    Attributes:
        edits: That were judged.
        refused: Requests that were not: unusable, without room, too late, given up.
        calls: To generalists and specialists, made and answered.
        cached: Answered from the cache instead.
        failed: Calls that failed, after all attempts.
        prompt_tokens: Read by generalists, for calls that were made.
        cached_tokens: Of these, found in the generalist's own cache of prefixes.
        completion_tokens: Written by generalists.
        cost: In the currency of the prices.
        dearest: Of one call.
    """

    edits: int = 0
    refused: int = 0
    calls: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    dearest: float = 0.0

    def __add__(self, more: Used) -> Used:
        sums = {name: getattr(self, name) + getattr(more, name) for name in COUNTS}
        return replace(self, **sums, dearest=max(self.dearest, more.dearest))

    @property
    def tokens(self) -> int:
        """Read and written by generalists."""
        return self.prompt_tokens + self.completion_tokens


COUNTS = tuple(each.name for each in fields(Used) if each.name != "dearest")
"""What adds up, in order."""
_COLUMNS = (*COUNTS, "dearest")
_TABLE = (
    "CREATE TABLE used (day TEXT NOT NULL, team TEXT NOT NULL,"
    f" {', '.join(f'{name} NOT NULL' for name in _COLUMNS)}, PRIMARY KEY (day, team)) WITHOUT ROWID"
)
_ADD = (
    f"INSERT INTO used VALUES (?, ?, {', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - no data
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{n} = {n} + excluded.{n}' for n in COUNTS)}"
    ", dearest = max(dearest, excluded.dearest)"
)
_READ = f"SELECT day, team, {', '.join(_COLUMNS)} FROM used WHERE day >= ? ORDER BY day, team"  # noqa: S608


class AccountsFile:
    """The file, for one thread at a time; use as a context manager.

    What `add` has returned from survives the end of the process, however it comes.

    Args:
        path: None keeps it in memory.
        read_only: Changes nothing; another process may be writing.

    Raises:
        ConfigError: it is something else.
        StoreError: it cannot be opened, or is damaged.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._path = path
        where = ":memory:" if path is None else path.resolve().as_uri()
        how = "?mode=ro" if read_only else ""
        if path is not None and not read_only:
            made_private(path)
        with self._told():
            self._db = sqlite3.connect(
                where + how, uri=True, isolation_level=None, check_same_thread=False, timeout=30
            )
        try:
            with self._told():
                self._open(read_only=read_only)
        except BaseException:  # also when interrupted: no connection may be left open
            self._db.close()
            raise

    def _open(self, *, read_only: bool) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        tables = [name for (name,) in self._db.execute("SELECT name FROM sqlite_master")]
        if version == _VERSION and "used" in tables:
            return
        if version or tables or read_only:
            raise ConfigError(f"{self._path}: these are no accounts", "give another folder")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(_TABLE)
        self._db.execute(f"PRAGMA user_version = {_VERSION}")
        self._db.execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def add(self, used: Mapping[Day, Used]) -> None:
        """Add to what is there, all or nothing.

        Raises:
            StoreError: the disk is full or fails.
        """
        rows = [(*day, *(getattr(each, name) for name in _COLUMNS)) for day, each in used.items()]
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(_ADD, rows)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def read(self, since: str = "") -> dict[Day, Used]:
        """What is there, of this day and later ones."""
        with self._told():
            rows = self._db.execute(_READ, (since,)).fetchall()
        return {(day, team): Used(*counts) for day, team, *counts in rows}

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            what = f"{self._path}: the accounts cannot be used ({error})"
            raise StoreError(what, "make room, restore a copy or move the file away") from error
