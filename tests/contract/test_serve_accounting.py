"""What the Judge service keeps, accounts for and tells those who run it; a judge asks for money."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError, StoreError
from editjudge.base.identity import ServiceName
from editjudge.benchmarks.dimension import Dimension
from editjudge.panel.calls import Reply, SpecialistCall
from editjudge.storage.ledger import Ledger
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import usage
from editjudge_services.gateway.audit import AuditLog
from editjudge_services.gateway.calls import FILE, CallCache
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.retention import purge
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer
from editjudge_services.gateway.usage import TeamUsage, UsageLog, read_usage

from .. import judge_service
from ..fakes.openai import problem
from ..judge_service import (
    ASKED,
    JSON,
    Context,
    RunningService,
    make_body,
    make_request,
    outcome_of,
    png,
    refusal,
    serve,
    serve_priced,
    serve_with_judge,
)
from ..patience import patience, until

SCORED = pb.STATUS_SCORED
TEAM = [("x-team", "a")]
CALL = SpecialistCall(ServiceName.parse("quality.piqe"), "piqe", {"IMAGE": "sha256:0"}, {})


def read_audit_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


async def test_a_call_is_paid_once_and_the_header_says_so(tmp_path: Path) -> None:
    scripted = judge_service.scripted_judge()
    async with scripted.serving() as url:
        async with serve_priced(url, tmp_path) as service:
            first, tokens = await service.score("vision")
            again, further = await service.score("vision")
        assert (len(scripted.requests), tokens, further) == (1, 101, 0)
        assert (again.value, again.signature) == (first.value, first.signature)
        async with serve_priced(url, tmp_path) as service:
            assert await service.score("vision") == (again, 0)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("shared", [False, True])
async def test_a_team_gets_no_reply_of_another_unless_they_share(tmp_path: Path, shared: bool) -> None:
    teams = ("vision", "audio", "", "Vision")
    async with serve_with_judge(tmp_path, cache_shared=shared) as (scripted, service):
        first, *others = [await service.score(team) for team in teams]
        # What the second is told is what the first was told, word for word.
        assert all((other == first) is not shared for other in others)
        assert len(scripted.requests) == (1 if shared else 4)
    used = {team: each for (_, team), each in read_usage(tmp_path).items()}
    if not shared:
        assert used["audio"] == used["vision"] == used[""] == used["Vision"]
    assert used["audio"].cached == (1 if shared else 0)


@pytest.mark.parametrize("teams", [("a", "a"), ("a", "b")])
async def test_equal_calls_at_once_are_one_within_a_team(tmp_path: Path, teams: tuple[str, str]) -> None:
    async with serve_with_judge(tmp_path, 1.0, None) as (scripted, service):
        answers = await asyncio.gather(*(service.score(team) for team in teams))
    assert len(scripted.requests) == len(set(teams))
    told = [0, 101] if teams[0] == teams[1] else [101] * 2
    assert sorted(tokens for _, tokens in answers) == told


@pytest.mark.parametrize("shared", [False, True])
async def test_a_server_keeps_its_own_cache_of_prefixes_apart_too(tmp_path: Path, shared: bool) -> None:
    scripted = judge_service.scripted_judge(owner="vllm")
    async with scripted.serving() as url, serve_priced(url, tmp_path, cache_shared=shared) as service:
        for team, edited in (("a", 1), ("a", 2), ("b", 3)):
            await service.score(team, edited)
    ours, again, theirs = (sent.get("cache_salt") for sent in scripted.requests)
    assert ours == again
    assert (ours != theirs) is not shared
    assert (ours is None) is shared


async def test_without_a_folder_teams_are_apart_too() -> None:
    async with serve_with_judge() as (scripted, service):
        for team in ("a", "b", "a", "b"):
            await service.score(team)
    assert len(scripted.requests) == 2


async def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    async with serve_with_judge(tmp_path, problem(400, "broken"), None) as (_, service):
        answers = [await service.score("a") for _ in range(2)]
    assert [(outcome.status, tokens) for outcome, tokens in answers] == [(pb.STATUS_FAILED, 0), (SCORED, 101)]
    (used,) = read_usage(tmp_path).values()
    assert (used.calls, used.failed, used.edits) == (1, 1, 2)


async def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    options = ServiceOptions(cache=tmp_path)
    async with JudgeService(Settings(), options):
        with pytest.raises(ConfigError, match="another Judge service"):
            async with JudgeService(Settings(), options):
                pass
    async with JudgeService(Settings(), options):
        pass


async def test_a_damaged_ledger_costs_its_calls_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with judge_service.scripted_judge().serving() as url:
        async with serve_priced(url, tmp_path) as service:
            for team in ("a", "b"):
                await service.score(team)
        with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db, db:
            db.execute("UPDATE calls SET document = x'00'")
        async with serve_priced(url, tmp_path) as service:
            outcome, tokens = await service.score("a")
            assert (outcome.status, tokens) == (SCORED, 101)
            assert json.loads(outcome.evidence_json)
            assert (await service.score("a"))[1] == 0, "remembered meanwhile"
        assert capsys.readouterr().err.count("calls are not cached") == 1
        (tmp_path / FILE).write_bytes(b"rubbish" * 999)
        async with serve_priced(url, tmp_path) as service:
            assert (await service.score("a"))[1] == 101
        with pytest.raises(ConfigError):
            await purge(tmp_path, [], None, 1e11)


def no_room(*_: Any) -> None:
    raise StoreError("the disk is full")


async def full(*_: Any) -> None:
    raise StoreError("the disk is full")


async def test_a_full_disk_costs_the_cache_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Ledger, "put", full)
    async with serve_with_judge(tmp_path) as (scripted, service):
        answers = [await service.score("a", edited) for edited in (1, 2, 1)]
    assert {outcome.status for outcome, _ in answers} == {SCORED}
    assert len(scripted.requests) == 2
    assert capsys.readouterr().err.count("the disk is full") == 1


# What is told


async def test_a_stream_tells_no_tokens_in_its_headers() -> None:
    async with serve_with_judge() as (_, service):
        call = service.stub.ScoreStream(iter([pb.ScoreStreamRequest(request=make_request(ASKED))]))
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
    async with serve(edits=1, audit=log) as service:
        stub = service.stub
        first = asyncio.ensure_future(outcome_of(stub.GetPanel(about, metadata=TEAM)))
        await until(lambda: threads)
        assert dict(service.service.edits.in_use) == {"a": 1}
        told = await refusal(stub.GetPanel(about, metadata=TEAM))
        assert told.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await stub.GetPanel(pb.GetPanelRequest())  # it costs nothing
        gate.set()
        signatures = (await first).signatures
        await stub.Score(make_request(ASKED), metadata=TEAM)
        assert 'editjudge_edits_total{team="a"} 1.0' in await service.metrics()
    assert threading.main_thread() not in threads
    lines = [(line["method"], line["status"], line["dimensions"]) for line in read_audit_log(log)]
    assert lines == [("GetPanel", "RESOURCE_EXHAUSTED", 0), ("GetPanel", "OK", len(signatures)), ("Score", "OK", 1)]


async def test_what_is_no_name_of_a_team_is_refused() -> None:
    async with serve() as service:
        for team in ("../../etc", "a b", ".hidden", "a" * 64):
            told = await refusal(service.stub.Score(make_request(), metadata=[("x-team", team)]))
            assert told.code == grpc.StatusCode.INVALID_ARGUMENT
            assert "x-team" in told.words
        assert await service.stub.Score(make_request(), metadata=[("x-team", "a" * 63)])


async def test_tokens_are_told_of_a_request_whose_deadline_is_over(tmp_path: Path) -> None:
    """It is over before the judge has answered twice."""
    async with serve_with_judge(tmp_path, None, 600.0) as (_, service):
        slow, context = make_request(ASKED, "core.blending_naturalness"), Context(patience(3.0))
        with pytest.raises(judge_service.EndedCall, match="DEADLINE_EXCEEDED"):
            await JudgeServicer(service.service).Score(slow, context)
    assert int(context.headers["x-tokens-used"]) > 101  # and about what the second one took
    (used,) = read_usage(tmp_path).values()
    assert (used.edits, used.refused, used.calls, used.prompt_tokens + used.completion_tokens) == (0, 1, 1, 101)


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("counted", [False, True])
async def test_what_was_used_for_nobody_is_told_before_more_is_used(counted: bool, http: bool) -> None:
    headers = [*TEAM, *([("x-tokens-used", "counted")] if counted else ())]

    async def ask(service: RunningService, seed: int, *more: str) -> tuple[str, int]:
        """The status, and the tokens that the headers tell."""
        if http:
            body = make_body(ASKED, *more, edited=png(seed))
            url, told = f"{service.web}/v1/score", {**JSON, **dict(headers)}
            async with service.session.post(url, json=body, headers=told) as reply:
                return str(reply.status), int(reply.headers["x-tokens-used"])
        request = make_request(ASKED, *more, edited=png(seed))
        call = service.stub.Score(request, metadata=headers)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await call
        return (await call.code()).name, int(dict(await call.initial_metadata())["x-tokens-used"])

    async with serve_with_judge(None, None, 600.0, None) as (scripted, service):

        def has_metric(what: str) -> bool:
            return re.search(what, service.service.metrics.text().decode()) is not None

        asking = asyncio.create_task(ask(service, 1, "core.blending_naturalness"))
        await until(lambda: len(scripted.requests) == 2)
        await until(lambda: has_metric('tokens_total.*kind="prompt".* 100.0'))
        asking.cancel()
        await until(lambda: has_metric('requests_total.*status="CANCELLED".* 1.0'))
        if counted:
            status, tokens = await ask(service, 2)
            assert status == ("429" if http else "RESOURCE_EXHAUSTED")
            assert tokens > 101  # and about what the call that was broken off took
        assert await ask(service, 2) == ("200" if http else "OK", 101)
        assert len(scripted.requests) == 3


async def test_who_hangs_up_is_accounted_for(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with serve_with_judge(tmp_path, 600.0, audit=log) as (scripted, service):
        call = service.stub.Score(make_request(ASKED))
        waiting = asyncio.ensure_future(call.code())
        await until(lambda: scripted.requests)
        call.cancel()
        assert await waiting is grpc.StatusCode.CANCELLED
        await until(lambda: log.read_text(encoding="utf-8"))
    assert [line["status"] for line in read_audit_log(log)] == ["CANCELLED"]


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
        assert isinstance(await outcome_of(first), asyncio.CancelledError)
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
            await outcome_of(each)
    assert not told
    (used,) = read_usage(tmp_path).values()
    assert used.edits == 3


async def test_who_waits_for_its_usage_does_not_wait_for_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write, permits = UsageLog(tmp_path, str), usage._write, threading.Semaphore(0)
    async with log.open():

        def slow(*rows: Any) -> None:
            assert permits.acquire(timeout=60)
            write(*rows)

        monkeypatch.setattr(usage, "_write", slow)
        log.add("quick", TeamUsage(edits=1))
        first = asyncio.create_task(log.flush())
        await until(lambda: not log._unwritten)
        log.add("busy", TeamUsage(edits=1))
        second = asyncio.create_task(log.flush())
        permits.release()
        await first
        await until(lambda: not log._unwritten)
        assert not second.done()
        permits.release()
        await second
    assert {team for _, team in read_usage(tmp_path)} == {"quick", "busy"}


async def test_what_cannot_be_written_now_is_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    log = UsageLog(tmp_path, told.append)
    async with log.open():
        with monkeypatch.context() as patched:
            patched.setattr(usage, "_write", no_room)
            for _ in range(3):
                log.add("a", TeamUsage(edits=1))
                await log.flush()
        assert len(told) == 1
        log.add("a", TeamUsage(calls=1, cost=0.5))
    assert [*read_usage(tmp_path).values()] == [TeamUsage(edits=3, calls=1, cost=0.5)]


def test_what_sqlite_has_beside_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    beside = [tmp_path / f"{usage.FILE}{end}" for end in ("-wal", "-shm")]
    for path in beside:
        path.touch(0o644)
    usage.make_private(tmp_path / usage.FILE)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / usage.FILE, *beside)} == {0o600}


async def test_none_but_the_owner_may_read_what_is_kept(tmp_path: Path) -> None:
    kept, log = tmp_path / "kept", tmp_path / "audit.jsonl"
    kept.mkdir(0o755)
    with Ledger(kept / FILE):
        (kept / FILE).chmod(0o644)
    before = os.umask(0)
    try:
        async with serve_with_judge(kept, audit=log) as (_, service):
            await service.score("a")
            files = [log, *(path for path in kept.rglob("*") if path.is_file())]
            modes = {path: f"{path.stat().st_mode & 0o777:o}" for path in files}
    finally:
        os.umask(before)
    assert {path.suffix for path in modes} >= {".sqlite", ".sqlite-wal", ".lock"}
    assert set(modes.values()) == {"600"}


@pytest.mark.parametrize("specialist", [False, True])
async def test_no_store_of_a_team_reads_what_another_keeps(tmp_path: Path, specialist: bool) -> None:
    teams = ["", "a", "A", "a.b", "a_b", "*", "a' OR '1'='1"]
    async with CallCache(tmp_path if specialist else None, is_shared=False, say=print) as cache:
        ours = cache.for_team("a").calls
        if specialist:
            await ours.put(CALL, Reply({"SCORE": b"secret"}))
            known = [await cache.for_team(team).calls.get(CALL) for team in teams]
        else:
            await ours.put_fact("secret", "ours")
            known = [await cache.for_team(team).calls.get_fact("secret") for team in teams]
        others = [cache.for_team(team).calls for team in teams if team != "a"]
        assert [await other.get_records([CALL.key]) for other in others] == [{}] * len(others)
        salts = {cache.for_team(team).salt for team in teams}
    assert [value is not None for value in known] == [team == "a" for team in teams]
    assert len(salts) == len(teams)


# The audit and the metrics


async def test_the_audit_has_a_line_for_each_edit_without_its_content(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    number = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    hushed = {"id": "alice.png", "instruction": "hush"}
    async with serve_with_judge(tmp_path / "kept", audit=log) as (_, service):
        headers = [*TEAM, ("x-request-id", number), ("authorization", "secret")]
        await service.stub.Score(make_request(ASKED, request_id="alice-7", **hushed), metadata=headers)
        await service.score("a", **hushed)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await service.score("a", sources=[])
        assert "x-tokens-used" not in dict(caught.value.initial_metadata())
        good, bad = make_body(ASKED, id="alice"), make_body(ASKED, edited={"data": "no"})
        posted = (
            ("/v1/score:batch", {"requests": [good, bad]}, "101"),
            ("/v1/score", good, "0"),
            ("/v1/score", bad, "0"),
        )
        for path, body, tokens in posted:
            async with service.session.post(service.web + path, json=body) as reply:
                assert reply.headers["x-tokens-used"] == tokens
        async with service.session.post(f"{service.web}/v1/score", data="words") as reply:
            assert reply.status == 415
    lines = read_audit_log(log)
    statuses = [line["status"] for line in lines]
    assert statuses[:3] == ["OK", "OK", "INVALID_ARGUMENT"]
    assert sorted(statuses[3:5]) == ["INVALID_ARGUMENT", "OK"]
    assert statuses[5:] == ["OK", *["INVALID_ARGUMENT"] * 2]
    first, second = lines[:2]
    assert (first["team"], first["request"], first["method"]) == ("a", number, "Score")
    assert (first["dimensions"], first["calls"], first["prompt_tokens"]) == (1, 1, 100)
    assert (second["calls"], second["cached"], second["cost"]) == (0, 1, 0)
    assert {line["method"] for line in lines[3:]} == {"/v1/score", "/v1/score:batch"}
    text = log.read_text(encoding="utf-8")
    assert not [word for word in ("alice", "hush", "secret", "png") if word in text]


async def test_a_batch_that_is_refused_as_a_whole_is_accounted_for(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    good = {"requests": [make_body(), make_body()]}
    async with serve(held_bytes=2**20, cache=tmp_path, audit=log) as service:

        async def post(body: Any, team: str = "a", kind: str = "application/json") -> int:
            headers = JSON | {"x-team": team, "content-type": kind}
            return (await service.post(body, "/v1/score:batch", headers))[0]

        assert await post(b"{") == 400
        assert await post(good, kind="text/plain") == 415
        assert await post(b" " * 2**20) == 400  # more than one caller can ever have
        async with service.service.requests.acquire("a", 2**19):
            assert await post(good) == 429
            assert await post(good, team="a b") == 400
        assert await post(good) == 200
    ((_, team), used), *others = read_usage(tmp_path).items()
    assert (team, others) == ("a", [])
    assert (used.edits, used.refused) == (2, 4)
    lines = [(line["status"], line.get("requests", 1)) for line in read_audit_log(log)]
    refused = [("INVALID_ARGUMENT", 1), ("RESOURCE_EXHAUSTED", 1)]
    assert lines == [*refused, ("OK", 1), ("OK", 1), ("INVALID_ARGUMENT", 2)]


async def test_equal_refusals_have_one_line_for_all_that_came(tmp_path: Path) -> None:
    """Of batches and streams too: whoever sends nothing but rubbish fills no disk."""
    log = tmp_path / "audit.jsonl"
    rubbish = {"requests": [{"no": "edit"}] * 60}

    async def empty_messages() -> AsyncIterator[pb.ScoreStreamRequest]:
        for _ in range(50):
            yield pb.ScoreStreamRequest()

    async with serve(audit=log, rate=10_000) as service:
        status, _ = await service.post(rubbish, "/v1/score:batch", {**JSON, "x-team": "a"})
        assert status == 200
        answers = service.stub.ScoreStream(empty_messages(), metadata=TEAM)
        assert len([each async for each in answers if each.HasField("refusal")]) == 50
        assert await service.stub.Score(make_request(), metadata=TEAM)
    lines = [(each["method"], each["status"], each.get("requests")) for each in read_audit_log(log)]
    batch, stream = ("/v1/score:batch", "INVALID_ARGUMENT"), ("ScoreStream", "INVALID_ARGUMENT")
    once, more = [(*batch, None), (*stream, None)], [(*batch, 59), (*stream, 49)]
    assert lines == [*once, ("Score", "OK", None), *more]


async def test_an_audit_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give another file"):
        JudgeService(Settings(), ServiceOptions(audit=tmp_path / "no" / "such" / "folder"))


def test_a_full_disk_costs_lines_of_the_audit_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit"
    log.symlink_to("/dev/full")
    audit = AuditLog(log)
    for _ in range(3):
        audit.write(lambda: "{}")
    told = f"{log}: lines of the audit log are lost: No space left on device\n"
    assert capsys.readouterr().err == told
    log.unlink()
    audit.write(lambda: '{"one": 1}')  # it was moved away
    assert log.read_text(encoding="utf-8") == '{"one": 1}\n'
    AuditLog(Path("-")).write(lambda: '{"two": 2}')
    assert capsys.readouterr().err == '{"two": 2}\n'


async def test_lines_of_the_audit_that_are_lost_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with serve_with_judge(audit=log) as (_, service):
        assert "\neditjudge_audit_lost_total 0.0\n" in await service.metrics()
        log.unlink()
        log.symlink_to("/dev/full")
        for _ in range(2):
            await service.score("a")
        assert "\neditjudge_audit_lost_total 2.0\n" in await service.metrics()


async def test_prometheus_reads_what_teams_use(tmp_path: Path) -> None:
    async with serve_with_judge(tmp_path) as (_, service):
        for edited in (1, 1, 2):
            await service.score("a", edited)
        text = await service.metrics()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    told = {
        'editjudge_edits_total{team="a"}': 3,
        'editjudge_calls_total{kind="made",team="a"}': 2,
        'editjudge_calls_total{kind="cached",team="a"}': 1,
        'editjudge_tokens_total{kind="prompt",team="a"}': 200,
        'editjudge_cost_total{team="a"}': 0.2,
        'editjudge_requests_total{method="Score",status="OK",team="a"}': 3,
    }
    assert {name: float(samples[name]) for name in told} == pytest.approx(told)
    assert float(samples["editjudge_cache_bytes"]) > 10_000
