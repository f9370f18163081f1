"""What the Judge service tells those who run it: its audit and its metrics."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import grpc
import pytest

from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge_services.gateway.accounting import AuditLog
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.service import JudgeService

from .test_serve import asking
from .test_serve_accounting import ASKED, running, scripted_judge
from .test_serve_json import asking as asking_json


async def test_the_audit_has_a_line_for_each_edit_without_its_content(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    number = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path / "kept", audit=log) as service:
            call = service.stub.Score(
                asking(ASKED, request_id="alice-7", id="alice.png", instruction="hush"),
                metadata=[("x-team", "a"), ("x-request-id", number), ("authorization", "secret")],
            )
            await call
            await service.score("a", id="alice.png", instruction="hush")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await service.score("a", edited=1, sources=[])
            assert "x-tokens-used" not in dict(caught.value.initial_metadata())
            bodies = [asking_json(id="alice"), asking_json(edited={"data": "no"})]
            for body in bodies:
                body["dimensions"] = [ASKED]
            async with aiohttp.ClientSession() as session:
                async with session.post(
                    f"{service.web}/v1/score:batch", json={"requests": bodies}
                ) as reply:
                    assert reply.headers["x-tokens-used"] == "101"
                async with session.post(f"{service.web}/v1/score", json=bodies[0]) as reply:
                    assert reply.headers["x-tokens-used"] == "0"
                async with session.post(f"{service.web}/v1/score", json=bodies[1]) as reply:
                    assert reply.headers["x-tokens-used"] == "0"
                async with session.post(f"{service.web}/v1/score", data="words") as reply:
                    assert reply.status == 415
    text = log.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["status"] for line in lines[:3]] == ["OK", "OK", "INVALID_ARGUMENT"]
    assert sorted(line["status"] for line in lines[3:5]) == ["INVALID_ARGUMENT", "OK"]
    first, second = lines[:2]
    assert (first["team"], first["request"], first["method"]) == ("a", number, "Score")
    assert (first["dimensions"], first["calls"], first["prompt_tokens"]) == (1, 1, 100)
    assert (second["calls"], second["cached"], second["cost"]) == (0, 1, 0)
    assert [line["status"] for line in lines[5:]] == ["OK", *["INVALID_ARGUMENT"] * 2]
    assert {line["method"] for line in lines[3:]} == {"/v1/score", "/v1/score:batch"}
    for word in ("alice", "hush", "secret", "png"):
        assert word not in text


async def test_an_audit_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give another file"):
        JudgeService(Settings(), ServiceOptions(audit=tmp_path / "no" / "such" / "folder"))


def test_a_full_disk_costs_lines_of_the_audit_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "audit"
    full.symlink_to("/dev/full")
    audit = AuditLog(full)
    for _ in range(3):
        audit.write("{}")
    told = f"{full}: lines of the audit log are lost: No space left on device\n"
    assert capsys.readouterr().err == told
    full.unlink()
    audit.write('{"one": 1}')  # it was moved away
    assert full.read_text(encoding="utf-8") == '{"one": 1}\n'
    AuditLog(Path("-")).write('{"two": 2}')
    assert capsys.readouterr().err == '{"two": 2}\n'


async def test_prometheus_reads_what_teams_use(tmp_path: Path) -> None:
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, tmp_path) as service:
            for edited in (1, 1, 2):
                await service.score("a", edited)
            text = await service.metrics()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['editjudge_edits_total{team="a"}'] == "3.0"
    assert samples['editjudge_calls_total{kind="made",team="a"}'] == "2.0"
    assert samples['editjudge_calls_total{kind="cached",team="a"}'] == "1.0"
    assert samples['editjudge_tokens_total{kind="prompt",team="a"}'] == "200.0"
    assert float(samples['editjudge_cost_total{team="a"}']) == pytest.approx(0.2)
    assert samples['editjudge_requests_total{method="Score",status="OK",team="a"}'] == "3.0"
    assert float(samples["editjudge_cache_bytes"]) > 10_000


async def test_lines_of_the_audit_that_are_lost_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, audit=log) as service:
            assert "\neditjudge_audit_lost_total 0.0\n" in await service.metrics()
            log.unlink()
            log.symlink_to("/dev/full")
            for _ in range(2):
                await service.score("a")
            assert "\neditjudge_audit_lost_total 2.0\n" in await service.metrics()
