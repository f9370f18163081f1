"""The SQLite file of a ledger or run: transactions, checked rows and errors.

Rows are written only by `put`, `change` and `delete`, and read by `rows`, which compares each with
its checksum.

Durability: a process may be killed at any moment and loses at most the transaction it was in. A
crash of the machine can lose the last transactions, too, but never half of one (WAL with
`synchronous = NORMAL`).
"""

import asyncio
import contextlib
import functools
import marshal
import sqlite3
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any, ParamSpec, TypeAlias, TypeVar

from ..base import errors
from ..base.errors import ConfigError, EditjudgeError, StoreError
from ..base.parse import package_tables
from .compression import Compressor
from .schema import (
    DICTIONARIES,
    FACTS,
    TABLES,
    VERSION,
    Table,
    Value,
    checksum,
    decode_text,
    encode_text,
    long_checksum,
)

Row: TypeAlias = tuple[Any, ...]
P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 256
_AT_A_TIME = 2000
"""How many rows one transaction examines when many are deleted."""
_BUSY_SECONDS = 30


class Database:
    """One connection to the file, which threads use one after another.

    A transaction keeps other threads out. Asynchronous code uses it through `run_in_thread`, which
    does all work in one thread, in the order of the calls.

    Args:
        path: The file; None for a database in memory.
        read_only: Change nothing and take no lock; commits by other processes are seen.
        is_run: Whether it is a run, of which nothing is ever purged, so that its documents may
            become a dictionary for compressing others.

    Attributes:
        compressor: Compresses the documents of this file.

    Raises:
        ConfigError: the file cannot be opened, is something else, or of a newer editjudge.
        StoreError: it is damaged.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False, is_run: bool = False) -> None:
        self.path = path
        self.compressor = Compressor(
            lambda: [row[1] for row in self.rows(DICTIONARIES, "ORDER BY id")],
            (lambda text: self.put(DICTIONARIES, text=text)) if is_run else None,
        )
        self._depth = 0
        self._turn = RLock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="editjudge-store")
        try:
            if path is not None and not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._opened_to_read() if read_only else self._open()
        except OSError as error:
            raise ConfigError(f"{path}: {error}", "give another file") from error
        except _READ_ERRORS as error:
            raise self._translate_error(error) from error

    def check_structure(self) -> None:
        """Check the structure of the whole file: lost pages are not found by the rows' checksums.

        It takes about 0.05 s for 50,000 verdicts.

        Raises:
            StoreError: the file is damaged.
        """
        (report,) = self.query_row("PRAGMA integrity_check(1)") or ("nothing can be read",)
        if report != "ok":
            what = " ".join(str(report).removeprefix("*** in database main ***").split())
            raise StoreError(f"{self.path} is damaged: {what}", RESTORE)

    def copy_to(self, file: Path) -> None:
        """Write all that is stored now to a new file, which needs no other file beside it.

        Raises:
            StoreError: the file is damaged, or the disk of the new one is full.
        """
        with self._turn, contextlib.closing(_connect(str(file))) as copy:
            try:
                self._db.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            except _READ_ERRORS as error:
                raise self._translate_error(error) from error

    def close(self) -> None:
        """Close the file after all work that was handed to `run_in_thread` is done."""
        self._thread.shutdown()
        self._db.close()

    async def run_in_thread(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Do work with this database in its thread, without blocking the event loop.

        The work is done even if the caller is cancelled meanwhile, so that a reply that was paid
        for is stored.
        """
        future = self._thread.submit(functools.partial(work, *args, **more))
        result = asyncio.wrap_future(future)
        # Nobody is left to ask why it failed where the caller is cancelled meanwhile.
        result.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(result)

    @contextlib.contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Commit all of the block or nothing; inside another transaction, it is part of that one.

        Args:
            begin: How it begins: `BEGIN` for reads alone, which see the file as of one moment.

        Raises:
            StoreError: the disk is full or fails; earlier transactions stay committed.
        """
        with self._turn:
            if self._depth:
                yield
                return
            self._depth += 1
            try:
                self.run(begin)
                yield
                self.run("COMMIT")
            except BaseException:  # an interruption must not leave half a transaction either
                self.compressor.forget()
                # Where the disk is full SQLite has rolled back by itself.
                if self._db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def run(self, sql: str, *values: object) -> sqlite3.Cursor:
        """Execute one statement."""
        with self._turn:
            try:
                return self._db.execute(sql, values)
            except _READ_ERRORS as error:
                raise self._translate_error(error) from error

    def put(self, table: Table, **values: Value) -> int:
        """Write a row with its checksums, and return its number.

        Args:
            values: Values by column; other columns stay empty. With `id`, that row is replaced.
        """
        with self.transaction():
            if values.get("id") is None:
                (values["id"],) = self.query_row(f"SELECT ifnull(max(id), 0) + 1 FROM {table.name}") or (1,)  # noqa: S608
            row = {name: _as_stored(table, name, values.pop(name, None)) for name in table.long}
            if table.long:
                row["long_checksum"] = long_checksum(row[name] for name in table.long)  # type: ignore[misc]
            for name in ("id", *table.columns):
                row[name] = _as_stored(table, name, values.pop(name, None))
            if values:
                raise TypeError(f"{table.name} has no {', '.join(values)}")
            row["checksum"] = checksum(tuple(row[name] for name in table.short))
            self.run(_insertion(table), *[row[name] for name in table.names])
            return int(row["id"] or 0)

    def change(self, table: Table, number: int, **values: Value) -> None:
        """Change values of a row."""
        with self.transaction():
            for row in self.rows(table, "WHERE id = ?", number, long=True):
                names = (*("id", *table.columns), *table.long)
                self.put(table, **{**dict(zip(names, row, strict=True)), **values})

    def delete(self, table: Table, where: str, *values: object) -> int:
        """Delete rows, some per transaction, so others can write in between; returns how many."""
        last, count = 0, 0
        while True:
            with self.transaction():
                among = f"SELECT id FROM {table.name} WHERE id > ? ORDER BY id LIMIT {_AT_A_TIME}"  # noqa: S608
                row = self.query_row(f"SELECT max(id) FROM ({among})", last)  # noqa: S608
                if row is None or row[0] is None:
                    return count
                sql = f"DELETE FROM {table.name} WHERE id > ? AND id <= ? AND ({where})"  # noqa: S608
                count += self.run(sql, last, row[0], *values).rowcount
                last = row[0]

    def shrink(self) -> None:
        """Give the space of deleted rows back to the disk; other processes wait meanwhile.

        Raises:
            StoreError: the disk is full, or another process is busy for long; nothing is lost.
        """
        if self.path is not None:
            self.run("VACUUM")

    def query_row(self, sql: str, *values: object) -> Row | None:
        """Run a query and return its first row, or None; no checksum is compared."""
        with self._turn, contextlib.closing(self.run(sql, *values)) as cursor:
            rows = self._fetch(cursor)
            return rows[0] if rows else None

    def rows(self, table: Table, where: str = "", *values: object, long: bool = False) -> Generator[Row, None, None]:
        """Read rows of a table as of the moment of the first, and compare their checksums.

        Args:
            where: The SQL that follows the table's name.
            long: Whether to read the long values, which come last.

        Returns:
            The `id` and the columns of each row, in their order.

        Raises:
            StoreError: a row differs from its checksum.
        """
        long = long and bool(table.long)
        names, size = table.names if long else (*table.short, "checksum"), len(table.short)
        cursor = self.run(f"SELECT {', '.join(names)} FROM {table.name} {where}", *values)  # noqa: S608
        own = size - bool(table.long)
        crc, dumps = zlib.crc32, marshal.dumps  # looking up names counts
        try:
            while several := self._fetch(cursor):
                for row in several:
                    if crc(dumps(row[:size], 2)) != row[size]:
                        raise self._damage_error(table, row[0])
                if not long:
                    yield from [row[:own] for row in several]
                    continue
                for row in several:
                    if long_checksum(row[size + 1 :]) != row[own]:
                        raise self._damage_error(table, row[0])
                    yield row[:own] + row[size + 1 :]
        finally:
            # A generator that is not exhausted may be closed after the file.
            with self._turn, contextlib.suppress(sqlite3.ProgrammingError):
                cursor.close()

    def row(self, table: Table, where: str, *values: object, long: bool = False) -> Row | None:
        """Read the first of these rows, or None."""
        with contextlib.closing(self.rows(table, where, *values, long=long)) as rows:
            return next(rows, None)

    def _fetch(self, cursor: sqlite3.Cursor) -> list[Row]:
        with self._turn:
            try:
                return cursor.fetchmany(_AT_ONCE)
            except _READ_ERRORS as error:
                raise self._translate_error(error) from error

    def fact(self, name: str) -> str | None:
        """Read a fact that was stored before, or None."""
        row = self.row(FACTS, "WHERE name = ?", encode_text(name))
        return None if row is None else decode_text(row[2])

    def put_fact(self, name: str, value: str) -> None:
        """Write a fact about a service; it replaces an earlier one of that name."""
        with self.transaction():
            row = self.row(FACTS, "WHERE name = ?", encode_text(name))
            number = None if row is None else row[0]
            self.put(FACTS, id=number, name=encode_text(name), value=encode_text(value))

    def _open(self) -> sqlite3.Connection:
        db = _connect(str(self.path or ":memory:"))
        try:
            _use_wal(db)
            db.execute("PRAGMA synchronous = NORMAL")
            if self._version(db) != VERSION:
                db.execute("BEGIN IMMEDIATE")
                # Another process may have been here in between.
                if self._version(db) == 0:
                    self._make(db)
                db.execute("COMMIT")
        except BaseException:  # also when interrupted; closing rolls back
            db.close()
            raise
        return db

    def _make(self, db: sqlite3.Connection) -> None:
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():  # none of ours beside another's
            raise ConfigError(f"{self.path}: this is no ledger and no run", "give another file")
        for statement in (sql for table in TABLES for sql in table.sql):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")

    def _opened_to_read(self) -> sqlite3.Connection:
        if self.path is None or not self.path.is_file():
            raise ConfigError(f"{self.path}: there is no such file", "give another file")
        uri = self.path.resolve().as_uri() + "?mode=ro"
        try:
            return self._read_by(uri)
        except sqlite3.OperationalError:
            # In a folder that cannot be written SQLite has nowhere to put its shared index. It
            # can do without where all is in the file itself and nobody can be writing.
            log = self.path.with_name(f"{self.path.name}-wal")
            if log.is_file() and log.stat().st_size:
                raise
            return self._read_by(uri + "&immutable=1")

    def _read_by(self, uri: str) -> sqlite3.Connection:
        db = _connect(uri, uri=True)
        try:
            version = self._version(db)
        except BaseException:  # also when interrupted: no connection may be left open
            db.close()
            raise
        if version == VERSION:
            return db
        db.close()
        raise ConfigError(f"{self.path}: this is no ledger and no run", "give another file")

    def _version(self, db: sqlite3.Connection) -> int:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if not 0 <= version <= VERSION:
            raise ConfigError(
                f"{self.path} is of version {version}, this editjudge reads {VERSION}",
                "give another file, or use a newer editjudge",
            )
        return int(version)

    def _damage_error(self, table: Table, number: object) -> StoreError:
        what = f"row {number} (table {table.name})"
        return StoreError(f"{self.path} is damaged: {what} is not as it was written", COPY)

    def _translate_error(self, error: sqlite3.Error | UnicodeDecodeError) -> Exception:
        """Translate an SQLite error for people; an error of our own in its use stays as it is."""
        if isinstance(error, UnicodeDecodeError):
            return StoreError(f"{self.path}: the file is damaged ({error.reason})", RESTORE)
        if str(error).startswith(_NOT_READ):
            return StoreError(f"{self.path}: the file is damaged ({error})", RESTORE)
        if str(error) == _CLOSED_MESSAGE:
            return StoreError(f"{self.path} was closed", "open it again, and read it inside `with`")
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or isinstance(error, sqlite3.IntegrityError):
            return error
        row = _ERRORS.get(code & 0xFF)  # the rest tells variants apart
        if row is None:
            return StoreError(f"{self.path}: {error}")
        what = row["what"].format(seconds=_BUSY_SECONDS)
        kind: type[EditjudgeError] = getattr(errors, row["kind"])
        return kind(f"{self.path}: {what} ({error})", row["fix"])


COPY = "restore a copy of the file"
_READ_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the latter where its message about a damaged file is no valid text."""
_NOT_READ = "Could not decode to UTF-8"
"""How the message of `sqlite3` about a text that is no UTF-8 begins."""
_CLOSED_MESSAGE = "Cannot operate on a closed database."
_ERRORS: dict[int, dict[str, str]] = {
    getattr(sqlite3, name): {**row, "what": what}
    for row in package_tables(__package__, "sqlite_errors.toml")["errors"]
    for name, what in row["what"].items()
}
RESTORE: str = _ERRORS[sqlite3.SQLITE_CORRUPT]["fix"]


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite itself does not wait where two processes do so at once."""
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        else:
            return
        time.sleep(0.01)


def _connect(where: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri)


def _as_stored(table: Table, name: str, value: Value) -> Value:
    """Convert a value to what SQLite returns for it, for the checksum."""
    if table.columns.get(name) == "REAL" and value is not None:
        return float(value) + 0.0  # SQLite has no negative zero
    return int(value) if isinstance(value, bool) else value


@functools.cache
def _insertion(table: Table) -> str:
    names, places = ", ".join(table.names), ", ".join("?" * len(table.names))
    return f"INSERT OR REPLACE INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608
