"""What the Judge service deletes: what is old by itself, all that is kept of a team on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from editjudge.base.errors import StoreError
from editjudge.panel.calls import Reply
from editjudge.storage.ledger import Ledger
from editjudge_services.gateway import retention, usage
from editjudge_services.gateway.calls import FILE, CallCache
from editjudge_services.gateway.retention import Holdings, measure, purge
from editjudge_services.gateway.usage import read_usage

from .. import judge_service
from ..judge_service import serve_priced, serve_with_judge
from ..patience import until
from ..replies import count_replies
from .test_serve_accounting import CALL, no_room


def count_of(path: Path, team: str) -> int:
    with Ledger(path, read_only=True) as ledger:
        return count_replies(ledger.for_team(team))


async def zeppelin(service: judge_service.RunningService, team: str = "a") -> int:
    """The tokens that one and the same edit takes."""
    return (await service.score(team, instruction="paint a zeppelin"))[1]


async def test_a_service_deletes_by_itself_what_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "audit.jsonl"
    async with judge_service.scripted_judge().serving() as url:
        for days in (0.0, 1.0):
            async with serve_priced(url, tmp_path, audit=log, keep_days=days) as service:
                assert await zeppelin(service) == (0 if days else 101)
        monkeypatch.setattr("editjudge_services.gateway.service._DELETION_SECONDS", 0.01)
        log.rename(tmp_path / "audit.jsonl.1")
        async with serve_priced(url, tmp_path, audit=log, keep_days=-1.0):
            await until(lambda: not (count_of(tmp_path / FILE, "a") or read_usage(tmp_path)))
            await until(lambda: not (tmp_path / "audit.jsonl.1").read_bytes())


@pytest.mark.parametrize("broken_off", [None, "delete_usage", "delete_lines"])
async def test_a_purge_leaves_nothing_of_a_team_and_all_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_off: str | None
) -> None:
    """While the service runs and after, of files that were rotated too, by a second try too."""
    folder, log = tmp_path / "kept", tmp_path / "audit.jsonl"
    async with judge_service.scripted_judge().serving() as url:
        async with serve_priced(url, folder, audit=log) as service:
            for rotated in ("audit.jsonl.1", "audit.jsonl-20261122", "audit.jsonl"):
                for team in ("a", "b"):
                    await zeppelin(service, team)
                log.rename(tmp_path / rotated)
            others = (await measure(folder, [log]))["b"]
            assert (others.usage_days, others.audit_lines) == (1, 3)
            replies = 1
            if broken_off is not None:
                owner = retention if broken_off == "delete_lines" else usage
                with monkeypatch.context() as patched:
                    patched.setattr(owner, broken_off, no_room)
                    with pytest.raises(StoreError):
                        await purge(folder, [log], "a", None)
                replies = 0
            gone = await purge(folder, [log], "a", None)
            assert gone == Holdings(replies, int(broken_off != "delete_lines"), 3)
            assert await measure(folder, [log]) == {"b": others}
            assert [await zeppelin(service, team) for team in ("a", "b")] == [101, 0]
            assert await purge(folder, [log], None, 1.0) == Holdings(0, 0, 0), "none is so old"
            assert await zeppelin(service) == 0
        assert await purge(folder, [log], "a", None) == Holdings(1, 1, 2)
        assert await purge(folder, [log], None, 1e11) == Holdings(1, 1, 4)
        assert await measure(folder, [log]) == {}
        assert b"zeppelin" not in (folder / FILE).read_bytes()
        async with serve_priced(url, folder) as service:
            assert await zeppelin(service, "b") == 101


async def test_a_purge_reaches_what_a_service_has_in_memory(tmp_path: Path) -> None:
    async with CallCache(tmp_path, is_shared=False, say=print) as cache:
        before = {team: cache.for_team(team) for team in ("a", "b")}
        for team, context in before.items():
            await context.calls.put(CALL, Reply({"SCORE": b"secret"}))
            await context.calls.put_fact("fact", team)
        assert await purge(tmp_path, [], "a", None) == Holdings(1, 0, 0)
        await cache.forget(keep_days=1)
        ours, theirs = cache.for_team("a"), cache.for_team("b")
        assert await ours.calls.get_fact("fact") is None
        assert ours.salt != before["a"].salt
        assert (theirs.salt, await theirs.calls.get_fact("fact")) == (before["b"].salt, "b")
        await cache.forget(keep_days=1e-12)
        assert await cache.for_team("b").calls.get_fact("fact") is None
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("purged-")]


async def test_nobody_waits_for_the_purge_of_another_team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editjudge.storage.database._AT_A_TIME", 1)
    with Ledger(tmp_path / FILE, team="large") as ledger:
        for number in range(3000):
            inputs = {"IMAGE": f"sha256:{number}"}
            await ledger.put(replace(CALL, inputs=inputs), Reply({"SCORE": b"x"}))
    async with serve_with_judge(tmp_path) as (_, service):
        await service.score("small")
        purged = asyncio.create_task(purge(tmp_path, [], "large", None))
        await until(lambda: purged.done() or count_of(tmp_path / FILE, "large") < 3000)
        await service.score("small", 2)
        assert not purged.done()
        assert await purged == Holdings(3000, 0, 0)
        assert (await service.score("small", 2))[1] == 0
