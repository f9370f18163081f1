"""What the Judge service keeps and accounts for, with a scripted judge that is asked for money."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, StoreError
from editjudge.base.identity import ServiceName
from editjudge.benchmarks.dimension import Dimension
from editjudge.panel.calls import Reply, SpecialistCall
from editjudge.storage.ledger import Ledger
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway import usage
from editjudge_services.gateway.calls import (
    FILE,
    CallCache,
    measure_space,
    purge,
    purge_periodically,
)
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer
from editjudge_services.gateway.usage import TeamUsage, UsageLog, read_usage

from ..fakes.openai import ScriptedOpenAi, problem
from ..patience import patience, until
from ..replies import count_replies
from .test_serve import _outcome, asking, png

ASKED = "core.instruction_following"
PIQE = ServiceName.parse("quality.piqe")


def scripted_judge(*script: Any) -> ScriptedOpenAi:
    return ScriptedOpenAi(*script, probabilities={"good": 0.9, "poor": 0.1})


def settings(url: str) -> Settings:
    price = {"input": 1000, "output": 0}  # 0.1 a call
    judge = {"url": url, "price": price, "logprobs": "never", "samples": 1}
    return Settings.model_validate({"judges": {"judge": judge}, "attempts": 1})


class Service:
    """A service that runs, asked over gRPC and JSON."""

    def __init__(self, judge_service: JudgeService, address: str, web: str) -> None:
        self.judge_service = judge_service
        self.web = web
        self._channel = grpc.aio.insecure_channel(address)
        self.stub = judge_pb2_grpc.JudgeServiceStub(self._channel)

    async def score(self, team: str, edited: int = 1, **fields: Any) -> tuple[Any, int]:
        """The outcome, and the tokens that the headers tell."""
        picture = pb.Picture(data=png(edited))
        call = self.stub.Score(
            asking(ASKED, edited=picture, **fields), metadata=[("x-team", team)] if team else []
        )
        response = await call
        (outcome,) = response.outcomes
        return outcome, int(dict(await call.initial_metadata())["x-tokens-used"])

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{self.web}/metrics") as reply:
                assert reply.status == 200
                return await reply.text()

    async def close(self) -> None:
        await self._channel.close()


@contextlib.asynccontextmanager
async def running(
    url: str,
    folder: Path | None = None,
    *,
    edits: int = 64,
    **more: Any,
) -> AsyncIterator[Service]:
    options = ServiceOptions(edits=edits, cache=folder, **more)
    async with JudgeService(settings(url), options) as judge_service:
        await judge_service.client.panel.probe_judges()  # no team pays for this call
        async with serve_http(judge_service, "127.0.0.1", 0, 1) as web:
            async with serve_grpc(judge_service, "127.0.0.1:0", drain=5) as address:
                service = Service(judge_service, address, web)
                try:
                    yield service
                finally:
                    await service.close()


async def test_a_call_is_paid_once_and_the_header_says_so(tmp_path: Path) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            first, tokens = await service.score("vision")
            again, further = await service.score("vision")
        assert (len(scripted.requests), tokens, further) == (1, 101, 0)
        assert again.value == first.value
        assert again.signature == first.signature
        async with running(url, tmp_path) as service:
            later, tokens = await service.score("vision")
        assert (len(scripted.requests), tokens) == (1, 0)
        assert later == again


@pytest.mark.parametrize("shared", [False, True])
async def test_a_team_gets_no_reply_of_another_unless_they_share(
    tmp_path: Path, shared: bool
) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path, cache_shared=shared) as service:
            ours = await service.score("vision")
            theirs = await service.score("audio")
            nobodys = await service.score("")
            case = await service.score("Vision")
        # What the second is told is what the first was told, word for word.
        assert (ours == theirs == nobodys == case) is not shared
        assert len(scripted.requests) == (1 if shared else 4)
        used = {team: each for (_, team), each in read_usage(tmp_path).items()}
    if not shared:
        assert used["audio"] == used["vision"] == used[""] == used["Vision"]
    assert used["audio"].cached == (1 if shared else 0)


@pytest.mark.parametrize("teams", [("a", "a"), ("a", "b")])
async def test_equal_calls_at_once_are_one_within_a_team(
    tmp_path: Path, teams: tuple[str, str]
) -> None:
    scripted = scripted_judge(1.0, None)
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            answers = await asyncio.gather(*(service.score(team) for team in teams))
        assert len(scripted.requests) == len(set(teams))
    assert sorted(tokens for _, tokens in answers) == (
        [0, 101] if teams[0] == teams[1] else [101] * 2
    )


@pytest.mark.parametrize("shared", [False, True])
async def test_a_server_keeps_its_own_cache_of_prefixes_apart_too(
    tmp_path: Path, shared: bool
) -> None:
    scripted = ScriptedOpenAi(owner="vllm", probabilities={"good": 0.9, "poor": 0.1})
    async with scripted.serving() as url:
        async with running(url, tmp_path, cache_shared=shared) as service:
            for team, edited in (("a", 1), ("a", 2), ("b", 3)):
                await service.score(team, edited)
    ours, again, theirs = (sent.get("cache_salt") for sent in scripted.requests)
    assert ours == again
    assert (ours != theirs) is not shared
    assert (ours is None) is shared


async def test_without_a_folder_teams_are_apart_too() -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url) as service:
            for team in ("a", "b", "a", "b"):
                await service.score(team)
    assert len(scripted.requests) == 2


async def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    scripted = scripted_judge(problem(500, "broken"), None)
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            failed, nothing = await service.score("a")
            scored, tokens = await service.score("a")
    assert (failed.status, nothing) == (pb.STATUS_FAILED, 0)
    assert (scored.status, tokens) == (pb.STATUS_SCORED, 101)
    (used,) = read_usage(tmp_path).values()
    assert (used.calls, used.failed, used.edits) == (1, 1, 2)


async def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    async with JudgeService(Settings(), ServiceOptions(cache=tmp_path)):
        with pytest.raises(ConfigError, match="another Judge service"):
            async with JudgeService(Settings(), ServiceOptions(cache=tmp_path)):
                pass
    async with JudgeService(Settings(), ServiceOptions(cache=tmp_path)):
        pass


def spoil(path: Path) -> None:
    """Turn bits of every reply that is kept."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE calls SET document = x'00'")
        db.commit()


