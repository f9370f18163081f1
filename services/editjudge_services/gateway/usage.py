"""The usage of teams: counted for each request, stored by day and team."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from operator import add, attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from editjudge.base.config import LedgerPlace
from editjudge.base.errors import ConfigError, DeadlineExceeded, OutOfTime, ServiceError, StoreError
from editjudge.base.local_stack import private
from editjudge.base.strict import list_fields
from editjudge.service import Budget, Usage, open_database

if TYPE_CHECKING:
    from editjudge.base.config import Price

FILE = "usage.sqlite"
_CUTS = (asyncio.CancelledError, DeadlineExceeded, OutOfTime)
"""How a call ends that the judge has not finished."""
DayAndTeam: TypeAlias = tuple[str, str]
"""A day in UTC (ISO 8601) and the name of a team."""


@dataclass(frozen=True, slots=True)
class TeamUsage:
    """The usage of a team. The fields are the columns of the usage file.

    Attributes:
        edits: Edits that were judged.
        refused: Requests that failed: invalid, over a limit, past the deadline or cancelled.
        calls: Calls that judges and specialists answered.
        cached: Calls answered from the cache of the Judge service.
        failed: Calls that failed after all attempts.
        prompt_tokens: Prompt tokens of calls to judges.
        cached_tokens: Prompt tokens that judges found in their prefix caches.
        completion_tokens: Tokens that judges generated.
        cost: The cost of calls, in the currency of the prices in the settings.
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
        return TeamUsage(*map(add, _read_counts(self), _read_counts(more)))


COUNTS = tuple(each.name for each in fields(TeamUsage))
_read_counts = attrgetter(*COUNTS)
_TABLE = (
    "CREATE TABLE IF NOT EXISTS used (day TEXT NOT NULL, team TEXT NOT NULL,"
    f" {', '.join(f'{name} NOT NULL' for name in COUNTS)}, PRIMARY KEY (day, team)) WITHOUT ROWID"
)
_ADD = (
    f"INSERT INTO used VALUES (?, ?, {', '.join('?' * len(COUNTS))})"  # noqa: S608 - no data
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{n} = {n} + excluded.{n}' for n in COUNTS)}"
)
_READ = f"SELECT day, team, {', '.join(COUNTS)} FROM used ORDER BY day, team"  # noqa: S608
_DELETE = "DELETE FROM used WHERE ifnull(team = :team, 1) AND ifnull(day < :day, 1)"


class Meter(Budget):
    """Counts the usage of one request; a `Budget` without a limit.

    Args:
        on_usage: Called with each addition, even after the request was cancelled if other requests
            wait for the same calls.
        on_tokens: Called with the tokens of each call, and with about as many as it may have taken
            for a call that was cancelled or timed out: then no judge says.

    Attributes:
        total: The usage so far.
    """

    def __init__(self, on_usage: Callable[[TeamUsage], None], on_tokens: Callable[[int], None]) -> None:
        super().__init__()
        self._on_usage = on_usage
        self._on_tokens = on_tokens
        self.total = TeamUsage()

    def add(self, **more: float) -> None:
        """Add to the total, by fields of `TeamUsage`."""
        usage = TeamUsage(**more)  # type: ignore[arg-type]
        self.total += usage
        self._on_usage(usage)

    @contextlib.contextmanager
    def reserve_call(
        self, price: Price | None, service: str, most_tokens: int = 0
    ) -> Iterator[Callable[[Usage], float | None]]:
        """Reserve the cost of a call, see `Budget`. A failed or cancelled call counts as failed."""
        with super().reserve_call(price, service) as spend:
            try:
                yield spend
            except (asyncio.CancelledError, ServiceError) as error:
                self.add(failed=1)
                if isinstance(error, _CUTS):
                    self._on_tokens(most_tokens)
                raise

    def count_calls(self, usage: Usage, calls: int = 1) -> None:
        """Count calls and their tokens."""
        super().count_calls(usage, calls)
        self.add(
            calls=calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        )
        self._on_tokens(usage.prompt_tokens + usage.completion_tokens)

    def pay(self, cost: float) -> None:
        """Add a cost to the usage."""
        super().pay(cost)
        self.add(cost=cost)


