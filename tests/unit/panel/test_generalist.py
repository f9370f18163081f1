from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.answers import Option, ScoreField, Scores
from editjudge.config import GeneralistEndpoint
from editjudge.errors import (
    Abstained,
    ConfigError,
    CostLimit,
    LogprobsUnavailable,
    Overloaded,
    WrongModel,
)
from editjudge.images import load_image
from editjudge.panel.budget import Budget
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.reach import check_consent
from editjudge.panel.transport import Completion, Usage
from editjudge.run.ledger import Ledger

from .scripted_transport import PRICE, ScriptedTransport, generalist, seen

YES_NO = ("Yes", "No")
PROMPT = Prompt("judge", (Text("Is it red?"),))
SCORES = Scores(fields=(ScoreField("quality", 1, 5),))
GOOD = json.dumps({"reasoning": "fine", "quality": 4})
NO_LOGPROBS = LogprobsUnavailable("no probabilities", service="generalist.judge")


def asked(number: int) -> Prompt:
    return Prompt("judge", (Text(f"Question {number}?"),))


async def test_a_choice_with_its_evidence() -> None:
    judge = generalist(ScriptedTransport({"Yes": 0.6, "No": 0.2}))
    await judge.open(1)
    said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": pytest.approx(0.75), "No": pytest.approx(0.25)}
    assert said.evidence["outside"] == pytest.approx(0.2)
    assert said.evidence["method"] == "logprobs"
    assert said.evidence["judge"] == "judge"
    assert said.evidence["usage"]["prompt_tokens"] == 100
    assert "choices=logprobs" in judge.identity
    assert "server=scripted 1" in judge.identity


async def test_probability_outside_the_choices_is_no_score() -> None:
    judge = generalist(ScriptedTransport({"Yes": 0.3, "No": 0.1}), max_outside=0.5)
    with pytest.raises(Abstained, match="60% of the probability fell on none") as caught:
        await judge.choose(PROMPT, YES_NO)
    assert caught.value.kind == "abstained"
    assert caught.value.evidence["outside"] == pytest.approx(0.6)
    assert (
        await generalist(ScriptedTransport({"Yes": 0.3, "No": 0.1}), max_outside=0.6).choose(
            PROMPT, YES_NO
        )
    ).value.probabilities["Yes"] == pytest.approx(0.75)


async def test_identical_calls_are_made_once() -> None:
    transport = ScriptedTransport({"Yes": 1.0}, seconds=0.01)
    judge = generalist(transport)
    said = await asyncio.gather(*(judge.choose(PROMPT, YES_NO) for _ in range(8)))
    assert len(transport.asked) == 1
    assert sum(one.evidence["usage"]["calls"] for one in said) == 1
    await judge.choose(PROMPT, YES_NO)
    await judge.choose(PROMPT, ("Yes", "Never"))
    assert len(transport.asked) == 2


async def test_the_ledger_outlives_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        first = generalist(ScriptedTransport({"Yes": 0.9, "No": 0.05}), ledger=ledger)
        await first.open(1)
        before = await first.choose(PROMPT, YES_NO)
    with Ledger(path) as ledger:
        transport = ScriptedTransport({"Yes": 0.0, "No": 1.0})
        second = generalist(transport, ledger=ledger)
        await second.open(1)
        after = await second.choose(PROMPT, YES_NO)
        assert transport.asked == []
        assert after.value == before.value
        assert after.evidence["usage"]["calls"] == 0
        other = generalist(ScriptedTransport({"No": 1.0}, model="judge-2"), ledger=ledger)
        await other.open(1)
        assert (await other.choose(PROMPT, YES_NO)).value.probabilities["No"] == 1


async def test_an_answer_with_a_contract() -> None:
    transport = ScriptedTransport(GOOD)
    said = await generalist(transport, max_tokens=77, seed=5).answer(PROMPT, SCORES)
    assert said.value.scores == {"quality": 4}
    assert said.evidence["reply"] == GOOD
    assert "unreadable" not in said.evidence
    assert transport.schemas == [SCORES.schema]
    assert (transport.samplings[0].max_tokens, transport.samplings[0].seed) == (77, 5)


async def test_an_unreadable_reply_is_asked_for_once_more() -> None:
    transport = ScriptedTransport("I would say 4.", GOOD)
    said = await generalist(transport).answer(PROMPT, SCORES)
    assert said.value.scores == {"quality": 4}
    assert len(said.evidence["unreadable"]) == 1
    assert said.evidence["usage"]["calls"] == 2
    assert "could not be read" in seen(transport.asked[1])