async def test_a_damaged_ledger_costs_its_calls_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            await service.score("a")
            await service.score("b")
        spoil(tmp_path / FILE)
        async with running(url, tmp_path) as service:
            outcome, tokens = await service.score("a")
            assert (outcome.status, tokens) == (pb.STATUS_SCORED, 101)
            _, tokens = await service.score("a")
            assert tokens == 0  # remembered meanwhile
            assert json.loads(outcome.evidence_json)
        assert capsys.readouterr().err.count("calls are not cached") == 1
        (tmp_path / FILE).write_bytes(b"rubbish" * 999)
        async with running(url, tmp_path) as service:
            _, tokens = await service.score("a")
            assert tokens == 101
        with pytest.raises(ConfigError):
            await purge(tmp_path, [], 1e12)


async def test_a_full_disk_costs_the_cache_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Ledger, "put", full)
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            for edited in (1, 2, 1):
                outcome, _ = await service.score("a", edited)
                assert outcome.status == pb.STATUS_SCORED
    assert len(scripted.requests) == 2
    assert capsys.readouterr().err.count("the disk is full") == 1


def count_of(path: Path, team: str) -> int:
    with Ledger.open_read_only(path) as ledger:
        return count_replies(ledger.for_team(team))


async def test_a_service_deletes_by_itself_what_is_old(tmp_path: Path) -> None:
    scripted, told = scripted_judge(), []
    async with scripted.serving() as url, running(url, tmp_path) as service:
        await service.score("a", instruction="paint a zeppelin")
        async with purge_periodically(tmp_path, 3600.0, told.append):
            assert (await service.score("a", instruction="paint a zeppelin"))[1] == 0
        kept = tmp_path / FILE
        async with purge_periodically(tmp_path, -1.0, told.append, every=0.01):
            await until(lambda: not count_of(kept, "a"))
        assert (await service.score("a", instruction="paint a zeppelin"))[1] == 101
    assert not told


async def test_calls_are_purged_by_team_and_age_while_it_runs(tmp_path: Path) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            for team in ("a", "b"):
                await service.score(team, instruction="paint a zeppelin")
            with pytest.raises(ConfigError, match="no calls of team 'c'"):
                await purge(tmp_path, ["c"], None)
            assert (await measure_space(tmp_path)).keys() == {"a", "b"}
            assert await purge(tmp_path, ["a"], None) == {"a": 1}
            assert (await measure_space(tmp_path)).keys() == {"b"}
            _, ours = await service.score("a", instruction="paint a zeppelin")
            _, theirs = await service.score("b", instruction="paint a zeppelin")
            assert (ours, theirs) == (101, 0)
            long_ago = await purge(tmp_path, [], 1.0)
            assert long_ago == {"a": 0, "b": 0}
            _, ours = await service.score("a", instruction="paint a zeppelin")
            assert ours == 0
        assert await purge(tmp_path, ["a"], None) == {"a": 1}
        assert await purge(tmp_path, [], 1e12) == {"b": 1}
        assert b"zeppelin" not in (tmp_path / FILE).read_bytes()
        async with running(url, tmp_path) as service:
            assert (await service.score("b", instruction="paint a zeppelin"))[1] == 101
    (used,) = [each for (_, team), each in read_usage(tmp_path).items() if team == "a"]
    assert (used.calls, used.cached) == (2, 1)  # what was used is not purged


