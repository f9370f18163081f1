"""Ways to the server: TLS, a pooler between, a server that stalls, a disk that is full."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from editjudge.base.config import PostgresAddress
from editjudge.base.errors import ConfigError
from editjudge.storage import postgres
from editjudge.storage.ledger import Ledger
from editjudge.storage.postgres_ledger import PostgresLedger
from editjudge.storage.shared_ledger import open_call_store, open_database
from editjudge_services.runtime.process import reserve_ports

from ..patience import patience, wait_until
from ..replies import count_replies
from ..small_disk import mount_disk
from ..unit.storage.small_store import ask, reply
from .server import PASSWORD, Server

REPLY = reply(cost=0.5)


def make_certificate(folder: Path, name: str) -> Path:
    """Make a certificate that is its own authority, and its key beside it."""
    out = folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=DNS:{name}", "-out", out, "-keyout", f"{out}.key"]
    subprocess.run(command, check=True, capture_output=True)
    return out


@contextmanager
def serve_pooler(server: Server, ledger_place: PostgresAddress, *lines: str) -> Iterator[PostgresAddress]:
    """A pooler that gives each transaction one of two sessions, whoever asks."""
    if (program := shutil.which("pgbouncer")) is None:
        pytest.skip("needs pgbouncer")
    folder = server.folder / secrets.token_hex(4)
    folder.mkdir()
    (port,) = reserve_ports([0])
    (folder / "users").write_text(f'"{ledger_place.url.rpartition("/")[2]}" "{PASSWORD}"\n')
    settings = [
        f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]",
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
        f"auth_type = plain\nauth_file = {folder}/users",
        "pool_mode = transaction\ndefault_pool_size = 2",
    ]
    (folder / "ini").write_text("\n".join([*settings, *lines, ""]))
    user = {"user": 65534, "group": 65534, "extra_groups": ()} if os.geteuid() == 0 else {}
    with (folder / "log").open("wb") as log:
        pooler = subprocess.Popen([program, folder / "ini"], stderr=log, cwd=folder, **user)

    def listens() -> bool:
        assert pooler.poll() is None, (folder / "log").read_text()
        with socket.socket() as link:
            return not link.connect_ex(("127.0.0.1", port))

    try:
        wait_until(listens)
        yield PostgresAddress(ledger_place.url.replace(str(server.port), str(port)))
    finally:
        pooler.terminate()
        pooler.wait()


async def test_modes_of_tls(server: Server, ledger_place: PostgresAddress, tmp_path: Path) -> None:
    """At the pooler, since the server of the tests is built without TLS."""
    authority = make_certificate(server.folder, "localhost")
    other = make_certificate(tmp_path, "other")
    for path in (authority, f"{authority}.key"):
        Path(path).chmod(0o644)
    tls = "client_tls_sslmode = require\nclient_tls_cert_file = {0}\nclient_tls_key_file = {0}.key"
    with serve_pooler(server, ledger_place, tls.format(authority)) as address:
        named = address.url.replace("127.0.0.1", "localhost")
        for url in (
            f"{named}?sslmode=verify-full&sslrootcert={authority}",
            f"{address.url}?sslmode=verify-ca&sslrootcert={authority}",
            f"{address.url}?sslmode=require",
        ):
            with open_database(PostgresAddress(url), 1.0) as ledger:
                await ledger.put(ask(), REPLY)
                assert await ledger.get(ask()) == REPLY
                assert all(each.pgconn.ssl_in_use for each in ledger._database._idle)
        refused = {
            f"{address.url}?sslmode=verify-full&sslrootcert={authority}": "does not match host",
            f"{named}?sslmode=verify-full&sslrootcert={other}": "certificate verify failed",
            f"{named}?sslmode=verify-full&sslrootcert={tmp_path}/none.pem": "does not exist",
            f"{named}?sslmode=disable": "SSL required",
        }
        for url, reason in refused.items():
            with pytest.raises(ConfigError, match=reason) as error:
                open_database(PostgresAddress(url), 1.0)
            assert PASSWORD not in str(error.value)
            assert "\n" not in str(error.value)


async def test_a_pooler_that_shares_sessions_between_transactions(
    server: Server, ledger_place: PostgresAddress
) -> None:
    """Prepared statements are given up where another session lacks them; teams stay apart."""
    with serve_pooler(server, ledger_place) as address, ExitStack() as opened:
        ledgers = [opened.enter_context(open_database(address, 1.0)) for _ in range(4)]
        red = [ledger.for_team("red") for ledger in ledgers]
        blue = [ledger.for_team("blue") for ledger in ledgers]
        for number in range(40):
            await red[number % 4].put(ask(number), REPLY)
            assert await blue[number % 3].get(ask(number)) is None
            assert await red[number % 3].get(ask(number)) == REPLY


async def test_a_server_that_stalls_is_left(
    server: Server, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", patience(1.0))
    with PostgresLedger(postgres.Postgres(ledger_place, 120.0, notes.append)) as ledger:
        await ledger.put(ask(), REPLY)
        name = ledger_place.url.rpartition("/")[2]
        sessions = server.execute("postgres", "SELECT usename, pid FROM pg_stat_activity")
        stalled = [pid for user, pid in sessions if user == name]
        assert stalled
        for pid in stalled:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert await ledger.get(ask()) == REPLY
        finally:
            for pid in stalled:
                os.kill(pid, signal.SIGCONT)
    assert len(notes) == 1
    assert "is lost, calls wait for it" in notes[0]


async def test_no_connection_is_cut_after_its_answer(
    ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may come in the moment in which the server counts as lost."""
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 0.01)
    notes: list[str] = []
    with closing(postgres.Postgres(ledger_place, 120.0, notes.append)) as database:
        connections: list[psycopg.Connection[postgres.Row]] = []
        assert database._execute("SELECT 1", {}, "x", connections) == [(1,)]
        unseen = asyncio.get_running_loop().create_future()
        watch = asyncio.create_task(postgres._wait_for_answer(unseen, connections))
        await asyncio.sleep(0.1)
        unseen.set_result([])
        await watch
        monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 20.0)
        assert await database.fetch("SELECT 2", {}, "x", waits=False) == [(2,)]
    assert not notes


async def test_a_disk_that_is_full_costs_no_reply(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress
) -> None:
    """The tables lie on a file system of 4 MB."""
    name, notes = ledger_place.url.rpartition("/")[2], []
    with mount_disk(server.folder / "disk", 4) as disk:
        try:
            os.chown(disk, 65534, 65534)
            server.execute("postgres", f"CREATE TABLESPACE small LOCATION '{disk}'")
            with ExitStack() as opened:
                own = opened.enter_context(Ledger(tmp_path / "run.sqlite"))
                run = open_call_store(own, ledger_place, 5.0, notes.append, opened)
                server.execute(ledger_place.url, "ALTER TABLE editjudge.calls SET TABLESPACE small")
                for number in range(2000):
                    async with run.claim(ask(number)) as stored:
                        assert stored is None
                        text = os.urandom(4000).hex()
                        await run.put(ask(number), reply(text))
                    if notes:
                        break
                assert count_replies(own) == number + 1
            (note,) = notes
            assert "No space left on device" in note
            assert note.startswith("this session no longer uses the ledger")
        finally:
            server.execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")
            server.execute("postgres", "DROP TABLESPACE IF EXISTS small")
