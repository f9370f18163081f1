"""Q-Insight and ArtiMuse against a scripted vLLM: prompts, requests, parsing, faults."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.errors import Abstention, ConfigError
from editjudge.base.images import load_image
from editjudge_services.aesthetics.artimuse_service import LEVELS, ArtiMuse, mean_level
from editjudge_services.quality.qinsight_service import QInsight, parse_rating
from editjudge_services.runtime import vllm_specialist
from editjudge_services.runtime.specialist import Request, Unavailable
from editjudge_services.runtime.vllm_specialist import Backend, read_prompts

from ..fakes.openai import ScriptedOpenAi, problem, reply, serve_in_thread

IMAGE = np.full((8, 8, 3), 90, np.uint8)
GOOD = '<think>sharp</think><answer>{"rating": 4.25}</answer>'
NAMES = {QInsight: "QINSIGHT", ArtiMuse: "ARTIMUSE"}
LoadSpecialist = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def load_specialist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadSpecialist:
    """Loads a specialist before a server, with stand-ins for the authors' prompts."""
    for kind in NAMES:
        prompts = {name: f"stand-in for {name}\n".encode() for name in kind.prompts}
        for name, data in prompts.items():
            (tmp_path / name).write_bytes(data)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in prompts.items()}
        monkeypatch.setattr(kind, "prompts", digests)

    @contextmanager
    def load(server: ScriptedOpenAi, kind: type[Any] = QInsight) -> Iterator[Any]:
        server.owner, server.vocabulary = "vllm", {level: n for n, level in enumerate(LEVELS)}
        with serve_in_thread(server) as url:
            given = {"URL": url, "MODEL": "judge", "PROMPTS": str(tmp_path)}
            for name, value in given.items():
                monkeypatch.setenv(f"EDITJUDGE_{NAMES[kind]}_{name}", value)
            specialist = kind()
            specialist.load({})
            yield specialist

    return load


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_specialist, "_FIRST_WAIT", 0.001)


def ask(specialist: Any, count: int = 1) -> list[Any]:
    return list(specialist.infer([Request({"IMAGE": IMAGE})] * count))


RATINGS = [
    (GOOD, 4.25),
    ('<answer>{"rating": "3"}</answer>', 3),
    ('<answer>\n```json\n{"rating":1.00}\n```\n</answer>', 1),
]
NO_RATINGS = {
    "no answer": ("I would say 4", "0 answers"),
    "empty": ("", "0 answers"),
    "two answers": (GOOD + GOOD, "2 answers"),
    "no rating": ("<answer>good</answer>", "0 ratings"),
    "two ratings": ('<answer>{"rating": 2, "rating": 3}</answer>', "2 ratings"),
    "above": ('<answer>{"rating": 5.5}</answer>', "outside"),
    "below": ('<answer>{"rating": 0}</answer>', "outside"),
    "negative": ('<answer>{"rating": -3}</answer>', "outside"),
    "no number": ('<answer>{"rating": 4.2.1}</answer>', "is no number"),
    "not closed": ('<answer>{"rating": 4}', "0 answers"),
}


@pytest.mark.parametrize(("reply", "expected"), RATINGS)
def test_ratings(reply: str, expected: float) -> None:
    assert parse_rating(reply) == expected


@pytest.mark.parametrize("case", NO_RATINGS)
def test_no_rating_is_never_a_guess(case: str) -> None:
    reply, reason = NO_RATINGS[case]
    with pytest.raises(Abstention, match=reason) as caught:
        parse_rating(reply)
    assert caught.value.kind == "unparsable"


def test_qinsight(load_specialist: LoadSpecialist) -> None:
    with load_specialist(server := ScriptedOpenAi(reply(GOOD))) as specialist:
        (answer,) = ask(specialist)
    assert answer["SCORE"] == pytest.approx((4.25 - 1) / 4)
    (request,) = server.requests
    system, user = request["messages"]
    assert system["content"] == "stand-in for q_insight_system.txt\n"
    assert [part["type"] for part in user["content"]] == ["text", "image_url"]
    assert (request["temperature"], request["model"]) == (0, "judge")


def test_one_bad_reply_does_not_cost_the_others(load_specialist: LoadSpecialist) -> None:
    with load_specialist(ScriptedOpenAi(reply("no idea"), reply(GOOD))) as specialist:
        answers = ask(specialist, 3)
    assert sum(isinstance(answer, Abstention) for answer in answers) == 1


WITHOUT = "no log-probabilities"
UNSCORED: dict[str, tuple[type[Any], Any, str]] = {
    "cut": (QInsight, reply(GOOD, finish_reason="length"), "cut at"),
    "no text": (QInsight, reply(None), "0 answers"),
    "no choice": (QInsight, {"choices": []}, "0 choices"),
    "two choices": (QInsight, {"choices": reply(GOOD)["choices"] * 2}, "2 choices"),
    "no log-probabilities": (ArtiMuse, reply("x"), WITHOUT),
    "none of them": (ArtiMuse, reply("x", logprobs=None), WITHOUT),
    "of no token": (ArtiMuse, reply("x", logprobs={"content": []}), WITHOUT),
}


@pytest.mark.parametrize("case", UNSCORED)
def test_replies_without_a_score(case: str, load_specialist: LoadSpecialist) -> None:
    kind, answer, reason = UNSCORED[case]
    with load_specialist(ScriptedOpenAi(answer), kind) as specialist:
        (got,) = ask(specialist)
    assert isinstance(got, Abstention)
    assert reason in got.reason


# Faults


