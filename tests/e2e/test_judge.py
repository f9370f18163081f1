"""`score --generalist` and what goes with it, against a scripted judge."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ..fakes.openai import Fault, ScriptedOpenAi, reply
from .conftest import Command, CommandResult, run_in_process

GENERIC = {
    "core.instruction_following": 0.875,
    "core.preservation": 0.875,
    "core.blending_naturalness": 0.875,
    "core.editing_artifacts": 0.875,
    "core.physical_plausibility": 0.8,
    "core.composition_and_interaction": 0.8,
}
QUESTIONS = [f"Is part {i} of {{}} right?" for i in range(5)]


class Judge(ScriptedOpenAi):
    """Says excellent or good, writes five questions, and answers the first of them with no."""

    def make_reply(self) -> dict[str, Any]:
        text = json.dumps(self.requests[-1]["messages"])
        if "have not seen the result" in text:
            about = "pose" if "Perspective:" in text else "light"
            questions = {"questions": [one.format(about) for one in QUESTIONS]}
            return reply(json.dumps(questions))
        sure = {"No": 0.9, "Yes": 0.1} if "part 0" in text else {"Yes": 0.9, "No": 0.1}
        levels = {"excellent": 0.5, "good": 0.5}
        self.probabilities = levels if "excellent:" in text else sure
        return super().make_reply()


@pytest.fixture
def score(command: Command, photo_file: Path) -> Any:
    """`editjudge score --json` of one edit by a scripted judge."""

    async def run(server: ScriptedOpenAi, *options: str | Path, **variables: str) -> CommandResult:
        async with server.serving() as url:
            arguments = ["--source", photo_file, "--edited", photo_file, "--instruction", "red"]
            flags = [flag.format(url) if isinstance(flag, str) else flag for flag in options]
            return await asyncio.to_thread(command, "score", *arguments, *flags, **variables)

    return run


def values(ran: CommandResult) -> dict[str, float]:
    return {v["dimension"]: v["value"] for v in ran.json["verdicts"] if v["status"] == "scored"}


async def test_every_generic_dimension_is_scored_and_no_call_made_twice(score: Any, tmp_path: Path) -> None:
    server = Judge(models=("tiny-untrained",), answers_as="tiny-untrained")
    dimensions = [part for name in GENERIC for part in ("--dimension", name)]
    ledger = tmp_path / "ledger.sqlite"
    asked = [*dimensions, "--generalist", "{}", "--ledger", ledger, "--json"]
    first = await score(server, *asked)
    assert first.code == 0, first.err
    assert values(first) == pytest.approx(GENERIC)
    for verdict in first.json["verdicts"]:
        assert verdict["untrained"] is True
        assert verdict["prompts"] == "own"
        assert "generalist.judge:tiny-untrained(" in verdict["signature"]
    made = 4 + 2 + 2 * len(QUESTIONS)
    assert first.json["usage"]["calls"] == made
    assert len(server.requests) == made + 1, "one more asks whether it tells probabilities"

    port_free = await score(server, *asked)
    assert port_free.code == 0, port_free.err
    assert values(port_free) == values(first)
    assert port_free.json["usage"]["calls"] == 0
    assert len(server.requests) == made + 1, "that answer is remembered"


async def test_the_table_says_whose_words_and_what_it_took(score: Any) -> None:
    ran = await score(Judge(), "--dimension", "core.editing_artifacts", "--generalist", "{}")
    assert ran.code == 0, ran.err
    assert "prompts in own words: core.editing_artifacts" in ran.out
    assert "the judge took 1 call, 100 prompt tokens" in ran.out


async def test_a_failing_judge_costs_its_dimensions_only(score: Any) -> None:
    server = ScriptedOpenAi(Fault(400, {"error": {"message": "no"}}))
    ran = await score(
        server, "--dimension", "core.editing_artifacts", "--dimension", "core.psnr.source.whole",
        "--generalist", "{}", "--json",
    )  # fmt: skip
    assert ran.code == 3
    assert list(values(ran)) == ["core.psnr.source.whole"]


async def test_another_model_that_answers_is_a_failure(score: Any) -> None:
    server = Judge(answers_as="another")
    ran = await score(server, "--dimension", "core.editing_artifacts", "--generalist", "{}", "--json")
    assert ran.code == 3
    assert "'another' answered" in ran.json["verdicts"][0]["reason"]


async def test_a_key_is_sent_and_shown_nowhere(score: Any, command: Command, photo_file: Path, tmp_path: Path) -> None:
    server = Judge()
    async with server.serving() as url:
        config = tmp_path / "editjudge.toml"
        config.write_text(
            f'[judges.judge]\nurl = "{url}"\napi_key = {{ env = "KEY" }}\nprice = {{ input = 1000, output = 1000 }}\n'
        )
        given = ["--source", photo_file, "--edited", photo_file, "--instruction", "x"]
        ran = await asyncio.to_thread(
            command, "score", *given, "--config", config, "--dimension", "core.editing_artifacts",
            "--set", "max_cost=5", "--json", KEY="sk-very-secret",
        )  # fmt: skip
    assert ran.code == 0, ran.err
    assert server.headers[-1]["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in ran.out + ran.err
    assert ran.json["usage"]["cost"] == pytest.approx(0.101)


NO = Fault(400, {"error": {"message": "no such deployment"}})


@pytest.mark.parametrize(
    ("server", "logprobs", "told"),
    [
        (Judge(), "auto", ""),
        (ScriptedOpenAi(reply("Yes")), "auto", "the server reports no token probabilities"),
        (ScriptedOpenAi(reply("Yes")), "never", ""),
        (ScriptedOpenAi(NO), "never", "no such deployment"),
        (ScriptedOpenAi(reply("", finish_reason="length")), "never", "its answer cannot be read"),
        (ScriptedOpenAi(reply("purple")), "never", "its answer cannot be read"),
    ],
    ids=["lists", "lists none", "answers", "refuses", "says nothing", "says anything"],
)
async def test_doctor_asks_a_judge(tmp_path: Path, server: ScriptedOpenAi, logprobs: str, told: str) -> None:
    config, asked = tmp_path / "editjudge.toml", 0
    async with server.serving() as url:
        lines = [f'ledger = "{tmp_path / "ledger.sqlite"}"', "[judges.judge]", f'url = "{url}"']
        config.write_text("\n".join([*lines, f'logprobs = "{logprobs}"']))
        for _ in range(2):  # no stored reply answers in its place
            ran = await asyncio.to_thread(run_in_process, "doctor", "--config", config, "--json")
            assert ran.code == bool(told), ran.out + ran.err
            (found,) = (one for one in ran.json if one["service"] == "generalist.judge")
            assert told in found["problem"]
            assert len(server.requests) > asked
            asked = len(server.requests)
    if told == "" and logprobs == "auto":
        assert found["answer"] == "choices by the probabilities it lists"


def test_images_do_not_leave_without_consent(command: Command, photo_file: Path) -> None:
    ran = command(
        "score", "--source", photo_file, "--edited", photo_file, "--instruction", "x",
        "--dimension", "core.editing_artifacts", "--json",
        "--generalist", "https://judge.example.com/v1",
    )  # fmt: skip
    assert ran.code == 3
    assert ran.json["verdicts"][0]["status"] == "not_served"
    assert "send_images = true" in ran.json["verdicts"][0]["reason"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--generalist", "ftp://x"], "http(s)://host:port/v1"),
        (["--generalist", "http://127.0.0.1:1"], "http(s)://host:port/v1"),
        (["--judge-model", "m"], "give --judge URL"),
        (["--set", "max_cost=1", "--generalist", "http://127.0.0.1:1/v1"], "has no price"),
    ],
)
def test_flags_that_cannot_be_used(photo_file: Path, flags: list[str], message: str) -> None:
    ran = run_in_process("score", "--source", photo_file, "--edited", photo_file,
               "--instruction", "x", *flags)  # fmt: skip
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_prompts_are_listed_and_imported(command: Command, tmp_path: Path) -> None:
    ran = run_in_process("list", "prompts", "--json")
    assert "core/instruction_following" in {one["name"] for one in ran.json["own"]}
    assert {one["prompts"] for one in ran.json["originals"]} >= {"qinsight", "artimuse"}
    shown = run_in_process("list", "prompts", "*")
    assert shown.code == 0
    assert "What the editor was told" in shown.out
    absent = command("prompts", "import", "qinsight", tmp_path)
    assert absent.code == 2
    assert "does not hold q_insight_system.txt" in absent.err