async def test_nobody_waits_for_the_purge_of_another_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("editjudge.storage.database._AT_A_TIME", 1)
    call = SpecialistCall(PIQE, "piqe", {"IMAGE": "sha256:0"}, {})
    with Ledger(tmp_path / FILE, team="large") as ledger:
        for number in range(3000):
            inputs = {"IMAGE": f"sha256:{number}"}
            await ledger.put(replace(call, inputs=inputs), Reply({"SCORE": b"x"}))
    scripted = scripted_judge()
    async with scripted.serving() as url, running(url, tmp_path) as service:
        await service.score("small")
        purged = asyncio.create_task(purge(tmp_path, ["large"], None))
        await until(lambda: purged.done() or count_of(tmp_path / FILE, "large") < 3000)
        await service.score("small", 2)
        assert not purged.done()
        assert await purged == {"large": 3000}
        assert (await service.score("small", 2))[1] == 0


async def test_a_stream_tells_no_tokens_in_its_headers(tmp_path: Path) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            call = service.stub.ScoreStream(iter([pb.ScoreStreamRequest(request=asking(ASKED))]))
            assert len([answer async for answer in call]) == 1
            assert "x-tokens-used" not in dict(await call.initial_metadata())


async def test_who_asks_for_signatures_takes_a_place_and_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.jsonl"
    gate = threading.Event()
    threads: list[threading.Thread] = []
    made = Dimension.signature

    def slow(self: Dimension, *rest: Any) -> Any:
        threads.append(threading.current_thread())
        assert gate.wait(patience(60))
        return made(self, *rest)

    monkeypatch.setattr(Dimension, "signature", slow)
    about = pb.GetPanelRequest(protocol=pb.Protocol(benchmark="kris", rounds=7), dimensions=["*"])
    team = [("x-team", "a")]
    async with JudgeService(Settings(), ServiceOptions(edits=1, audit=log)) as judge_service:
        async with serve_grpc(judge_service, "127.0.0.1:0", drain=5) as address:
            service = Service(judge_service, address, "")
            first = asyncio.ensure_future(_outcome(service.stub.GetPanel(about, metadata=team)))
            await until(lambda: threads)
            assert dict(judge_service.in_flight) == {"a": 1}
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await service.stub.GetPanel(about, metadata=team)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await service.stub.GetPanel(pb.GetPanelRequest())  # it costs nothing
            gate.set()
            signatures = (await first).signatures
            await service.stub.Score(asking(ASKED), metadata=team)
            await service.close()
        text = judge_service.metrics.text().decode()
    assert threading.main_thread() not in threads
    assert 'editjudge_edits_total{team="a"} 1.0' in text
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["method"], line["status"]) for line in lines] == [
        ("GetPanel", "RESOURCE_EXHAUSTED"),
        ("GetPanel", "OK"),
        ("Score", "OK"),
    ]
    assert [line["dimensions"] for line in lines] == [0, len(signatures), 1]


async def test_what_is_no_name_of_a_team_is_refused() -> None:
    async with running("http://127.0.0.1:9/v1") as service:
        for team in ("../../etc", "a b", ".hidden", "a" * 64):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await service.score(team)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "x-team" in caught.value.details()
        await service.score("a" * 63)


