from __future__ import annotations

from collections.abc import Iterator

import pytest

from editjudge.base.config import PostgresAddress
from editjudge.storage.postgres_ledger import PostgresLedger
from editjudge.storage.shared_ledger import open_ledger

from .server import PASSWORD, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


@pytest.fixture
def ledger_place(server: Server) -> PostgresAddress:
    """The address of an empty database."""
    return server.make_database()


@pytest.fixture
def ledger(ledger_place: PostgresAddress) -> Iterator[PostgresLedger]:
    """A ledger in an empty database."""
    with open_ledger(ledger_place, 60.0) as opened:
        yield opened