def make_private(path: Path) -> None:
    """Create a database file with mode 0600, or set this mode on an existing one.

    The `-wal` and `-shm` files of SQLite get the same mode. A file of another user keeps its mode.

    Raises:
        ConfigError: the file cannot be created.
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
    """The usage of each team on each day, in an SQLite file or a PostgreSQL database.

    Additions are written in the background, many in one transaction. Additions that could not be
    written are held in memory and written with the next ones; a crash loses them.

    Args:
        place: The folder of the file, or the database; None stores nothing.
        say: Called with a message of one line for the first of several failures in a row.
    """

    def __init__(self, place: LedgerPlace | None, say: Callable[[str], None]) -> None:
        self._place = place
        self._write_rows: Callable[[Mapping[DayAndTeam, TeamUsage]], Awaitable[None]] | None = None
        self._say = say
        self._unwritten: dict[DayAndTeam, TeamUsage] = {}
        self._writing: asyncio.Task[None] | None = None
        self._batch: asyncio.Future[None] | None = None  # of what is added last
        self._failing = False

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the file. Leaving the block waits until the last additions are written.

        Raises:
            ConfigError: the file cannot be created, or the database cannot be used.
            StoreError: the file is damaged.
        """
        with contextlib.ExitStack() as resources:
            if isinstance(self._place, Path):
                path = self._place / FILE
                make_private(path)
                await asyncio.to_thread(_write, path, {})
                # While one connection is open, to close another costs no checkpoint.
                resources.enter_context(_database(path))
                self._write_rows = lambda rows: asyncio.to_thread(_write, path, rows)
            elif self._place is not None:
                opening = asyncio.to_thread(open_database, self._place, 0.0, self._say)
                add, batches = resources.enter_context(await opening).add_usage, itertools.count(1)
                self._write_rows = lambda rows: add(next(batches), _to_columns(rows))
            try:
                yield
            finally:
                await self.flush()

    def add(self, team: str, more: TeamUsage) -> None:
        """Add to today's usage of a team; the file is written in the background."""
        if self._write_rows is None:
            return
        if not self._unwritten or self._batch is None or self._batch.done():
            self._batch = asyncio.get_running_loop().create_future()
        day = (datetime.now(UTC).date().isoformat(), team)
        self._unwritten[day] = self._unwritten.get(day, TeamUsage()) + more
        if self._writing is None or self._writing.done():
            # Without a context it would wait for the turn of the team that happened to be first.
            work = self._write(self._write_rows)
            self._writing = asyncio.create_task(work, context=Context())

    async def flush(self) -> None:
        """Wait until all additions so far are written, or writing has failed."""
        if self._batch is not None:
            await asyncio.shield(self._batch)

    async def _write(self, write: Callable[[Mapping[DayAndTeam, TeamUsage]], Awaitable[None]]) -> None:
        try:
            while self._unwritten:
                rows, batch, self._unwritten = self._unwritten, self._batch, {}
                try:
                    await write(rows)
                except StoreError as error:
                    for day, usage in rows.items():
                        self._unwritten[day] = self._unwritten.get(day, TeamUsage()) + usage
                    if not self._failing:
                        self._say(f"usage is held in memory until it can be written: {error}")
                    self._failing = True
                    return
                finally:
                    _end(batch)
                self._failing = False
        finally:
            _end(self._batch)


def _end(batch: asyncio.Future[None] | None) -> None:
    if batch is not None and not batch.done():
        batch.set_result(None)


def _to_columns(rows: Mapping[DayAndTeam, TeamUsage]) -> list[dict[str, object]]:
    return [{"day": day, "team": team, **list_fields(usage)} for (day, team), usage in rows.items()]


def read_usage(folder: Path) -> Mapping[DayAndTeam, TeamUsage]:
    """Read the usage of all teams by day and team; a Judge service may write meanwhile.

    Raises:
        ConfigError: no Judge service has stored usage in the folder.
        StoreError: the file is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no Judge service has stored usage here", "give its --cache")
    with _database(path) as db:
        return {(day, team): TeamUsage(*counts) for day, team, *counts in db.execute(_READ)}


def delete_usage(folder: Path, team: str | None, before_day: str | None) -> int:
    """Delete the usage of a team, or of all, on all days or on those before one (ISO 8601).

    Returns:
        The number of deleted days of teams.

    Raises:
        StoreError: the file is damaged.
    """
    if not (folder / FILE).is_file():
        return 0
    with _database(folder / FILE) as db:
        db.execute("PRAGMA secure_delete = ON")
        with db:
            count = db.execute(_DELETE, {"team": team, "day": before_day}).rowcount
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count


def _write(path: Path, usage: Mapping[DayAndTeam, TeamUsage]) -> None:
    """Add usage to the file in one transaction."""
    rows = [(*day, *astuple(each)) for day, each in usage.items()]
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
        what = f"{path}: usage cannot be read or written ({error})"
        raise StoreError(what, "make room, restore a copy or move the file away") from error
