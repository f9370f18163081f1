"""Q-Insight and ArtiMuse against a scripted vLLM: prompts, requests, parsing, faults."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.errors import Abstention, ConfigError
from editjudge_services.aesthetics.artimuse_service import LEVELS, ArtiMuse, mean_level
from editjudge_services.quality.qinsight_service import QInsight, parse_rating
from editjudge_services.runtime import vllm_specialist
from editjudge_services.runtime.specialist import Request, Unavailable
from editjudge_services.runtime.vllm_specialist import Backend, read_prompts

from ..fakes.vllm import ScriptedVllm, choice

IMAGE = np.full((8, 8, 3), 90, np.uint8)
GOOD = '<think>sharp</think><answer>{"rating": 4.25}</answer>'


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the authors' prompts, under digests of their own."""
    for kind in (QInsight, ArtiMuse):
        digests = {}
        for name in kind.prompts:
            data = f"stand-in for {name}\n".encode()
            (tmp_path / name).write_bytes(data)
            digests[name] = hashlib.sha256(data).hexdigest()
        monkeypatch.setattr(kind, "prompts", digests)
    return tmp_path


@contextmanager
def loaded(kind: type[Any], server: ScriptedVllm, prompts: Path, monkeypatch: Any) -> Iterator[Any]:
    name = "QINSIGHT" if kind is QInsight else "ARTIMUSE"
    with server.serving() as url:
        monkeypatch.setenv(f"EDITJUDGE_{name}_URL", url)
        monkeypatch.setenv(f"EDITJUDGE_{name}_MODEL", "judge")
        monkeypatch.setenv(f"EDITJUDGE_{name}_PROMPTS", str(prompts))
        specialist = kind()
        specialist.load({})
        yield specialist


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