def test_passing_faults_are_retried(load_specialist: LoadSpecialist) -> None:
    with load_specialist(
        server := ScriptedOpenAi(problem(503, "busy"), problem(429, "busy"), reply(GOOD))
    ) as specialist:
        assert "SCORE" in ask(specialist)[0]
    assert len(server.requests) == 3


@pytest.mark.parametrize("seconds", ["0", "3600"])
def test_a_busy_server_is_waited_for_within_the_deadline(load_specialist: LoadSpecialist, seconds: str) -> None:
    server = ScriptedOpenAi(problem(429, "busy", headers={"Retry-After": seconds}), reply(GOOD))
    with load_specialist(server) as specialist:
        if seconds == "0":
            assert "SCORE" in ask(specialist)[0]
        else:
            with pytest.raises(Unavailable, match="429"):
                ask(specialist)


@pytest.mark.parametrize(("status", "calls"), [(503, 4), (400, 1), (500, 4)])
def test_a_server_that_stays_busy_and_other_faults_are_told(
    status: int, calls: int, load_specialist: LoadSpecialist
) -> None:
    with load_specialist(server := ScriptedOpenAi(problem(status, "scripted"))) as specialist:
        with pytest.raises(Unavailable, match=f"chat/completions: HTTP {status}"):
            ask(specialist)
    assert len(server.requests) == calls


def test_a_lost_connection_is_told(load_specialist: LoadSpecialist) -> None:
    with load_specialist(ScriptedOpenAi(reply(GOOD))) as specialist:
        pass
    with pytest.raises(Unavailable, match="chat/completions"):
        ask(specialist)


def test_another_model_than_asked_for_is_refused(load_specialist: LoadSpecialist) -> None:
    with load_specialist(ScriptedOpenAi(reply(GOOD), answers_as="newer-judge")) as specialist:
        with pytest.raises(Unavailable, match="'newer-judge' answered"):
            ask(specialist)


def test_a_server_without_the_model(load_specialist: LoadSpecialist) -> None:
    with pytest.raises(RuntimeError, match="not 'judge'"):
        with load_specialist(ScriptedOpenAi(reply(GOOD), models=("other",))):
            pass


def test_another_tokenizer_is_refused(load_specialist: LoadSpecialist, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedOpenAi(reply("x"))
    monkeypatch.setattr(server, "tokens", lambda text: [ord(letter) for letter in text])
    with pytest.raises(RuntimeError, match="'aa' is 2 tokens"):
        with load_specialist(server, ArtiMuse):
            pass


# Levels


def test_artimuse(load_specialist: LoadSpecialist) -> None:
    weights = np.exp([0.0 if index == 75 else -9.0 - index / 50 for index in range(101)])
    server = ScriptedOpenAi(probabilities=dict(zip(LEVELS, weights, strict=True)))
    with load_specialist(server, ArtiMuse) as specialist:
        (answer,) = ask(specialist)
    expected = (weights @ np.arange(101)) / weights.sum() / 100
    assert answer["SCORE"][0] == pytest.approx(expected, abs=1e-6)
    (request,) = server.requests
    assert len(request["logprob_token_ids"]) == 101
    assert (request["max_tokens"], request["logprobs"]) == (1, True)
    image, text = request["messages"][0]["content"]
    assert text["type"] == "text"
    sent = base64.b64decode(image["image_url"]["url"].partition(",")[2])
    assert load_image(sent).rgb.shape == (448, 448, 3)


def test_the_levels() -> None:
    assert len(set(LEVELS)) == 101
    assert (LEVELS[0], LEVELS[25], LEVELS[26], LEVELS[50]) == ("aa", "az", "ca", "cy")
    assert (LEVELS[51], LEVELS[75], LEVELS[76], LEVELS[100]) == ("da", "dy", "ea", "ey")


@given(st.lists(st.floats(-50, 0), min_size=101, max_size=101))
def test_an_expectation_is_bounded_and_shift_invariant(values: list[float]) -> None:
    ids = list(range(101))
    plain = mean_level(dict(zip(ids, values, strict=True)), ids)
    shifted = mean_level(dict(zip(ids, (v - 7 for v in values), strict=True)), ids)
    assert 0 <= plain <= 1
    assert plain == pytest.approx(shifted, abs=1e-9)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_level_without_a_probability_is_no_score(value: float) -> None:
    with pytest.raises(Abstention, match="1 of 3 levels"):
        mean_level({1: 0.0, 2: value, 3: -1.0}, [1, 2, 3])


# Settings


def test_the_prompts_must_be_the_authors(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"q\.txt is missing"):
        read_prompts(tmp_path, {"q.txt": "0" * 64})
    (tmp_path / "q.txt").write_text("nearly the same")
    with pytest.raises(RuntimeError, match="not the authors'"):
        read_prompts(tmp_path, {"q.txt": "0" * 64})


@pytest.mark.parametrize("kind", NAMES)
def test_served_only_where_a_vllm_is_named(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind.installed_identity("fp32") is None
    name = NAMES[kind]
    monkeypatch.setenv(f"EDITJUDGE_{name}_URL", "http://127.0.0.1:8000/v1")
    with pytest.raises(ConfigError, match="give an http"):
        kind.installed_identity("fp32")
    monkeypatch.setenv(f"EDITJUDGE_{name}_MODEL", "weights@1")
    assert kind.installed_identity("fp32") == {"served_as": "weights@1", "weights": "not told"}
    monkeypatch.setenv(f"EDITJUDGE_{name}_TIMEOUT", "soon")
    with pytest.raises(ConfigError, match=f"EDITJUDGE_{name}_TIMEOUT"):
        Backend.read_named(name)
