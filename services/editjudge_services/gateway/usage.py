"""What teams use of a service: counted for each request, kept by team and day."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from editjudge.base.errors import ConfigError, ServiceError, StoreError
from editjudge.base.local_stack import private
from editjudge.service import Budget, Usage

if TYPE_CHECKING:
    from editjudge.base.config import Price

FILE = "usage.sqlite"
Day: TypeAlias = tuple[str, str]
"""A day as ISO 8601 writes it, in UTC, and a team."""


@dataclass(frozen=True, slots=True)
class TeamUsage:
    """What was used.

    Attributes:
        edits: That were judged.
        refused: Requests that were not: unusable, without room, too late, given up.
        calls: To judges and specialists, made and answered.
        cached: Answered from the cache instead.
        failed: Calls that failed, after all attempts.
        prompt_tokens: Read by judges, for calls that were made.
        cached_tokens: Of these, found in the judge's own cache of prefixes.
        completion_tokens: Written by judges.
        cost: In the currency of the prices.
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

    def __add__(self, more: TeamUsage) -> TeamUsage:
        return TeamUsage(*(getattr(self, name) + getattr(more, name) for name in COUNTS))

    @property
    def tokens(self) -> int:
        """Read and written by judges."""
        return self.prompt_tokens + self.completion_tokens


COUNTS = tuple(each.name for each in fields(TeamUsage))
_TABLE = (
    "CREATE TABLE IF NOT EXISTS used (day TEXT NOT NULL, team TEXT NOT NULL,"
    f" {', '.join(f'{name} NOT NULL' for name in COUNTS)}, PRIMARY KEY (day, team)) WITHOUT ROWID"
)
_ADD = (
    f"INSERT INTO used VALUES (?, ?, {', '.join('?' * len(COUNTS))})"  # noqa: S608 - no data
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{n} = {n} + excluded.{n}' for n in COUNTS)}"
)
_READ = f"SELECT day, team, {', '.join(COUNTS)} FROM used ORDER BY day, team"  # noqa: S608


class Meter(Budget):
    """What one request uses; it pays for the request's calls, and has no limit.

    Args:
        add: Told of all that is used, also when the request is over: others may wait for its calls.

    Attributes:
        used: So far.
    """

    def __init__(self, add: Callable[[TeamUsage], None]) -> None:
        super().__init__()
        self._add = add
        self.total = TeamUsage()

    def add(self, **more: float) -> None:
        """Add to what is used; the names are those of `Used`."""
        used = TeamUsage(**more)  # type: ignore[arg-type]
        self.total += used
        self._add(used)

    @contextlib.contextmanager
    def one_call(
        self, price: Price | None, service: str
    ) -> Iterator[Callable[[Usage], float | None]]:
        """See `Budget`; a call that fails is noted."""
        with super().reserve_call(price, service) as spend:
            try:
                yield spend
            except (asyncio.CancelledError, ServiceError):
                self.add(failed=1)
                raise

    def count_calls(self, usage: Usage, calls: int = 1) -> None:
        """See `Budget`."""
        super().count_calls(usage, calls)
        self.add(
            calls=calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        )

    def pay(self, cost: float) -> None:
        """See `Budget`."""
        super().pay(cost)
        self.add(cost=cost)


def make_private(path: Path) -> None:
    """Make a file that is to hold a database, or close one that is there to others.

    What SQLite puts beside it has the file's mode. One that belongs to somebody else stays as its
    owner made it.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(private(str(path), os.O_RDWR | os.O_CREAT))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "give another folder") from error
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            path.with_name(path.name + end).chmod(0o600)


class UsageLog:
    """What each team has used on each day, in a file.

    Args:
        folder: Where the file is; None keeps nothing.
        say: Told where it cannot be written; it is as soon as it can be.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        self._path = None if folder is None else folder / FILE
        self._say = say
        self._unwritten: dict[Day, TeamUsage] = {}
        self._writing: asyncio.Task[None] | None = None
        self._failing = False

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Write what is added until the block is left.

        Raises:
            ConfigError: the file cannot be made.
            StoreError: it is damaged.
        """
        if self._path is not None:
            make_private(self._path)
            await asyncio.to_thread(_write, self._path, {})
        try:
            yield
        finally:
            await self.flush()

    def add(self, team: str, more: TeamUsage) -> None:
        """Note what a team has used; it is written soon."""
        if self._path is None:
            return
        day = (datetime.now(UTC).date().isoformat(), team)
        self._unwritten[day] = self._unwritten.get(day, TeamUsage()) + more
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(self._path))

    async def flush(self) -> None:
        """Wait until all that was noted is written, or cannot be."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self, path: Path) -> None:
        while self._unwritten:
            rows, self._unwritten = self._unwritten, {}
            try:
                await asyncio.to_thread(_write, path, rows)
            except StoreError as error:
                for day, used in rows.items():
                    self._unwritten[day] = self._unwritten.get(day, TeamUsage()) + used
                if not self._failing:
                    self._say(f"what teams use is held in memory until it can be written: {error}")
                self._failing = True
                return
            self._failing = False


def read_usage(folder: Path) -> Mapping[Day, TeamUsage]:
    """What teams have used, by day; a service may be writing.

    Raises:
        ConfigError: no service has kept it there.
        StoreError: the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no Judge service has counted here", "give its --cache")
    with _database(path) as db:
        return {(day, team): TeamUsage(*counts) for day, team, *counts in db.execute(_READ)}


def _write(path: Path, used: Mapping[Day, TeamUsage]) -> None:
    """Add to what is there, all or nothing."""
    rows = [(*day, *(getattr(each, name) for name in COUNTS)) for day, each in used.items()]
    with _database(path) as db, db:
        db.execute(_TABLE)
        db.executemany(_ADD, rows)


@contextlib.contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            yield db
    except sqlite3.DatabaseError as error:
        what = f"{path}: what teams use cannot be read or written ({error})"
        raise StoreError(what, "make room, restore a copy or move the file away") from error