def test_qinsight(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedVllm(choice(GOOD))
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        (answer,) = ask(specialist)
    assert answer["SCORE"] == pytest.approx((4.25 - 1) / 4)
    (request,) = server.requests
    system, user = request["messages"]
    assert system["content"] == "stand-in for q_insight_system.txt\n"
    assert [part["type"] for part in user["content"]] == ["text", "image_url"]
    assert (request["temperature"], request["model"]) == (0, "judge")


def test_one_bad_reply_does_not_cost_the_others(
    prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ScriptedVllm(choice("no idea"), choice(GOOD))
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        answers = ask(specialist, 3)
    assert sum(isinstance(answer, Abstention) for answer in answers) == 1


UNSCORED = {
    "cut": (choice(GOOD, finish="length"), "cut at"),
    "no text": (choice(None), "0 answers"),  # type: ignore[arg-type]
    "no choice": ([], "0 choices"),
    "two choices": ([choice(GOOD), choice(GOOD)], "2 choices"),
}


@pytest.mark.parametrize("case", UNSCORED)
def test_replies_without_a_score(case: str, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, reason = UNSCORED[case]
    with loaded(QInsight, ScriptedVllm(answer), prompts, monkeypatch) as specialist:
        (got,) = ask(specialist)
    assert isinstance(got, Abstention)
    assert reason in got.reason


def test_passing_faults_are_retried(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedVllm(503, 429, choice(GOOD))
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        (answer,) = ask(specialist)
    assert "SCORE" in answer
    assert len(server.requests) == 3


def test_a_server_that_stays_busy_is_told(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(vllm_specialist.time, "sleep", slept.append)
    server = ScriptedVllm(503)
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        with pytest.raises(Unavailable, match="503"):
            ask(specialist)
    assert len(server.requests) == 4
    assert slept == sorted(slept)


def test_a_lost_connection_is_tried_again_and_told(
    prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(vllm_specialist.time, "sleep", slept.append)
    with loaded(QInsight, ScriptedVllm(choice(GOOD)), prompts, monkeypatch) as specialist:
        pass
    with pytest.raises(Unavailable, match="chat/completions"):
        ask(specialist)
    assert len(slept) == 3


def test_a_busy_server_says_how_long_to_wait(
    prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(vllm_specialist.time, "sleep", slept.append)
    server = ScriptedVllm(429, choice(GOOD), headers={"Retry-After": "7"})
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        (answer,) = ask(specialist)
    assert "SCORE" in answer
    assert slept == [7.0]


@pytest.mark.parametrize("status", [400, 500])
def test_other_faults_are_told(status: int, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded(QInsight, ScriptedVllm(status), prompts, monkeypatch) as specialist:
        with pytest.raises(Unavailable, match=str(status)):
            ask(specialist)


def test_another_model_than_asked_for_is_refused(
    prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ScriptedVllm(choice(GOOD), answers_as="newer-judge")
    with loaded(QInsight, server, prompts, monkeypatch) as specialist:
        with pytest.raises(Unavailable, match="'newer-judge' answered"):
            ask(specialist)


def test_a_server_without_the_model(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedVllm(choice(GOOD), model="other")
    with pytest.raises(RuntimeError, match="not 'judge'"):
        with loaded(QInsight, server, prompts, monkeypatch):
            pass


def logprobs(request: dict[str, Any], favourite: int | None = None) -> dict[str, Any]:
    ids = request["logprob_token_ids"]
    listed = [
        {"token": f"token_id:{one}", "logprob": 0.0 if index == favourite else -9.0 - index / 50}
        for index, one in enumerate(ids)
    ]
    return choice("x", logprobs={"content": [{"top_logprobs": listed}]})


def test_artimuse(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedVllm(lambda request: logprobs(request, favourite=75))
    with loaded(ArtiMuse, server, prompts, monkeypatch) as specialist:
        (answer,) = ask(specialist)
    weights = np.exp([0.0 if i == 75 else -9.0 - i / 50 for i in range(101)])
    expected = (weights @ np.arange(101)) / weights.sum() / 100
    assert answer["SCORE"][0] == pytest.approx(expected, abs=1e-6)
    (request,) = server.requests
    assert len(request["logprob_token_ids"]) == 101
    assert (request["max_tokens"], request["logprobs"]) == (1, True)
    assert [part["type"] for part in request["messages"][0]["content"]] == ["image_url", "text"]


@pytest.mark.parametrize(
    "answer", [choice("x"), choice("x", logprobs=None), choice("x", logprobs={"content": []})]
)
def test_artimuse_without_log_probabilities(
    answer: Any, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(ArtiMuse, ScriptedVllm(answer), prompts, monkeypatch) as specialist:
        (got,) = ask(specialist)
    assert isinstance(got, Abstention)
    assert "no log-probabilities" in got.reason


def test_another_tokenizer_is_refused(prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedVllm(choice("x"))
    monkeypatch.setattr(server, "tokens", lambda text: [ord(letter) for letter in text])
    with pytest.raises(RuntimeError, match="'aa' is 2 tokens"):
        with loaded(ArtiMuse, server, prompts, monkeypatch):
            pass


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


def test_the_prompts_must_be_the_authors(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"q\.txt is missing"):
        read_prompts(tmp_path, {"q.txt": "0" * 64})
    (tmp_path / "q.txt").write_text("nearly the same")
    with pytest.raises(RuntimeError, match="not the authors'"):
        read_prompts(tmp_path, {"q.txt": "0" * 64})


@pytest.mark.parametrize("kind", [QInsight, ArtiMuse])
def test_served_only_where_a_vllm_is_named(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kind.installed_identity("fp32") is None
    name = "QINSIGHT" if kind is QInsight else "ARTIMUSE"
    monkeypatch.setenv(f"EDITJUDGE_{name}_URL", "http://127.0.0.1:8000/v1")
    with pytest.raises(ConfigError, match="give an http"):
        kind.installed_identity("fp32")
    monkeypatch.setenv(f"EDITJUDGE_{name}_MODEL", "weights@1")
    assert kind.installed_identity("fp32") == {"weights": "weights@1"}
    monkeypatch.setenv(f"EDITJUDGE_{name}_TIMEOUT", "soon")
    with pytest.raises(ConfigError, match=f"EDITJUDGE_{name}_TIMEOUT"):
        Backend.read_named(name)
