"""The SQLite file under ledgers and runs: its tables, its versions, and what can go wrong.

Rows are written by `put`, `change` and `delete` alone, and what is selected has been compared with
the checksums that these wrote; see `checksums`.

Committed is kept: a process may end at any moment, however it comes, and loses at most the
transaction it was in. When the machine goes down the last transactions can be lost too, never
half of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any, ParamSpec, TypeAlias, TypeVar

from ..base.errors import ConfigError, EditjudgeError, StoreError
from .checksums import Checks, Damage, Value, as_stored, checked, damaged, expressions, sound
from .codec import from_text, to_text
from .damage import HEAD, head_damage, page_size, told
from .tables import FACTS, TABLES, TEXTS, VERSION, Table

Row: TypeAlias = tuple[Any, ...]
P = ParamSpec("P")
T = TypeVar("T")

_CACHED = 4096
_BUSY_SECONDS = 30
_CONNECTED: dict[str, Any] = {
    "isolation_level": None,
    "timeout": _BUSY_SECONDS,
    "check_same_thread": False,
}


class Database:
    """One connection, for one thread after another.

    A transaction keeps other threads out. What asynchronous code does with it goes through
    `aside`, in a thread of its own, one after another in the order of the calls.

    Args:
        path: None keeps everything in memory.
        read_only: Changes nothing and takes no lock; sees what others commit meanwhile.

    Raises:
        ConfigError: the file cannot be opened, is something else, or of a newer editjudge.
        StoreError: it is damaged.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False) -> None:
        self.path = path
        self._checks = Checks()
        self._depth = 0
        self._turn = RLock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="editjudge-store")
        self._ids: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._all: dict[int, str] | None = None
        self._version_of_others: Row | None = None
        try:
            if path is not None and not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._check_whole()
            self._db = self._opened_to_read() if read_only else self._opened()
        except OSError as error:
            raise ConfigError(f"{path}: {error}", "give another file") from error
        except _RAISED as error:
            raise self._translated(error) from error

    def check_structure(self) -> None:
        """See that the file's pages belong together: rows that none finds have no checksum.

        It reads the whole file: some 0.05 s for 50,000 verdicts.

        Raises:
            StoreError: they do not.
        """
        (told,) = self.one("PRAGMA integrity_check(1)") or ("nothing can be read",)
        if told != "ok":
            what = " ".join(str(told).removeprefix("*** in database main ***").split())
            raise StoreError(f"{self.path} is damaged: {what}", RESTORE)

    def close(self) -> None:
        """Close the file, once what was asked of it is done."""
        self._thread.shutdown()
        self._db.close()

    async def aside(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Do work with this database without holding up the event loop.

        It is done also where the caller is cancelled meanwhile: what was paid for is kept.
        """
        done = self._thread.submit(functools.partial(work, *args, **more))
        result = asyncio.wrap_future(done)
        # Nobody is left to ask why it failed where the caller is cancelled meanwhile.
        result.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(result)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all of the block or nothing; inside another transaction, with that one.

        Raises:
            StoreError: the disk is full or fails; what was committed before is kept.
        """
        with self._turn:
            yield from self._in_transaction()

    def _in_transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        self._depth += 1
        try:
            self.run("BEGIN IMMEDIATE")
            self._look_for_others()
            yield
            self.run("COMMIT")
        except BaseException:  # an interruption must not leave half a transaction either
            self._forget()
            # Where the disk is full SQLite has rolled back by itself.
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise
        finally:
            self._depth -= 1

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read all of the block as of one moment; inside a transaction, as that has it."""
        with self._turn:
            if self._depth:
                yield
                return
            self.run("BEGIN")
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._db.in_transaction:
                    self.run("COMMIT")

    def _look_for_others(self) -> None:
        """Forget texts where another connection has written: it may have purged them."""
        version = self.one("PRAGMA data_version")
        if version != self._version_of_others:
            self._version_of_others = version
            self._forget()

    def _forget(self) -> None:
        """Read numbers and texts anew: those that are held may stand for nothing."""
        self._ids.clear()
        self._texts.clear()
        self._all = None

    def run(self, sql: str, *values: object) -> sqlite3.Cursor:
        """Execute one statement."""
        return self._execute(sql, values)

    def _execute(self, sql: str, values: tuple[object, ...] | dict[str, object]) -> sqlite3.Cursor:
        # Comparing checksums takes the interpreter's lock inside SQLite's; a thread that has the
        # former and waits for the latter would wait for ever.
        with self._turn:
            try:
                return self._db.execute(sql, values)
            except _RAISED as error:
                raise self._translated(error) from error

    def put(self, table: Table, *, instead: str = "", **values: object) -> int:
        """Write a row, with its checksums.

        Args:
            instead: What becomes of a row of the same key that is there: `REPLACE`, or `IGNORE`
                to leave it; by default there must be none.
            values: By column; others stay empty.

        Returns:
            Its number, where rows of this table are numbered.
        """
        row = {
            name: as_stored(table, name, values.pop(name, None))
            for name in (*table.columns, *table.long)
        }
        if values:
            raise TypeError(f"{table.name} has no {', '.join(values)}")
        if not table.is_numbered or row["id"] is not None:
            return self._write(table, instead, row)
        with self.transaction():
            row["id"] = self._next_number(table)
            return self._write(table, instead, row)

    def _write(self, table: Table, instead: str, row: dict[str, Value]) -> int:
        whole = checked(table, row)
        self.run(_insertion(table, instead), *[whole[name] for name in table.names])
        number = row.get("id", 0)
        return number if isinstance(number, int) else 0

    def _next_number(self, table: Table) -> int:
        row = self.one(f"SELECT ifnull(max(id), 0) + 1 FROM main.{table.name}")  # noqa: S608
        return int(row[0]) if row else 1

    def change(self, table: Table, where: str, at: Mapping[str, object], **values: object) -> int:
        """Change rows, and their checksums.

        Args:
            where: A condition, in which names after a colon stand for those of `at`.
            at: Values by name, which must not be names of columns that are changed.
            values: By column, none of them long.

        Returns:
            How many rows there were.
        """
        stored = {name: as_stored(table, name, value) for name, value in values.items()}
        sets = ", ".join(f"{name} = :{name}" for name in stored)
        done = self._execute(
            f"UPDATE main.{table.name} SET {sets},"  # noqa: S608 - names of columns, never data
            f" checksum = row_checksum({expressions(table, stored)})"
            f" WHERE ({where}) AND {sound(table)}",
            {**stored, **at},
        )
        return done.rowcount

    def delete(self, table: Table, where: str, *values: object) -> int:
        """Delete rows; how many there were."""
        return self.run(f"DELETE FROM main.{table.name} WHERE {where}", *values).rowcount  # noqa: S608

    def shrink(self) -> None:
        """Give the room of what was deleted back; others wait meanwhile.

        Raises:
            StoreError: the disk is full, or another process is busy for long; nothing is lost.
        """
        if self.path is None:
            return
        with self._turn:
            try:
                # On a connection of its own: our views stand where VACUUM looks for tables.
                with contextlib.closing(_connected(str(self.path))) as db:
                    db.execute("VACUUM")
            except _RAISED as error:
                raise self._translated(error) from error

    def one(self, sql: str, *values: object) -> Row | None:
        """The first row, or None."""
        with contextlib.closing(self.each(sql, *values)) as rows:
            return next(rows, None)

    def each(self, sql: str, *values: object) -> Generator[Row, None, None]:
        """Rows one by one, as of the moment of the first."""
        cursor = self.run(sql, *values)
        try:
            while rows := self._fetched(cursor):
                yield from rows
        finally:
            # Who never comes to an end may be closed after the file.
            with self._turn, contextlib.suppress(sqlite3.ProgrammingError):
                cursor.close()

    def _fetched(self, cursor: sqlite3.Cursor) -> list[Row]:
        with self._turn:
            try:
                return cursor.fetchmany(256)
            except _RAISED as error:
                raise self._translated(error) from error

    def rows(self, table: Table, where: str = "", *values: object) -> Iterator[Row]:
        """Rows of one table without its long values, compared here: for a hundred thousand.

        As from `each` no row comes that is not as it was written. One that is compared where it
        was fetched costs half as much as one that SQLite has compared by a call of its own.

        Args:
            where: What follows the table's name, in columns of the table.

        Returns:
            Each row's checksum, then its `checked` columns, with texts as their bytes.
        """
        names = ", ".join(("checksum", expressions(table)))
        cursor = self.run(f"SELECT {names} FROM main.{table.name} {where}", *values)  # noqa: S608
        try:
            while rows := self._fetched(cursor):
                for row in damaged(rows):
                    key = (row[1 + table.checked.index(name)] for name in table.key)
                    raise self._damaged(Damage(table, tuple(key)))
                yield from rows
        finally:
            with self._turn, contextlib.suppress(sqlite3.ProgrammingError):
                cursor.close()

    def intern(self, text: str) -> int:
        """The number that stands for a text, given to it here where it has none."""
        if (known := self._ids.get(text)) is not None:
            return known
        stored = to_text(text)
        row = self.one("SELECT id FROM texts WHERE text = ?", stored)
        if row is None:
            self._all = None
        number = self.put(TEXTS, text=stored) if row is None else int(row[0])
        if len(self._ids) >= _CACHED:
            self._ids.clear()
        self._ids[text] = number
        return number

    def text(self, number: int) -> str:
        """The text that a number stands for."""
        if (known := self._texts.get(number)) is not None:
            return known
        row = self.one("SELECT text FROM texts WHERE id = ?", number)
        if row is None:
            raise StoreError(f"{self.path} is damaged: it lacks text {number}", RESTORE)
        if len(self._texts) >= _CACHED:
            self._texts.clear()
        return self._texts.setdefault(number, from_text(row[0]))

    def number(self, text: str) -> int | None:
        """The number that stands for a text; None where it has none."""
        row = self.one("SELECT id FROM texts WHERE text = ?", to_text(text))
        return None if row is None else int(row[0])

    def texts(self) -> Mapping[int, str]:
        """All texts by the numbers that stand for them, for those who go through all rows.

        They are read once, until a text is new; another process may have put in more.
        """
        if self._all is None:
            rows = self.rows(TEXTS)
            self._all = {number: text.decode("utf-8", "surrogatepass") for _, number, text in rows}
        return self._all

    def fact(self, name: str) -> str | None:
        """Something found out before, or None."""
        row = self.one("SELECT value FROM facts WHERE name = ?", name)
        return None if row is None else str(row[0])

    def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        with self.transaction():
            self.put(FACTS, instead="REPLACE", name=name, value=value)

    def _opened(self) -> sqlite3.Connection:
        db = _connected(str(self.path or ":memory:"))
        try:
            self._checks.register(db)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if self._version(db) != VERSION:
                db.execute("BEGIN IMMEDIATE")
                # Another process may have been here in between.
                if self._version(db) == 0:
                    self._check_empty(db)
                    for table in TABLES:
                        db.execute(table.sql)
                        if table.index:
                            db.execute(table.index)
                db.execute(f"PRAGMA user_version = {VERSION}")
                db.execute("COMMIT")
            self._checks.shadow(db)
        except BaseException:  # also when interrupted; closing rolls back
            db.close()
            raise
        return db

    def _check_whole(self) -> None:
        """Refuse a file with a damaged head, and one that was cut within a page.

        SQLite takes the one for another kind of file, and reads the rest of the other as zeros. One
        that was cut between two pages it finds by itself. While there is a log, pages may be on
        their way from it to the file.
        """
        if self.path is None or not self.path.is_file():
            return
        with self.path.open("rb") as file:
            head = file.read(HEAD)
        why = head_damage(head)
        if not why and self.path.stat().st_size % page_size(head) and not self._log_bytes():
            why = "its end is missing"
        if why:
            raise StoreError(f"{self.path}: the file is damaged ({why})", RESTORE)

    def _check_empty(self, db: sqlite3.Connection) -> None:
        """Put no tables of ours beside somebody else's."""
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise ConfigError(f"{self.path}: this is no ledger and no run", "give another file")

    def _log_bytes(self) -> int:
        """Size of the write-ahead log; 0 where there is none."""
        if self.path is None:
            return 0
        try:
            return self.path.with_name(self.path.name + "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def _opened_to_read(self) -> sqlite3.Connection:
        if self.path is None or not self.path.is_file():
            raise ConfigError(f"{self.path}: there is no such file", "give another file")
        uri = self.path.resolve().as_uri() + "?mode=ro"
        try:
            return self._read_by(uri)
        except sqlite3.OperationalError:
            # In a folder that cannot be written SQLite has nowhere to put its shared index. It
            # can do without where all is in the file itself and nobody can be writing.
            if self._log_bytes():
                raise
            return self._read_by(uri + "&immutable=1")

    def _read_by(self, uri: str) -> sqlite3.Connection:
        db = _connected(uri, uri=True)
        try:
            version = self._version(db)
        except BaseException:  # also when interrupted: no connection may be left open
            db.close()
            raise
        if version == VERSION:
            self._checks.register(db)
            self._checks.shadow(db)
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

    def _damaged(self, damage: Damage) -> StoreError:
        what = told(self._db, damage)
        return StoreError(f"{self.path} is damaged: {what} is not as it was written", COPY)

    def _translated(self, error: sqlite3.Error | UnicodeDecodeError) -> Exception:
        """The error for people; a mistake of ours in using SQLite stays what it is."""
        if isinstance(error, UnicodeDecodeError):
            return StoreError(f"{self.path}: the file is damaged ({error.reason})", RESTORE)
        if damage := self._checks.taken():
            return self._damaged(damage)
        if str(error).startswith(_NOT_READ):
            return StoreError(f"{self.path}: the file is damaged ({error})", RESTORE)
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or isinstance(error, sqlite3.IntegrityError):
            return error
        known = _KINDS.get(code & 0xFF)  # the rest tells variants apart
        if known is None:
            return StoreError(f"{self.path}: {error}")
        kind, what, mend = known
        return kind(f"{self.path}: {what} ({error})", mend)


COPY = "restore a copy of the file"
_RAISED = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the latter where what it says of a damaged file is no text."""
_NOT_READ = ("Could not decode to UTF-8", "user-defined function raised")
"""How Python says that a text, or a row to be compared, is of no known form."""
RESTORE = "restore a copy; what can still be read: sqlite3 FILE .recover"
_ROOM = "make room on its disk and give the same command again; what was stored is kept"
_WRITABLE = "give another file, or make it and its folder writable"
_KINDS: dict[int, tuple[type[EditjudgeError], str, str]] = {
    sqlite3.SQLITE_FULL: (StoreError, "the disk is full", _ROOM),
    sqlite3.SQLITE_IOERR: (StoreError, "the disk is full or fails", _ROOM),
    sqlite3.SQLITE_CORRUPT: (StoreError, "the file is damaged", RESTORE),
    sqlite3.SQLITE_BUSY: (
        StoreError,
        f"another process writes for more than {_BUSY_SECONDS} s",
        "wait for it or end it",
    ),
    sqlite3.SQLITE_NOTADB: (ConfigError, "this is no ledger and no run", "give another file"),
    sqlite3.SQLITE_READONLY: (ConfigError, "the file cannot be written", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: (ConfigError, "the file cannot be opened", _WRITABLE),
    sqlite3.SQLITE_PERM: (ConfigError, "the file cannot be opened", _WRITABLE),
}


def _connected(where: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(
        where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri
    )


@functools.cache
def _insertion(table: Table, instead: str) -> str:
    how = f"OR {instead} " if instead else ""
    names, places = ", ".join(table.names), ", ".join("?" * len(table.names))
    return f"INSERT {how}INTO main.{table.name} ({names}) VALUES ({places})"  # noqa: S608