class Context:
    """Of a call whose deadline is over before the judge has answered twice."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-team", "a"),)

    def time_remaining(self) -> float:
        return patience(3.0)

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self.headers |= dict(metadata)

    def set_trailing_metadata(self, _: Any) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise AssertionError(code.name, details)


async def test_tokens_are_told_of_a_request_whose_deadline_is_over(tmp_path: Path) -> None:
    scripted = scripted_judge(None, 600.0)
    async with scripted.serving() as url:
        async with JudgeService(settings(url), ServiceOptions(cache=tmp_path)) as judge_service:
            await judge_service.client.panel.probe_judges()
            slow = asking(ASKED, "core.blending_naturalness")
            context = Context()
            with pytest.raises(AssertionError, match="DEADLINE_EXCEEDED"):
                await JudgeServicer(judge_service).Score(slow, context)
    assert context.headers == {"x-tokens-used": "101"}
    (used,) = read_usage(tmp_path).values()
    assert (used.edits, used.refused, used.calls, used.tokens) == (0, 1, 1, 101)


async def test_who_hangs_up_is_accounted_for(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    scripted = scripted_judge(600.0)
    async with scripted.serving() as url:
        async with running(url, tmp_path, audit=log) as service:
            call = service.stub.Score(asking(ASKED))
            waiting = asyncio.ensure_future(call.code())
            await until(lambda: scripted.requests)
            call.cancel()
            assert await waiting is grpc.StatusCode.CANCELLED
            await until(lambda: log.read_text(encoding="utf-8"))
    (line,) = log.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["status"] == "CANCELLED"


async def test_what_others_wait_for_goes_on_where_the_first_hangs_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, gate.wait, 60)  # so that what is asked for has not begun
    told: list[str] = []

    async def asks(cache: CallCache) -> None:
        await cache.for_team("a").calls.get_records(["sha256:none"])

    async with CallCache(tmp_path, is_shared=False, say=told.append) as cache:
        first = asyncio.create_task(asks(cache))
        second = asyncio.create_task(asks(cache))
        for _ in range(20):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(busy, second)
        assert isinstance(await _outcome(first), asyncio.CancelledError)
    assert not told
    assert (tmp_path / FILE).is_file()

    log = UsageLog(tmp_path, told.append)
    async with log.open():
        write = usage._write
        gate.clear()

        def slow(*rows: Any) -> None:
            assert gate.wait(60)
            write(*rows)

        monkeypatch.setattr(usage, "_write", slow)

        async def uses() -> None:
            log.add("a", TeamUsage(edits=1))
            await log.flush()

        several = [asyncio.create_task(uses()) for _ in range(3)]
        await asyncio.sleep(0)
        for each in several:
            each.cancel()
        await asyncio.sleep(0)
        gate.set()
        for each in several:
            await _outcome(each)
    assert not told
    (used,) = read_usage(tmp_path).values()
    assert used.edits == 3


async def test_what_cannot_be_written_now_is_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    log = UsageLog(tmp_path, told.append)
    async with log.open():

        def full(*_: Any) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(usage, "_write", full)
            for _ in range(3):
                log.add("a", TeamUsage(edits=1))
                await log.flush()
        assert len(told) == 1
        log.add("a", TeamUsage(calls=1, cost=0.5))
    (used,) = read_usage(tmp_path).values()
    assert used == TeamUsage(edits=3, calls=1, cost=0.5)


async def test_none_but_the_owner_may_read_what_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(0o755)
    log = tmp_path / "audit.jsonl"
    with Ledger(kept / FILE):
        (kept / FILE).chmod(0o644)
    before = os.umask(0)
    try:
        scripted = scripted_judge()
        async with scripted.serving() as url:
            async with running(url, kept, audit=log) as service:
                await service.score("a")
                modes = {p: p.stat().st_mode & 0o777 for p in kept.rglob("*") if p.is_file()}
    finally:
        os.umask(before)
    assert {path.suffix for path in modes} >= {".sqlite", ".sqlite-wal", ".lock"}
    assert {f"{mode:o}" for mode in modes.values()} == {"600"}
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("specialist", [False, True])
async def test_no_store_of_a_team_reads_what_another_keeps(
    tmp_path: Path, specialist: bool
) -> None:
    teams = ["", "a", "A", "a.b", "a_b", "*", "a' OR '1'='1"]
    call = SpecialistCall(PIQE, "piqe", {"IMAGE": "sha256:0"}, {})
    async with CallCache(tmp_path if specialist else None, is_shared=False, say=print) as cache:
        ours = cache.for_team("a").calls
        if specialist:
            await ours.put(call, Reply({"SCORE": b"secret"}))
            known = [await cache.for_team(team).calls.get(call) for team in teams]
        else:
            await ours.put_fact("secret", "ours")
            known = [await cache.for_team(team).calls.get_fact("secret") for team in teams]
        others = [cache.for_team(team).calls for team in teams if team != "a"]
        assert [await other.get_records([call.key]) for other in others] == [{}] * len(others)
        salts = {cache.for_team(team).salt for team in teams}
    assert [value is not None for value in known] == [team == "a" for team in teams]
    assert len(salts) == len(teams)
