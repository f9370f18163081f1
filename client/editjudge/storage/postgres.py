"""Connections to a PostgreSQL database, and what happens while its server cannot be reached."""

import asyncio
import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ..base.config import PostgresAddress
from ..base.errors import ConfigError, StoreError

# It would say in its own words what `say` says.
logging.getLogger("psycopg").setLevel(logging.ERROR)

Row: TypeAlias = tuple[Any, ...]
VERSION = 2
"""Version of the tables (`postgres.sql`)."""
ALL_TEAMS = "*"
_CONNECTIONS = 8
_DEFAULTS = (
    "target_session_attrs=read-write connect_timeout=5 fallback_application_name='editjudge'"
    " keepalives_idle=5 keepalives_interval=2 keepalives_count=3 tcp_user_timeout=10000"
)
"""What an address may change; a server that is cut off counts as lost after ten seconds."""
_CURABLE = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
_INCURABLE = psycopg.errors.DiskFull
_NOT_PREPARED = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)
"""What comes of prepared statements where a pooler gives each transaction another session."""
_RETRY_SECONDS = 0.5
_ANSWER_SECONDS = 20.0
"""Seconds after which a server that does not answer counts as lost."""
_SET_TEAM = b"SELECT set_config('editjudge.team', %s, true)"
_SCHEMA_LOCK = 0x656A_6C65_6467_6572
"""The advisory lock of who makes the tables."""
_TABLES_EXIST = "SELECT 1 FROM pg_tables WHERE (schemaname, tablename) = ('editjudge', 'version')"
_VERSION_MARK = re.compile(r"^-- version \d+$", re.MULTILINE)
_SEES_ALL = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"


class Postgres:
    """A database with the tables of ledgers, which are made where they are missing.

    Each statement is a transaction of its own, and may be repeated. It runs in one of a few threads
    with a connection each, so that it is bound to no event loop. While the server cannot be reached
    or is read-only, statements are repeated for as long as `patience` says.

    Args:
        address: The address; `libpq` finds the password in PGPASSWORD or a password file.
        patience: Seconds to wait for a server that was lost.
        say: Receives one line whenever the server is lost.

    Attributes:
        where: The server and the database.
        return_time: When the server came back after it was lost, by the clock of `monotonic`.
        sees_all: Whether the role sees the rows of all teams, as a superuser does.

    Raises:
        ConfigError: there is no such server or database, or its tables are of a newer editjudge.
    """

    def __init__(self, address: PostgresAddress, patience: float, say: Callable[[str], None]) -> None:
        self.where = address.url.partition("?")[0]
        self._patience = patience
        self._say = say
        self._idle: list[psycopg.Connection[Row]] = []
        self._lost_time: float | None = None
        self.return_time = float("-inf")
        try:
            defaults: dict[str, Any] = conninfo_to_dict(_DEFAULTS)
            self._parameters = defaults | conninfo_to_dict(address.url)
            with self._connect() as connection:
                self._make_tables(connection)
                self.sees_all = any(connection.execute(_SEES_ALL).fetchall()[0])
        except psycopg.Error as error:
            # Without its cause, which quotes the whole address.
            raise ConfigError(
                f"the ledger {self.where} cannot be used: {_describe(error)}",
                "see docs/howto/configuration.md#a-ledger-in-postgresql",
            ) from None
        self._threads = ThreadPoolExecutor(_CONNECTIONS, "editjudge-ledger")

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(**self._parameters, autocommit=True)

    def _make_tables(self, connection: psycopg.Connection[Row]) -> None:
        with connection.transaction():  # others that begin now wait for each other
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            version = 0
            if connection.execute(_TABLES_EXIST).fetchall():
                rows = connection.execute("SELECT number FROM editjudge.version").fetchall()
                version = rows[0][0]
            sql = Path(__file__).with_suffix(".sql").read_text("utf-8")
            for step in _VERSION_MARK.split(sql)[version + 1 :]:
                connection.execute(step.encode())
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

    async def fetch(self, sql: str, values: Mapping[str, object], team: str, *, waits: bool = True) -> list[Row]:
        """Execute a statement, and return the rows that it returns.

        A statement that has begun ends even where the caller is cancelled meanwhile.

        Args:
            team: `x` and the hex digits of the team whose rows the statement may see; `ALL_TEAMS`
                for all rows.
            waits: Whether to wait for a server that was lost.

        Raises:
            StoreError: the server was lost for too long, its disk is full, or it rejects this.
        """
        while True:
            connections: list[psycopg.Connection[Row]] = []
            began = time.monotonic()
            future = asyncio.get_running_loop().run_in_executor(
                self._threads, self._execute, sql, values, team, connections
            )
            end = asyncio.ensure_future(_wait_for_answer(future, connections))
            try:
                await asyncio.shield(end)
                rows = future.result()
            except asyncio.CancelledError:
                await end
                future.exception()  # nobody is left to ask why it failed
                raise
            except psycopg.Error as error:
                self._raise_unless_lost(error, began, waits=waits)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                if self._lost_time is not None:
                    self._lost_time, self.return_time = None, time.monotonic()
                return rows

    def _execute(
        self, sql: str, values: Mapping[str, object], team: str, connections: list[psycopg.Connection[Row]]
    ) -> list[Row]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        connections[:] = [connection]
        try:
            # Both are one transaction, so that the team ends with the statement, and one journey.
            with connection.pipeline():
                connection.execute(_SET_TEAM, (team,))
                cursor = connection.execute(sql.encode(), values, binary=True)
            rows: list[Row] = cursor.fetchall()
        except BaseException as error:  # whatever it was, the next statement gets a new connection
            connection.close()
            self._close_idle()
            if isinstance(error, _NOT_PREPARED) and self._parameters.get("prepare_threshold", 1):
                self._parameters["prepare_threshold"] = None
                return self._execute(sql, values, team, connections)
            raise
        try:
            self._idle.append(connections.pop())
        except IndexError:  # it is being cut
            connection.close()
        return rows

    def _raise_unless_lost(self, error: psycopg.Error, began: float, *, waits: bool) -> None:
        """Raise an error for which waiting is no cure; say that the server is lost."""
        now = time.monotonic()
        is_curable = waits and isinstance(error, _CURABLE) and not isinstance(error, _INCURABLE)
        if is_curable and began < self.return_time:
            return  # its connection is from before the server came back, so it is not lost again
        self._lost_time = self._lost_time or now
        if not is_curable or now - self._lost_time > self._patience:
            raise StoreError(f"{self.where}: {_describe(error)}") from None
        if self._lost_time == now:
            self._say(
                f"the ledger {self.where} is lost, calls wait for it up to {self._patience:.0f} s: {_describe(error)}"
            )


async def _wait_for_answer(future: asyncio.Future[list[Row]], connections: list[psycopg.Connection[Row]]) -> None:
    """Wait for a statement; a connection without an answer is cut, which ends the statement.

    Args:
        connections: The connection of the statement while it runs. Who takes it out disposes of it,
            so that no connection is cut that another statement may use.
    """
    while not (await asyncio.wait([future], timeout=_ANSWER_SECONDS))[0]:
        with contextlib.suppress(IndexError, OSError, psycopg.Error):
            number = os.dup(connections.pop().fileno())
            with socket.socket(fileno=number) as link:
                link.shutdown(socket.SHUT_RDWR)


def _describe(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says."""
    return next(iter(str(error).splitlines()), type(error).__name__)
