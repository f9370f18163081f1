"""Connections to a PostgreSQL database, and what happens while its server cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ..base.config import PostgresAddress
from ..base.errors import ConfigError, StoreError

Row: TypeAlias = tuple[Any, ...]
VERSION = 1
"""Version of the tables (`postgres.sql`)."""
_CONNECTIONS = 8
_DEFAULTS = (
    "target_session_attrs=read-write connect_timeout=5 fallback_application_name='editjudge'"
    " keepalives_idle=5 keepalives_interval=2 keepalives_count=3 tcp_user_timeout=10000"
)
"""What an address may change; a server that is cut off counts as lost after ten seconds."""
_CURABLE = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
_INCURABLE = psycopg.errors.DiskFull
_RETRY_SECONDS = 0.5
_SCHEMA_LOCK = 0x656A_6C65_6467_6572
"""The advisory lock of who makes the tables."""
_TABLES_EXIST = "SELECT 1 FROM pg_tables WHERE (schemaname, tablename) = ('editjudge', 'version')"


class Postgres:
    """A database with the tables of ledgers, which are made where they are missing.

    Each statement is a transaction of its own, and may be repeated. It runs in one of a few threads
    with a connection each, so that it is bound to no event loop. While the server cannot be reached
    or is read-only, statements are repeated for as long as `patience` says.

    Args:
        address: The address; `libpq` finds the password in PGPASSWORD or a password file.
        patience: Seconds to wait for a server that was lost.
        say: Receives one line whenever the server is lost.

    Raises:
        ConfigError: there is no such server or database, or its tables are of a newer editjudge.
    """

    def __init__(
        self, address: PostgresAddress, patience: float, say: Callable[[str], None]
    ) -> None:
        self.where = address.url.partition("?")[0]
        self._patience = patience
        self._say = say
        self._idle: list[psycopg.Connection[Row]] = []
        self._lost_time: float | None = None
        try:
            defaults: dict[str, Any] = conninfo_to_dict(_DEFAULTS)
            self._parameters = defaults | conninfo_to_dict(address.url)
            with self._connect() as connection:
                self._make_tables(connection)
        except psycopg.Error as error:
            # Without its cause, which quotes the whole address.
            raise ConfigError(
                f"the ledger {self.where} cannot be used: {_describe(error)}",
                "see docs/configuration.md#a-ledger-in-postgresql",
            ) from None
        self._threads = ThreadPoolExecutor(_CONNECTIONS, "editjudge-ledger")

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(**self._parameters, autocommit=True)

    def _make_tables(self, connection: psycopg.Connection[Row]) -> None:
        with connection.transaction():  # others that begin now wait for each other
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            if not connection.execute(_TABLES_EXIST).fetchall():
                connection.execute(Path(__file__).with_suffix(".sql").read_bytes())
        version = connection.execute("SELECT number FROM editjudge.version").fetchall()[0][0]
        if version > VERSION:
            raise ConfigError(
                f"the ledger {self.where} is of version {version}, this editjudge reads {VERSION}",
                "give another database, or use a newer editjudge",
            )

    def close(self) -> None:
        """Close the connections, after the statements that run."""
        self._threads.shutdown()
        self._close_idle()

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):  # other threads take from the list too
            while True:
                self._idle.pop().close()

    async def fetch(
        self, sql: str, values: Mapping[str, object], *, waits: bool = True
    ) -> list[Row]:
        """Execute a statement, and return the rows that it returns.

        A statement that has begun ends even where the caller is cancelled meanwhile.

        Args:
            waits: Whether to wait for a server that was lost.

        Raises:
            StoreError: the server was lost for too long, its disk is full, or it rejects this.
        """
        while True:
            future = asyncio.get_running_loop().run_in_executor(
                self._threads, self._execute, sql, values
            )
            # Nobody is left to ask why it failed where the caller is cancelled meanwhile.
            future.add_done_callback(lambda task: task.cancelled() or task.exception())
            try:
                rows = await asyncio.shield(future)
            except asyncio.CancelledError:
                await asyncio.wait([future])
                raise
            except psycopg.Error as error:
                self._raise_unless_lost(error, waits=waits)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._lost_time = None
                return rows

    def _execute(self, sql: str, values: Mapping[str, object]) -> list[Row]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            rows: list[Row] = connection.execute(sql.encode(), values, binary=True).fetchall()
        except BaseException:  # whatever it was, the next statement gets a new connection
            connection.close()
            self._close_idle()
            raise
        self._idle.append(connection)
        return rows

    def _raise_unless_lost(self, error: psycopg.Error, *, waits: bool) -> None:
        """Raise an error for which waiting is no cure; say that the server is lost."""
        now = time.monotonic()
        self._lost_time = self._lost_time or now
        is_curable = waits and isinstance(error, _CURABLE) and not isinstance(error, _INCURABLE)
        if not is_curable or now - self._lost_time > self._patience:
            raise StoreError(f"{self.where}: {_describe(error)}") from None
        if self._lost_time == now:
            self._say(
                f"the ledger {self.where} is lost, calls wait for it up to {self._patience:.0f} s:"
                f" {_describe(error)}"
            )


def _describe(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    return next(iter(str(error).splitlines()), type(error).__name__)