async def test_a_second_unreadable_reply_is_unparsable() -> None:
    transport = ScriptedTransport("I would say 4.", '{"reasoning": "", "quality": 4.5}')
    with pytest.raises(Abstained) as caught:
        await generalist(transport).answer(PROMPT, SCORES)
    assert caught.value.kind == "unparsable"
    assert len(caught.value.evidence["unreadable"]) == 2
    assert "4.5" in caught.value.evidence["reply"]
    assert len(transport.asked) == 2


def cut(text: str) -> Completion:
    return Completion(text, "length", "judge", Usage())


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ([cut('{"reasoning": "it is'), GOOD], 1),
        ([cut(f"{GOOD} or {GOOD}"), GOOD], 1),
        (["I would say 4.", cut("Let me see. The")], 2),
    ],
)
async def test_a_cut_reply_is_not_asked_for_again(script: list[Any], calls: int) -> None:
    transport = ScriptedTransport(*script)
    with pytest.raises(Abstained) as caught:
        await generalist(transport, max_tokens=77).answer(PROMPT, SCORES)
    assert caught.value.kind == "unparsable"
    told = "the reply was cut at max_tokens = 77; set a higher one for generalist.judge"
    assert told in caught.value.reason
    assert told in caught.value.evidence["unreadable"][-1]
    assert len(transport.asked) == len(caught.value.evidence["unreadable"]) == calls


async def test_a_cut_reply_with_its_answer_is_one() -> None:
    said = await generalist(ScriptedTransport(cut(f"{GOOD} And so"))).answer(PROMPT, SCORES)
    assert said.value.scores == {"quality": 4}
    assert "unreadable" not in said.evidence


@pytest.mark.parametrize(
    ("answered", "accept", "wrong"),
    [
        ("judge", (), False),
        ("judge-2026-01-01", (), True),
        ("judge-2026-01-01", ("judge-2026-*",), False),
        ("another", ("judge-*",), True),
    ],
)
async def test_the_model_that_answers(answered: str, accept: Any, wrong: bool) -> None:
    transport = ScriptedTransport(Completion(GOOD, "stop", answered, Usage()))
    judge = generalist(transport, accept=accept)
    if not wrong:
        said = await judge.answer(PROMPT, SCORES)
        assert said.evidence["judge"] == answered
        return
    with pytest.raises(WrongModel, match=answered):
        await judge.answer(PROMPT, SCORES)
    with pytest.raises(WrongModel):
        await judge.answer(asked(2), SCORES)
    assert len(transport.asked) == 1, "after a wrong model nothing more is paid for"


async def test_without_probabilities_the_word_is_sampled() -> None:
    transport = ScriptedTransport(NO_LOGPROBS, "No.", "yes", '"Yes"', "Yes")
    judge = generalist(transport, repeats=4, temperature=1.0)
    assert await judge.method() == "sampled"
    transport.script.pop(0)
    said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": 0.75, "No": 0.25}
    assert (said.value.method, said.value.samples, said.value.outside) == ("sampled", 4, None)
    assert [one.seed for one in transport.samplings] == [0, 1, 2, 3]
    assert "choices=sampled" in judge.identity
    assert f"reads=option.{Option.parser}" in judge.identity


async def test_the_evidence_of_several_samples() -> None:
    ledger = Ledger()
    script = ["No.", "Perhaps", "Yes", "Yes"]
    transport = ScriptedTransport(*script)
    judge = generalist(transport, ledger=ledger, logprobs="never", repeats=3, price=PRICE)
    found = (await judge.choose(PROMPT, YES_NO)).evidence
    assert len(transport.asked) == 4
    assert sorted(found["replies"]) == ["No.", "Yes", "Yes"]
    assert (found["judge"], found["prompt"]) == ("judge", PROMPT.digest)
    assert found["usage"]["calls"] == 4
    assert found["usage"]["prompt_tokens"] == 400
    assert found["usage"]["cost"] == pytest.approx(4 * 0.051)
    assert ledger.drop(found["calls"]) == 4


async def test_logprobs_can_be_declined() -> None:
    transport = ScriptedTransport("Yes")
    judge = generalist(transport, logprobs="never")
    assert (await judge.choose(PROMPT, YES_NO)).value.probabilities == {"Yes": 1.0, "No": 0.0}


