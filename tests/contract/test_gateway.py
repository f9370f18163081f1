"""Runs through a Judge service, beside the same runs by direct calls."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.config import GatewayEndpoint, Settings, load_settings
from editjudge.base.item import Edit
from editjudge.cli import main
from editjudge.gateway import connection
from editjudge.gateway.messages import make_score_request
from editjudge.panel.retry import RetryPolicy
from editjudge.storage.ledger import Ledger
from editjudge.storage.store import RunStore
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway.calls import FILE
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from ..fakes.grpc_server import Failure
from ..fakes.judge_service import ScriptedService
from ..golden.cases import CASES, Case
from ..golden.run_lines import run_verb
from ..golden.services import Specialists, serve_models
from ..judge_service import make_request
from ..patience import patience, until

OWN_PROMPT = """
user = '''{sources}{edited}The edit: {instruction} How well was it followed?'''
"""
JUDGES = ("--judge", "judge", "--judge", "second", "--rounds", 2)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a busy machine signs late is waited for."""
    monkeypatch.setenv("EDITJUDGE_PROBE_TIMEOUT", str(patience(60)))


@asynccontextmanager
async def service(settings: Settings, **options: Any) -> AsyncIterator[str]:
    """The address of a Judge service in this process; what is served stays as it is found."""
    still = JudgeService(settings, ServiceOptions(**options), discovery_seconds=3600)
    async with still, serve_grpc(still, "127.0.0.1:0", drain=5) as address:
        yield f"grpc://{address}"


async def run_command(*arguments: Any) -> tuple[int, Any]:
    """A command in a thread: the service has this loop."""
    return await asyncio.to_thread(run_verb, "run", *arguments, "--json")


async def run_to_error(*arguments: Any) -> tuple[int, str]:
    """A command's exit code, and what it says to people that is wrong."""

    def run() -> tuple[int, str]:
        screen = io.StringIO()
        with contextlib.redirect_stderr(screen), pytest.raises(SystemExit) as ended:
            main([*map(str, arguments), "--json"])
        return int(ended.value.code or 0), screen.getvalue()

    return await asyncio.to_thread(run)


