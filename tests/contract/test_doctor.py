"""`editjudge doctor` says what it checked: known answers, and whether keys are asked for."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from editjudge.app.doctor import NO_KNOWN_ANSWER, check_services
from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.base.local_stack import StackState
from editjudge.cli import local_stack, root
from editjudge.cli.commands import load_commands
from editjudge.panel import SPECIALISTS
from editjudge_services.cli import COMMANDS, status, up

from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.triton import ScriptedTriton, score


async def test_an_answer_that_is_not_known_is_said() -> None:
    async with ScriptedTriton(models=("quality_piqe",)).serving() as url:
        endpoint = Endpoint(url=url, services=("quality.piqe",))
        (finding,) = await check_services(Settings(endpoints={"a": endpoint}))
    assert (finding.problem, finding.answer) == ("", NO_KNOWN_ANSWER)


class PlacedTriton(ScriptedTriton):
    """Says on what its instances run."""

    kinds = ("KIND_GPU",)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = await super().ModelConfig(request, context)
        for kind in self.kinds:
            group = response.config.instance_group.add()
            group.kind = group.Kind.Value(kind)
        return response


EXPECTED: dict[str, dict[str, str]] = {
    "quality.piqe": {"name": "quality_piqe/1", "implementation": "scripted.1", "device": "gpu"},
    "generalist.judge": {"name": "judge", "root": "Org/Judge"},
}


async def test_an_endpoint_that_is_not_asked_is_named_with_its_mend() -> None:
    far, near = "https://judge.example.com/v1", "http://127.0.0.1:9/v1"
    judges = {"far": JudgeEndpoint(url=far), "near": JudgeEndpoint(url=near)}
    triton = Endpoint(url="grpc://127.0.0.1:9")
    found = await check_services(Settings(judges=judges, endpoints={"a": triton}))
    shown = {one.endpoint: (one.service, one.problem, one.fix) for one in found}
    assert shown.keys() == {far, near, triton.url}
    told = "images would be sent to judge.example.com, outside your own network"
    consent = "if they may be, set send_images = true for this judge (or --set judges.NAME.send_images=true)"
    assert shown[far] == ("generalist.far", told, consent)
    assert shown[near][0] == "generalist.near"
    assert shown[triton.url][0] == "all"


async def doctor_of(folder: Path, expected: object, *kinds: str) -> tuple[int, Any]:
    """What `doctor --expect` says of a Triton and a judge."""
    file, config = folder / "panel.json", folder / "editjudge.toml"
    file.write_text(json.dumps(expected))
    triton = PlacedTriton(score(0.5), models=("quality_piqe",))
    triton.kinds = kinds or triton.kinds
    judge = ScriptedOpenAi(reply("Yes"), owner="vllm")
    async with triton.serving() as at, judge.serving() as url:
        config.write_text(
            f'[endpoints.a]\nurl = "{at}"\nservices = ["quality.piqe"]\n'
            f'[judges.judge]\nurl = "{url}"\nlogprobs = "never"\n'
        )
        flags = ["--config", str(config), "--expect", str(file), "--json"]
        invoke = CliRunner().invoke
        ran = await asyncio.to_thread(invoke, root, ["doctor", *flags], standalone_mode=False)
    assert ran.return_value is not None, ran.exception
    return ran.return_value, json.loads(ran.stdout)


async def test_what_a_panel_file_expects_is_found(tmp_path: Path) -> None:
    code, findings = await doctor_of(tmp_path, EXPECTED)
    assert (code, [one["problem"] for one in findings]) == (0, ["", ""])


@pytest.mark.parametrize(
    ("service", "facts", "told"),
    [
        ("quality.piqe", {"implementation": "piqe.2"}, "implementation piqe.2 is expected"),
        ("quality.piqe", {"weights": "sha256:aa"}, "and none is served"),
        ("generalist.judge", {"root": "/weights/another"}, "and Org/Judge is served"),
        ("ocr.ppocr", {}, "it is expected, and not served"),
    ],
)
async def test_what_is_served_otherwise_is_a_problem(
    tmp_path: Path, service: str, facts: dict[str, str], told: str
) -> None:
    expected = {**EXPECTED, service: {**EXPECTED.get(service, {}), **facts}}
    code, findings = await doctor_of(tmp_path, expected)
    assert code == 1
    (finding,) = (one for one in findings if one["problem"])
    assert finding["service"] == service
    assert told in finding["problem"]
    assert "panel file" in finding["fix"]


async def test_where_models_run_is_expected_too(tmp_path: Path) -> None:
    code, (first, _) = await doctor_of(tmp_path, EXPECTED, "KIND_GPU", "KIND_CPU")
    assert code == 1
    assert first["problem"] == "device gpu is expected, and cpu+gpu is served"


async def test_a_service_that_nobody_expects_is_a_problem(tmp_path: Path) -> None:
    code, findings = await doctor_of(tmp_path, {})
    assert code == 1
    assert {one["problem"] for one in findings} == {"it is served, and not expected"}


@pytest.fixture
def lame(monkeypatch: pytest.MonkeyPatch) -> StackState:
    """A local stack that runs without one of its models; nothing answers there."""
    at = {"grpc": "grpc://127.0.0.1:9", "http": "http://127.0.0.1:9", "metrics": ""}
    unloaded = {"ocr_ppocr": "RuntimeError: weights are absent"}
    log = Path("triton.log")
    state = StackState(pid=1, log=log, started=time.time(), unloaded=unloaded, **at)
    for module in (local_stack, status):
        monkeypatch.setattr(module, "running_stack", lambda: state)
    monkeypatch.setattr("editjudge.app.client.running_stack", lambda: state)
    return state


def test_a_model_that_could_not_be_loaded_is_named(lame: StackState) -> None:
    said: list[str] = []
    with local_stack.provide_services(Settings(), roles=SPECIALISTS, say=said.append) as settings:
        assert [one.url for one in settings.endpoints.values()] == [lame.grpc]
    assert said == ["ocr_ppocr is not served: RuntimeError: weights are absent"]
    elsewhere = Settings().at("grpc://127.0.0.1:10")
    with local_stack.provide_services(elsewhere, roles=SPECIALISTS, say=pytest.fail) as settings:
        assert settings == elsewhere

    ran = CliRunner().invoke(root.commands["doctor"], standalone_mode=False)
    assert ran.return_value == 1
    assert "ocr.ppocr" in ran.output
    assert "could not be loaded: RuntimeError: weights are absent" in ran.output


def test_status_names_it(lame: StackState) -> None:
    command = load_commands(COMMANDS)["status"]
    ran = CliRunner().invoke(command, standalone_mode=False)
    assert "ocr_ppocr is not served: RuntimeError: weights are absent" in ran.output
    ran = CliRunner().invoke(command, ["--json"], standalone_mode=False)
    assert '"ocr_ppocr": "RuntimeError: weights are absent"' in ran.output


def test_what_was_to_be_served_and_is_not_is_no_success(lame: StackState, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find_services() -> tuple[dict[str, str], str]:
        return {}, ""

    monkeypatch.setattr(status, "_find_services", find_services)
    monkeypatch.setattr(up, "up", lambda *_: lame)
    commands = load_commands(COMMANDS)
    for command, arguments, code in (
        ("status", [], 1),
        ("status", ["--json"], 1),
        ("up", [], 0),
        ("up", ["--model", "quality_piqe"], 0),
        ("up", ["--model", "quality_piqe", "--model", "ocr_ppocr"], 1),
        ("up", ["--model", "ocr_ppocr", "--json"], 1),
    ):
        assert CliRunner().invoke(commands[command], arguments, standalone_mode=False).return_value == code


def test_a_judge_service_that_is_not_there_is_named_once() -> None:
    url = "grpc://127.0.0.1:9"
    told = CliRunner().invoke(root, ["doctor", "--gateway", url, "--set", "attempts=1"]).output
    assert told.count("✗ gateway") == told.count(url) == 1