async def test_a_sampled_reply_that_is_no_choice() -> None:
    judge = generalist(ScriptedTransport("Maybe"), logprobs="never", repeats=2)
    with pytest.raises(Abstained) as caught:
        await judge.choose(PROMPT, YES_NO)
    assert caught.value.kind == "unparsable"


async def test_calls_in_flight_are_limited() -> None:
    transport = ScriptedTransport({"Yes": 1.0}, seconds=0.005)
    judge = generalist(transport, concurrency=3)
    await asyncio.gather(*(judge.choose(asked(i), YES_NO) for i in range(12)))
    assert transport.most_in_flight == 3


async def test_the_first_call_about_an_image_goes_ahead() -> None:
    transport = ScriptedTransport({"Yes": 1.0}, seconds=0.005)
    judge = generalist(transport)
    picture = judge.picture(load_image(np.zeros((8, 8, 3), np.uint8)))
    prompts = [Prompt("judge", (picture, Text(f"Question {i}?"))) for i in range(4)]
    await judge.method()
    tasks = [asyncio.create_task(judge.choose(p, YES_NO)) for p in prompts]
    await asyncio.sleep(0.002)
    assert transport.in_flight == 1
    await asyncio.gather(*tasks)
    assert transport.most_in_flight == 3


async def test_costs_are_counted_and_limited() -> None:
    budget = Budget(limit=0.12)
    transport = ScriptedTransport({"Yes": 1.0})
    judge = generalist(transport, budget=budget, price=PRICE)
    said = await judge.choose(asked(0), YES_NO)
    assert said.evidence["usage"]["cost"] == pytest.approx(0.051)
    await judge.choose(asked(1), YES_NO)
    with pytest.raises(CostLimit, match="max_cost = 0.12"):
        await judge.choose(asked(2), YES_NO)
    assert budget.spent == pytest.approx(0.102)
    await judge.choose(asked(1), YES_NO)  # is in the ledger, and costs nothing
    assert len(transport.asked) == 2


async def test_calls_in_flight_count_against_the_limit() -> None:
    budget = Budget(limit=0.2)
    transport = ScriptedTransport({"Yes": 1.0}, seconds=0.005)
    judge = generalist(transport, budget=budget, price=PRICE)
    await judge.choose(asked(0), YES_NO)
    results = await asyncio.gather(
        *(judge.choose(asked(i), YES_NO) for i in range(1, 9)), return_exceptions=True
    )
    assert sum(isinstance(one, CostLimit) for one in results) == 6
    assert budget.spent <= 0.2


async def test_a_failed_call_is_not_kept() -> None:
    transport = ScriptedTransport(Overloaded("busy", service="generalist.judge"), {"Yes": 1.0})
    judge = generalist(transport)
    judge._method = "logprobs"
    with pytest.raises(Overloaded):
        await judge.choose(PROMPT, YES_NO)
    assert (await judge.choose(PROMPT, YES_NO)).value.probabilities["Yes"] == 1


async def test_untrained_models_say_so() -> None:
    judge = generalist(ScriptedTransport({"Yes": 1.0}, model="qwen3-vl-tiny-untrained"))
    await judge.open(1)
    assert "untrained=yes" in judge.identity


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.2.3.4:8000/v1", True),
        ("grpc://vllm:50051", True),
        ("http://judge.models.svc.cluster.local/v1", True),
        ("http://localhost:8000/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
        ("https://local.example.com/v1", False),
    ],
)
def test_images_leave_the_network_only_with_consent(url: str, own: bool) -> None:
    check_consent(GeneralistEndpoint(url=url, send_images=True))
    if own:
        check_consent(GeneralistEndpoint(url=url))
        return
    with pytest.raises(ConfigError, match="send_images"):
        check_consent(GeneralistEndpoint(url=url))


async def test_evidence_names_the_calls_it_rests_on() -> None:
    ledger = Ledger()
    judge = generalist(ScriptedTransport("I would say 4.", GOOD), ledger=ledger)
    said = await judge.answer(PROMPT, SCORES)
    assert said.evidence["call"] == said.evidence["calls"][1] != said.evidence["calls"][0]
    assert ledger.drop(said.evidence["calls"]) == 2
    chosen = await generalist(ScriptedTransport({"Yes": 1.0}), ledger=ledger).choose(PROMPT, YES_NO)
    assert "calls" not in chosen.evidence
    assert ledger.drop([chosen.evidence["call"]]) == 1
