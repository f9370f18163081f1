"""Replicas of the Judge service on one database: what they share, and what is deleted."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import asdict

import pytest

from editjudge.base.config import PostgresAddress
from editjudge.base.errors import ConfigError
from editjudge.service import open_database
from editjudge_services.gateway.calls import CallCache
from editjudge_services.gateway.retention import Holdings, measure, purge, read_usage
from editjudge_services.gateway.usage import COUNTS, TeamUsage, UsageLog

from .. import judge_service
from ..e2e.conftest import await_run
from ..judge_service import RunningService, serve_priced
from ..patience import until
from ..unit.storage.small_store import ask, reply
from .server import Server


async def score(service: RunningService, team: str) -> None:
    await service.score(team, instruction="paint a zeppelin")


async def test_replicas_share_a_teams_replies_and_no_others(ledger_place: PostgresAddress) -> None:
    judge = judge_service.scripted_judge()
    async with judge.serving() as url, AsyncExitStack() as replicas:
        here, there = [await replicas.enter_async_context(serve_priced(url, ledger_place)) for _ in range(2)]
        probes = len(judge.requests)
        # At the same moment, by both: one of them asks the judge.
        await asyncio.gather(score(here, "a"), score(there, "a"))
        asked = len(judge.requests) - probes
        await score(there, "a")
        assert len(judge.requests) == probes + asked
        await score(there, "b")
        assert len(judge.requests) == probes + 2 * asked, "another team pays for its own"
        salts = {one.service._cache.for_team("a").salt for one in (here, there)}
        assert await purge(ledger_place, [], "a", None) == Holdings(asked, 1, 0)
        await here.service._cache.forget(0)
        assert here.service._cache.for_team("a").salt not in salts
        await score(here, "a")
        assert len(judge.requests) == probes + 3 * asked
    used = {team: each for (_, team), each in (await read_usage(ledger_place)).items()}
    assert {team: each.calls for team, each in used.items()} == {"a": asked, "b": asked}
    assert await measure(ledger_place) == {team: Holdings(asked, 1, 0) for team in "ab"}
    told = await await_run("serve", "purge", ledger_place.url, "--team", "b", "--older-than", "0", "--json")
    assert told.json == [{"team": "b", "replies": asked, "usage_days": 0, "audit_lines": 0}]
    told = await await_run("serve", "usage", ledger_place.url, "--json", "--team", "b")
    assert [(row["team"], row["calls"]) for row in json.loads(told.out)] == [("b", asked)]


async def test_usage_is_added_once_however_often_it_is_sent(ledger_place: PostgresAddress) -> None:
    """A statement is repeated where the connection was lost before its answer came."""
    usage = TeamUsage(*range(1, len(COUNTS) + 1))
    log, other = UsageLog(ledger_place, print), UsageLog(ledger_place, print)
    async with log.open(), other.open():
        for each in (log, log, other):
            each.add("a", usage)
            await each.flush()
        assert [*(await read_usage(ledger_place)).values()] == [usage + usage + usage]
    with open_database(ledger_place, 1.0) as ledger:
        rows = [{"day": "1999-12-31", "team": "a", **asdict(usage)}]
        for _ in range(2):
            await ledger.add_usage(1, rows)
        assert (await read_usage(ledger_place))["1999-12-31", "a"] == usage


async def test_an_outage_fails_no_request_and_is_told_in_a_line(
    server: Server, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("editjudge_services.gateway.calls._PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr("editjudge_services.gateway.calls._LEDGER_RETRY_SECONDS", 1.0)
    notes: list[str] = []
    async with CallCache(ledger_place, is_shared=False, say=notes.append) as cache:
        calls = cache.for_team("a").calls
        await calls.put(ask(), reply())
        server.stop()
        try:
            async with calls.claim(ask(1)) as stored:
                assert stored is None
                await calls.put(ask(1), reply("paid"))
            assert await calls.get(ask(1)) == reply("paid"), "it is held in memory"
        finally:
            server.start()
        assert len(notes) == 2, notes
        assert "is lost, calls wait for it" in notes[0]
        assert "calls are not cached for 1 s" in notes[1]
        began = time.monotonic()
        await until(lambda: time.monotonic() - began > 1)
        assert await calls.get(ask()) == reply()


async def test_a_role_that_sees_all_teams_is_refused(server: Server, ledger_place: PostgresAddress) -> None:
    address = PostgresAddress(server.url(ledger_place.url.rpartition("/")[2]))
    with pytest.raises(ConfigError, match="the role sees the rows of all teams"):
        async with CallCache(address, is_shared=False, say=print):
            pass
    async with CallCache(address, is_shared=True, say=print):
        pass