def read_verdicts(folder: Path) -> dict[tuple[str, str, str], Any]:
    """All verdicts of a run, as they are stored; what they cost is of whoever paid."""
    rows = {}
    with RunStore.open(folder, read_only=True) as store:
        for model in store.header.outputs:
            for one in store.verdicts(model):
                verdict = one.verdict.model_dump(exclude={"calls"})
                asked = (reply for reply in one.replies if reply.prompt is not None)
                said = [reply.model_dump(exclude={"cost"}) for reply in asked]
                rows[one.item, model, one.dimension] = verdict, one.signature, one.versions, said
    return rows


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_run_through_the_service_is_the_run_by_direct_calls(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.prompts:
        case.prompts(monkeypatch, tmp_path)
    arguments = case.arguments(tmp_path)
    async with serve_models(tmp_path, case.models) as config:
        direct = await run_command(*arguments, *JUDGES, "--out", tmp_path / "direct", "--config", config)
        async with service(load_settings(config)) as url:
            out = tmp_path / "through"
            through = await run_command(*arguments, *JUDGES, "--out", out, "--gateway", url)
    assert through[0] == direct[0]
    ours, theirs = read_verdicts(tmp_path / "direct"), read_verdicts(out)
    assert theirs.keys() == ours.keys()
    for of, verdict in ours.items():
        assert theirs[of] == verdict, of
    assert any(verdict["status"] == "failed" for verdict, *_ in ours.values())
    asks_none = case.name == "omni_iie.official"
    assert asks_none != any(said for *_, said in ours.values())
    code, changes = await asyncio.to_thread(run_verb, "rescore", out, "--json")
    assert code == 0
    assert {change["changed"] for change in changes} == {0}


ASKED = ("--dimension", "core.psnr.*", "--dimension", "core.instruction_following")
FEW = 18
"""Edits of the small run that are sent: one output is missing, one is no picture."""


CORE = next(case for case in CASES if case.name == "core")


@asynccontextmanager
async def small(folder: Path) -> AsyncIterator[tuple[list[Any], Settings]]:
    """A run of pixels and one judge: what a command is asked, and the settings of a service."""
    folder.mkdir(exist_ok=True)
    arguments = [*CORE.arguments(folder), *ASKED]
    async with serve_models(folder, ()) as config:
        yield arguments, load_settings(config)


@asynccontextmanager
async def serve_scripted(folder: Path) -> AsyncIterator[tuple[list[Any], ScriptedService, str]]:
    """The small run, and a service that tests may change."""
    options = ServiceOptions(cache=folder / "calls")
    async with small(folder) as (arguments, settings), JudgeService(settings, options) as real:
        service = ScriptedService(real)
        async with service.serving() as url:
            yield [*arguments, "--out", folder / "run"], service, url


def failing(service: ScriptedService, after: int, code: grpc.StatusCode, words: str) -> Any:
    """Fails every edit after so many."""

    def fail(*_: Any) -> None:
        if len(service.asked) > after:
            raise Failure(code, words)

    return fail


def statuses(folder: Path) -> Counter[str]:
    return Counter(verdict["status"] for verdict, *_ in read_verdicts(folder).values())


def config(folder: Path, url: str, **more: Any) -> Path:
    """A settings file with a gateway."""
    lines = [
        f"{name} = {value}"
        for name, value in {"attempts": 2, "retry_wait": 0.001, **more}.items()
        if not isinstance(value, dict)
    ]
    lines += ["[gateway]", f'url = "{url}"', *(f"{n} = {v}" for n, v in more.get("at", {}).items())]
    path = folder / "thin.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


async def test_a_service_without_room_is_waited_for(tmp_path: Path) -> None:
    async with small(tmp_path) as (arguments, settings):
        async with service(settings, edits=1) as url:
            code, events = await run_command(*arguments, "--out", tmp_path / "run", "--gateway", url)
    assert code == 0, events[-1]["first_failure"]
    assert set(statuses(tmp_path / "run")) == {"scored", "unscored"}


async def test_a_service_that_restarts_in_the_middle_is_waited_for(tmp_path: Path) -> None:
    async with small(tmp_path) as (arguments, settings):
        async with JudgeService(settings) as service:
            first = ScriptedService(service)
            first.scores = failing(first, 3, grpc.StatusCode.UNAVAILABLE, "going away")
            async with first.serving() as url:
                # On a busy machine the second service may be up only after many attempts.
                patient = config(tmp_path, url, attempts=20, retry_wait=0.1)
                asked = [*arguments, "--out", tmp_path / "run", "--config", patient]
                running = asyncio.create_task(run_command(*asked))
                await until(lambda: len(first.asked) > 3 or running.done())
            second = ScriptedService(service)
            async with second.serving(int(url.rpartition(":")[2])):
                code, _ = await running
    assert code == 0
    assert set(statuses(tmp_path / "run")) == {"scored", "unscored"}
    assert second.asked


@pytest.mark.parametrize("words", ["Socket closed", "reset reason: connection termination"])
async def test_an_edit_that_may_end_services_is_sent_to_two_at_most(tmp_path: Path, words: str) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.scores = failing(service, 0, grpc.StatusCode.UNAVAILABLE, words)
        code, events = await run_command(*arguments, "--gateway", url)
    assert code == 3
    assert set(Counter(service.asked).values()) == {2}
    assert "cut twice" in events[-1]["first_failure"]


async def test_a_service_that_is_gone_costs_its_edits_and_a_later_session_pays_nothing_twice(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.scores = failing(service, 4, grpc.StatusCode.UNAVAILABLE, "going away")
        file = config(tmp_path, url, patience=0, concurrency=4)
        code, events = await run_command(*arguments, "--config", file)
        assert code == 3
        before = read_verdicts(tmp_path / "run")
        failed = {of for of, (verdict, *_) in before.items() if verdict["status"] == "failed"}
        assert failed
        assert len(before) > len(failed)
        assert "the Judge service" in events[-1]["first_failure"]
        paid = events[-1]["usage"]["cost"]
        service.scores = lambda *_: None
        service.asked.clear()
        code, events = await run_command(*arguments, "--config", file)
        assert code == 0
        assert {item for item, _ in service.asked} == {item for item, *_ in failed}
        # What was asked of the judges for edits whose answer was lost is known there.
        calls = Ledger(tmp_path / "calls" / FILE, read_only=True)
        cost = calls.costs[0]
        calls.close()
        assert paid + events[-1]["usage"].get("cost", 0.0) <= cost * (1 + 1e-9)
    after = read_verdicts(tmp_path / "run")
    assert all(after[of] == verdict for of, verdict in before.items() if of not in failed)
    assert set(statuses(tmp_path / "run")) == {"scored", "unscored"}


async def test_an_edit_that_is_refused_costs_itself(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):

        def refuses(request: pb.ScoreRequest, _: Any) -> None:
            if request.edit.id == "plain":
                raise Failure(grpc.StatusCode.INVALID_ARGUMENT, "edit.sources[0]: no")

        service.scores = refuses
        code, _ = await run_command(*arguments, "--gateway", url)
    assert code == 3
    verdicts = read_verdicts(tmp_path / "run")
    failed = {of: v for of, (v, *_) in verdicts.items() if v["status"] == "failed"}
    assert {item for item, *_ in failed} == {"plain"}
    assert all(not v["retryable"] and "edit.sources[0]: no" in v["error"] for v in failed.values())
    assert service.asked.count(("plain", "ours")) == 1


async def test_a_wrong_token_ends_it_before_anything_is_sent(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.token = "right"
        (tmp_path / "token").write_text("wrong-wrong\n")
        at = {"api_key": f'{{ file = "{tmp_path / "token"}" }}'}
        file = config(tmp_path, url, at=at)
        code, said = await run_to_error("run", *arguments, "--config", file)
        assert code == 2
        assert "the token is not accepted" in said
        assert "wrong-wrong" not in said, "a token is told to nobody"
        assert "editjudge doctor --gateway" in said
        assert not service.asked
        (tmp_path / "token").write_text("right\n")
        code, _ = await run_command(*arguments, "--config", file)
        assert code == 0


async def test_a_token_that_ends_in_the_middle_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few edits in flight, so that some are left when the token is refused.
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setenv("EDITJUDGE_CONCURRENCY", "1")
    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.scores = failing(service, 4, grpc.StatusCode.UNAUTHENTICATED, "Jwt is expired")
        code, events = await run_command(*arguments, "--gateway", url, "--set", "concurrency=4")
    assert (code, events[-1]["ended"]) == (3, "judge")
    assert len(service.asked) < FEW
    assert len({*service.asked}) == len(service.asked), "a refused token is not tried again"
    assert any("the token has expired" in event.get("text", "") for event in events)


async def test_a_service_that_signs_otherwise_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    def other(panel: pb.GetPanelResponse) -> None:
        panel.version = "0.9.0"
        for name, signature in panel.signatures.items():
            panel.signatures[name] = signature.replace("core.1", "core.2")

    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.panels = other
        code, said = await run_to_error("run", *arguments, "--gateway", url)
    assert code == 2
    (line,) = [line for line in said.splitlines() if line.strip()]
    assert "protocol (core.1 → core.2)" in line
    assert "0.9.0 there" in line
    assert not service.asked


async def test_a_signature_that_was_not_expected_is_stored_nowhere(tmp_path: Path) -> None:
    def other(_: Any, response: pb.ScoreResponse) -> None:
        for outcome in response.outcomes:
            outcome.signature = outcome.signature.replace("core.1", "core.2")

    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.scores = other
        code, events = await run_command(*arguments, "--gateway", url)
    assert (code, events[-1]["ended"]) == (3, "judge")
    assert any("protocol (core.1 → core.2)" in event.get("text", "") for event in events)
    assert set(statuses(tmp_path / "run")) <= {"failed"}
    assert not any("core.2" in signature for _, signature, *_ in read_verdicts(tmp_path / "run").values())


HOSTILE = {
    "no outcome": lambda r: r.ClearField("outcomes"),
    "no number": lambda r: setattr(r.outcomes[0], "value", float("nan")),
    "out of range": lambda r: setattr(r.outcomes[0], "value", -5.0),
    "a number that failed": lambda r: setattr(r.outcomes[0], "status", pb.STATUS_FAILED),
    "no status": lambda r: setattr(r.outcomes[0], "status", 77),
    "no evidence": lambda r: setattr(r.outcomes[0], "evidence_json", "[1]"),
    "deep evidence": lambda r: setattr(r.outcomes[0], "evidence_json", "[" * 100_000),
}


@pytest.mark.parametrize("how", HOSTILE)
async def test_what_is_no_answer_is_a_failure_and_no_number(how: str, tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):

        def spoils(request: pb.ScoreRequest, response: pb.ScoreResponse) -> None:
            if request.edit.id == "plain":
                HOSTILE[how](response)

        service.scores = spoils
        code, _ = await run_command(*arguments, "--gateway", url, "--limit", 2)
    assert code == 3
    verdicts = read_verdicts(tmp_path / "run")
    first = [v for (item, *_), (v, *_) in verdicts.items() if item == "full"]
    assert {v["status"] for v in first} == {"scored"}
    spoilt = [v for (item, *_), (v, *_) in verdicts.items() if item == "plain"]
    assert "failed" in {v["status"] for v in spoilt}
    assert all(v["value"] >= 0 for v in spoilt if v["status"] == "scored")


async def test_a_service_that_becomes_another_meanwhile_signs_as_what_it_is(tmp_path: Path) -> None:
    """Its panel is asked anew where a signature is not the expected one."""
    arguments = [*CORE.arguments(tmp_path), "--dimension", "core.quality.piqe"]
    triton = Specialists(("quality_piqe",))
    async with triton.serving() as url:
        settings = Settings.model_validate({"endpoints": {"a": {"url": url}}})
        async with JudgeService(settings) as judge_service:
            service = ScriptedService(judge_service)
            changed = asyncio.Event()

            async def replace_model(request: Any, context: Any) -> Any:
                if len(service.asked) > 4 and not changed.is_set():
                    changed.set()
                    triton.implementation = "another.2"
                    await judge_service.client.panel.rebind()
                return await score(request, context)

            score = service.Score
            service.Score = replace_model  # type: ignore[method-assign]
            async with service.serving() as at:
                file = config(tmp_path, at, concurrency='"1"')
                code, _ = await run_command(*arguments, "--out", tmp_path / "run", "--config", file)
    assert code in {0, 3}
    made_by = Counter(
        "another.2" in signature
        for verdict, signature, *_ in read_verdicts(tmp_path / "run").values()
        if verdict["status"] == "scored"
    )
    assert set(made_by) == {True, False}
    first, *again = [about.HasField("protocol") for about in service.about]
    assert first
    assert again
    assert not any(again)


async def test_max_cost_holds_over_sessions(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):
        _, free = await run_command(*arguments[:-1], tmp_path / "free", "--gateway", url)
        most = free[-1]["usage"]["cost"] / 2
    async with serve_scripted(tmp_path / "again") as (arguments, service, url):
        asked = [*arguments, "--gateway", url, "--max-cost"]
        code, events = await run_command(*asked, most)
        assert (code, events[-1]["ended"]) == (3, "cost")
        first = events[-1]["usage"]["cost"]
        assert 0 < first <= most
        sent = len(service.asked)
        code, events = await run_command(*asked, most)
        assert (code, events[-1]["ended"]) == (3, "cost")
        assert first + events[-1]["usage"]["cost"] <= most
        assert len(service.asked) <= sent + 1
        code, events = await run_command(*asked, 10 * most)
        assert code == 0


async def test_what_is_known_there_costs_nothing(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, _, url):
        _, first = await run_command(*arguments, "--gateway", url)
        again = [*arguments[:-1], tmp_path / "again"]
        code, second = await run_command(*again, "--gateway", url)
    assert code == 0
    assert first[-1]["usage"]["cost"] > 0
    assert (second[-1]["usage"]["calls"], second[-1]["usage"]["cost"]) == (0, 0)
    assert read_verdicts(tmp_path / "again") == read_verdicts(tmp_path / "run")


REFUSED = [
    (("--max-cost", "5"), "reports no costs of generalist.judge"),
    (("--judge", "third"), "generalist.third cannot be used: the Judge service at"),
    # What the service decides.
    (("--endpoint", "grpc://127.0.0.1:1"), "--endpoint"),
    (("--generalist", "http://127.0.0.1:1/v1"), "--judge"),
    (("--ledger", "calls"), "--ledger"),
    (("--retry", "unscored"), "--retry"),
]


@pytest.mark.parametrize(("flags", "named"), REFUSED, ids=[flags[0] for flags, _ in REFUSED])
async def test_what_cannot_be_asked_of_a_service_is_refused_before_anything_is_sent(
    flags: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    def drop_prices(panel: pb.GetPanelResponse) -> None:
        for service in panel.services:
            service.priced = False

    async with serve_scripted(tmp_path) as (arguments, service, url):
        service.panels = drop_prices
        code, said = await run_to_error("run", *arguments, "--gateway", url, *flags)
    assert code == 2
    assert named in said
    assert not service.asked


async def test_a_thin_client_asks_for_no_more_than_the_deadline_of_an_edit(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (arguments, service, url):
        file = config(tmp_path, url, at={"edit_deadline": 77.0})
        code, _ = await run_command(*arguments, "--config", file)
    assert code == 0
    assert all(0 < left < 78 for left in service.deadlines), service.deadlines


async def score_both_ways(folder: Path, *asked: Any) -> tuple[Any, Any]:
    """What `score` says by direct calls and through a service."""
    async with small(folder) as (_, settings), service(settings) as url:
        ways = ("--config", folder / "editjudge.toml"), ("--gateway", url)
        command = ("score", "--instruction", "x", *asked)
        (_, direct), (_, far) = [await asyncio.to_thread(run_verb, *command, *way, "--json") for way in ways]
    assert far["verdicts"] == direct["verdicts"]
    return direct, far


async def test_a_picture_of_another_kind_than_its_name_says_is_judged_alike(tmp_path: Path) -> None:
    """A judge is never shown such a file as it is."""
    file = tmp_path / "jpeg.png"
    Pil.fromarray(np.full((24, 32, 3), 90, np.uint8)).save(file, "JPEG")
    direct, far = await score_both_ways(tmp_path, "--source", file, "--edited", file, *ASKED)
    assert any(verdict["calls"] for verdict in far["verdicts"])
    assert far["sample"] == direct["sample"]


async def test_a_service_is_told_names_of_files_and_no_folders(tmp_path: Path) -> None:
    """A mask is sent as PNG, and is named so."""
    Pil.fromarray(np.full((24, 32, 3), 90, np.uint8)).save(tmp_path / "source.png")
    Pil.fromarray(np.full((24, 32), 200, np.uint8)).save(tmp_path / "mask.jpg")
    Pil.fromarray(np.full((24, 40, 3), 90, np.uint8)).save(tmp_path / "edited.png")
    source, edited, mask = (tmp_path / name for name in ("source.png", "edited.png", "mask.jpg"))
    made = Edit.load(source=source, edited=edited, instruction="x", mask=mask)
    sent = make_score_request(made, (), pb.Protocol()).edit
    names = [picture.name for picture in (*sent.sources, sent.edited, sent.mask)]
    assert names == ["source.png", "edited.png", "mask.png"]
    asked = ["--source", source, "--edited", edited, "--mask", mask]
    _, far = await score_both_ways(tmp_path, *asked, "--dimension", "core.psnr.*")
    assert str(tmp_path) not in str(far["verdicts"])


async def test_a_service_that_never_was_there_is_not_waited_for(tmp_path: Path) -> None:
    """With the usual patience it would be, for longer than a test may take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"grpc://127.0.0.1:{taken.getsockname()[1]}"
        async with small(tmp_path) as (arguments, _):
            out = ["--out", tmp_path / "run", "--config", config(tmp_path, url)]
            code, said = await run_to_error("run", *arguments, *out)
    assert code == 2
    assert url in said
    assert "not back" not in said


async def test_own_prompts_are_asked_there(tmp_path: Path) -> None:
    own = tmp_path / "own" / "core"
    own.mkdir(parents=True)
    (own / "instruction_following.toml").write_text(OWN_PROMPT)
    async with serve_scripted(tmp_path) as (arguments, _, url):
        asked = [*arguments, "--prompts", own.parent]
        through, _ = await run_command(*asked, "--gateway", url)
        asked[asked.index(tmp_path / "run")] = tmp_path / "direct"
        direct, _ = await run_command(*asked, "--config", tmp_path / "editjudge.toml")
    assert (through, direct) == (3, 3)  # the judge's script knows other words
    assert read_verdicts(tmp_path / "run") == read_verdicts(tmp_path / "direct")
    signatures = {signature for _, signature, *_ in read_verdicts(tmp_path / "run").values()}
    assert any("custom" in signature for signature in signatures)


async def test_doctor_says_who_judges(tmp_path: Path) -> None:
    async with serve_scripted(tmp_path) as (_, service, url):
        service.token = "right"
        (tmp_path / "token").write_text("right\n")
        file = config(tmp_path, url, at={"api_key": f'{{ file = "{tmp_path / "token"}" }}'})
        code, found = await asyncio.to_thread(run_verb, "doctor", "--config", file, "--json")
        assert code == 0
        services = found[1:]
        assert {each["service"] for each in services} == {"generalist.judge", "generalist.second"}
        assert all("model-" in each["identity"] for each in services)
        # On what they run a Judge service does not tell.
        panel = {each["service"]: {"device": "gpu"} for each in services}
        expect = tmp_path / "panel.json"
        for facts, right in (({}, 0), ({"name": "another"}, 1)):
            expect.write_text(json.dumps({**panel, "generalist.judge": facts}))
            asked = ("doctor", "--config", file, "--expect", expect, "--json")
            code, found = await asyncio.to_thread(run_verb, *asked)
            assert code == right
            assert [each["service"] for each in found if each["problem"]] == (["generalist.judge"] * right)
        service.refusal = grpc.StatusCode.UNAUTHENTICATED
        (tmp_path / "token").write_text("wrong\n")
        code, (only,) = await asyncio.to_thread(run_verb, "doctor", "--config", file, "--json")
        assert code == 1
        assert "the token is not accepted" in only["problem"]
        assert only["fix"]


async def test_a_dry_run_says_through_whom_and_calls_nobody(tmp_path: Path) -> None:
    async with small(tmp_path) as (arguments, _):
        asked = [*arguments, "--out", tmp_path / "run", "--gateway", "grpc://127.0.0.1:1"]
        code, estimate = await run_command(*asked, "--dry-run")
    assert code == 0
    assert any("Judge service at grpc://127.0.0.1:1" in note for note in estimate["notes"])


async def test_no_request_is_held_until_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the pictures of the edit, which the edit has too."""
    goes_on = asyncio.Event()
    async with JudgeService(Settings()) as real:
        score = real.score

        async def wait(*arguments: Any) -> Any:
            await goes_on.wait()
            return await score(*arguments)

        monkeypatch.setattr(real, "score", wait)
        scripted = ScriptedService(real)
        async with scripted.serving() as url:
            message = make_request()
            alone = sys.getrefcount(message)
            endpoint = GatewayEndpoint(url=url)
            async with connection.JudgeService(endpoint, RetryPolicy()) as client:
                answer = asyncio.create_task(client.score(lambda: message, []))
                await until(lambda: scripted.asked)
                await until(lambda: sys.getrefcount(message) == alone)
                assert not answer.done()
                goes_on.set()
                assert (await answer).outcomes
