"""Teams in one database: the server keeps them apart, whatever our statements ask."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from editjudge.base.config import PostgresAddress
from editjudge.base.errors import ConfigError
from editjudge.storage import postgres, postgres_ledger
from editjudge.storage.postgres_ledger import PostgresLedger
from editjudge.storage.shared_ledger import open_ledger

from ..patience import patience
from ..unit.storage.small_store import ask, reply
from .server import PASSWORD, Server

REPLY, OTHER = reply(cost=0.5), reply("other", 0.25)


def forget_teams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the team out of every condition of our statements."""
    statements = dict(postgres_ledger._load_statements())
    for name, sql in statements.items():
        statements[name] = re.sub(r"team = %\(team\)s( AND|(?=;| ))", r"true\1", sql)
    # What stays is the team of rows that are written.
    assert {name for name in statements if "%(team)s" in statements[name]} == {*("claim", "put", "put_fact")}
    monkeypatch.setattr(postgres_ledger, "_load_statements", lambda: statements)


async def read(ledger: PostgresLedger, key: str) -> list[object]:
    """What every statement that reads or deletes does with a call."""
    async with ledger.claim(ask()) as claimed:
        pass
    records = await ledger.get_records([key])
    stored = await ledger._fetch("stored", ledger._of(key))
    told = [claimed, await ledger.get(ask()), records, stored, await ledger.get_fact("name")]
    return [*told, await ledger.drop([key]), await ledger.purge(team=ledger.team)]


@pytest.mark.parametrize("has_bug", [False, True])
async def test_no_bug_of_a_statement_shows_a_team_what_another_has(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch, has_bug: bool
) -> None:
    if has_bug:
        forget_teams(monkeypatch)
    red, blue = ledger.for_team("red"), ledger.for_team("blue")
    await red.put(ask(), REPLY)
    await red.put_fact("name", "value")
    assert await read(blue, ask().key) == [None, None, {}, [], None, 0, 0]
    assert await blue._fetch("get", blue._of(ask().key)) == []
    every = await blue._database.fetch("SELECT team FROM editjudge.calls", {}, "xblue")
    assert every == []
    assert await red.get(ask()) == REPLY
    await blue.put(ask(), OTHER)
    assert (await red.get(ask()), await blue.get(ask())) == (REPLY, OTHER)


async def test_a_superuser_is_shown_what_the_bug_asks_for(
    server: Server, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test before this one can fail."""
    forget_teams(monkeypatch)
    with open_ledger(PostgresAddress(server.url(ledger_place.url.rpartition("/")[2])), 1.0) as ledger:
        assert not ledger.keeps_teams_apart
        await ledger.for_team("red").put(ask(), REPLY)
        assert await ledger.for_team("blue").get(ask()) == REPLY


async def test_the_team_ends_with_the_statement(ledger: PostgresLedger) -> None:
    assert ledger.keeps_teams_apart
    await ledger.for_team("red").put(ask(), REPLY)
    (connection,) = ledger._database._idle
    assert connection.execute("SELECT count(*) FROM editjudge.calls").fetchall() == [(0,)]


async def test_a_purge_by_age_and_by_team(ledger: PostgresLedger) -> None:
    red, blue = ledger.for_team("red"), ledger.for_team("blue")
    for number in range(2500):
        await red.put(ask(number), REPLY)
    await blue.put(ask(), OTHER)
    between = time.time()
    await red.put(ask(2500), REPLY)
    async with blue.claim(ask(1)):
        purging = asyncio.create_task(ledger.purge(between, team="red"))
        # Who writes is not stopped by it.
        async with asyncio.timeout(patience(20)):
            await red.put(ask(2501), REPLY)
        assert await purging == 2500
        assert await ledger.count_by_team() == {"red": 2, "blue": 1}
        assert await red.get(ask(2500)) == REPLY
        assert [*await ledger.get_purges()] == ["red"]
        assert await ledger.purge() == 3
    assert await ledger.count_by_team() == {}


async def test_an_older_database_is_brought_up_and_loses_nothing(
    server: Server, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process of the older version is at work, whose run then goes on without it."""
    sql = Path(postgres.__file__).with_suffix(".sql").read_text()
    first = postgres._VERSION_MARK.split(sql)[1].encode()
    with postgres.psycopg.connect(ledger_place.url, password=PASSWORD, autocommit=True) as older:
        older.execute(first)
        put = "INSERT INTO editjudge.calls (team, key, document) VALUES ('', 'k', 'd')"
        older.execute(put)
        older.execute("INSERT INTO editjudge.calls (team, key, owner) VALUES ('', 'l', 'o')")
        with open_ledger(ledger_place, 1.0) as ledger:
            assert await ledger.count_by_team() == {"": 1}
        with pytest.raises(postgres.psycopg.errors.InsufficientPrivilege):
            older.execute(put.replace("'k'", "'m'"))
        assert older.execute("SELECT * FROM editjudge.calls").fetchall() == []
    monkeypatch.setattr(postgres, "VERSION", 1)
    with pytest.raises(ConfigError, match="of version 2, this editjudge reads 1"):
        open_ledger(ledger_place, 1.0)
