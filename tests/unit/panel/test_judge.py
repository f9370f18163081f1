from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.answers.scores import ScoreField, Scores
from editjudge.answers.texts import Option
from editjudge.base import errors
from editjudge.base.config import JudgeEndpoint
from editjudge.base.images import load_image
from editjudge.panel.budget import Budget
from editjudge.panel.calls import CallRecord, MemoryReplies, Reply, Usage
from editjudge.panel.context import CallContext, CallLog
from editjudge.panel.endpoints import check_consent
from editjudge.panel.judge import Judge
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.transport import parse_limit
from editjudge.storage.ledger import Ledger

from ...fakes.transport import PRICE, ScriptedTransport, read_prompt, scripted_judge, text_reply
from ...verdicts import abstains

YES_NO = ("Yes", "No")
YES = {"Yes": 1.0}
PROMPT = Prompt("judge", (Text("Is it red?"),))
SCORES = Scores(fields=(ScoreField("quality", 1, 5),))
GOOD = json.dumps({"reasoning": "fine", "quality": 4})
NO_LOGPROBS = errors.LogprobsUnavailable("no probabilities", service="generalist.judge")


def make_prompt(number: int) -> Prompt:
    return Prompt("judge", (Text(f"Question {number}?"),))


def judge_of(*script: Any, seconds: float = 0.0, **settings: Any) -> tuple[Any, ScriptedTransport]:
    """A judge, and the transport that it asks."""
    transport = ScriptedTransport(*script, seconds=seconds)
    return scripted_judge(transport, **settings), transport


async def replies(store: MemoryReplies, calls: Sequence[str]) -> list[CallRecord]:
    """What came back from calls, in their order."""
    said = await store.get_records(calls)
    return [said[key] for key in calls]


async def ask_all(judge: Judge, numbers: Iterable[int], budget: Budget | None = None) -> list[Any]:
    """What comes of several questions side by side."""
    paid = judge.with_context(CallContext(budget)) if budget else judge
    asking = (paid.choose(make_prompt(number), YES_NO) for number in numbers)
    return await asyncio.gather(*asking, return_exceptions=True)


def count_refused(results: Iterable[Any]) -> int:
    return sum(isinstance(one, errors.CostLimit) for one in results)


async def test_a_choice_with_its_evidence() -> None:
    store = MemoryReplies()
    judge = scripted_judge(ScriptedTransport({"Yes": 0.6, "No": 0.2}), ledger=store)
    await judge.open(1)
    said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": pytest.approx(0.75), "No": pytest.approx(0.25)}
    assert said.value.outside == pytest.approx(0.2)
    assert said.evidence == {}, "its reply tells it all"
    (reply,) = await replies(store, said.calls)
    assert isinstance(reply.reply, dict)
    assert reply.reply["method"] == "logprobs"
    assert (reply.model, reply.prompt, reply.prompt_tokens) == ("judge", PROMPT.digest, 100)
    assert "choices=logprobs" in str(judge.identity)
    assert "server=scripted 1" in str(judge.identity)


async def test_probability_outside_the_choices_is_no_score() -> None:
    judge, _ = judge_of({"Yes": 0.3, "No": 0.1}, max_outside=0.5)
    with abstains("abstained", "60% of the probability fell on none") as caught:
        await judge.choose(PROMPT, YES_NO)
    assert len(caught.value.calls) == 1
    judge, _ = judge_of({"Yes": 0.3, "No": 0.1}, max_outside=0.6)
    said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities["Yes"] == pytest.approx(0.75)


async def test_identical_calls_are_made_once() -> None:
    judge, transport = judge_of(YES, seconds=0.01)
    notes = CallLog()
    judge = judge.with_context(CallContext(logs=(notes,)))
    await ask_all(judge, [1] * 8)
    assert len(transport.asked) == 1
    assert (notes.usage["calls"], notes.usage["prompt_tokens"]) == (1, 800)
    await judge.choose(make_prompt(1), YES_NO)
    await judge.choose(make_prompt(1), ("Yes", "Never"))
    assert len(transport.asked) == 2


async def test_the_ledger_outlives_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        first = scripted_judge(ScriptedTransport({"Yes": 0.9, "No": 0.05}), ledger=ledger)
        await first.open(1)
        before = await first.choose(PROMPT, YES_NO)
    with Ledger(path) as ledger:
        transport = ScriptedTransport({"Yes": 0.0, "No": 1.0})
        second = scripted_judge(transport, ledger=ledger)
        await second.open(1)
        notes = CallLog()
        after = await second.with_context(CallContext(logs=(notes,))).choose(PROMPT, YES_NO)
        assert transport.asked == []
        assert (after.value, after.calls) == (before.value, before.calls)
        assert notes.usage["calls"] == 0
        other = scripted_judge(ScriptedTransport({"No": 1.0}, model="judge-2"), ledger=ledger)
        await other.open(1)
        assert (await other.choose(PROMPT, YES_NO)).value.probabilities["No"] == 1


async def test_an_answer_with_a_contract() -> None:
    store = MemoryReplies()
    judge, transport = judge_of(GOOD, ledger=store, max_tokens=77, seed=5)
    said = await judge.answer(PROMPT, SCORES)
    assert said.value.scores == {"quality": 4}
    (reply,) = await replies(store, said.calls)
    assert reply.reply == {"text": GOOD, "finish": "stop"}
    assert "unreadable" not in said.evidence
    assert transport.schemas == [SCORES.schema]
    assert (transport.samplings[0].max_tokens, transport.samplings[0].seed) == (77, 5)


def cut(text: str) -> Reply:
    return text_reply(text, "judge", finish="length")


NO_OBJECT, NO_INTEGER = "I would say 4.", '{"reasoning": "", "quality": 4.5}'
GOES_ON = f"If it were perfect I would say {GOOD.replace('4', '5')}, but"
DECLINES = "I'm sorry, but I can't assist\nwith that request."
DECLINED = f"declined: {' '.join(DECLINES.split())}"
FOLLOWED = "text follows the answer, which has to end the reply"
AT_LIMIT = "the reply was cut at max_tokens = 77; set a higher one for generalist.judge"


@pytest.mark.parametrize(
    ("script", "kind", "reasons"),
    [
        ([cut(f"{GOOD}\n\n ")], "", []),
        ([NO_OBJECT, GOOD], "", ["no JSON object"]),
        ([GOES_ON, GOOD], "", [FOLLOWED]),
        ([DECLINES, GOOD], "", [DECLINED]),
        ([NO_OBJECT, NO_INTEGER], "unparsable", ["no JSON object", "is 4.5, not an integer"]),
        ([DECLINES], "refused", [DECLINED, DECLINED]),
        ([cut('{"reasoning": "it is'), GOOD], "unparsable", [AT_LIMIT]),
        ([cut(f"{GOOD} or {GOOD}"), GOOD], "unparsable", [AT_LIMIT]),
        ([cut(f"{GOOD} And so"), GOOD], "unparsable", ["may be a draft"]),
        ([NO_OBJECT, cut("Let me see. The")], "unparsable", ["no JSON object", AT_LIMIT]),
    ],
)
async def test_what_is_unreadable_is_asked_for_once_more_unless_it_was_cut(
    script: list[Any], kind: str, reasons: list[str]
) -> None:
    store = MemoryReplies()
    judge, transport = judge_of(*script, max_tokens=77, ledger=store)
    with abstains(kind, re.escape(reasons[-1])) if kind else nullcontext() as caught:
        said = await judge.answer(PROMPT, SCORES)
        assert said.value.scores == {"quality": 4}
    said = caught.value if kind else said
    unreadable = said.evidence.get("unreadable", [])
    assert [due in why for due, why in zip(reasons, unreadable, strict=True)] == [True] * len(reasons)
    kept = await replies(store, said.calls)
    assert len(transport.asked) == len(kept) == len(reasons) + (not kind)
    if len(kept) == 2:
        again = read_prompt(transport.asked[1])
        assert "could not be read" in again
        assert unreadable[0] in again


@pytest.mark.parametrize("kind", ["abstained", "refused"])
async def test_a_reply_without_an_answer_is_paid_once(kind: str, tmp_path: Path) -> None:
    none = Reply({"kind": kind, "reason": "nothing to say"}, "judge", Usage(7, 0, 1))
    budget = Budget()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for judge, transport in (judge_of(YES, ledger=ledger, price=PRICE) for _ in range(2)):
            await judge.find_choice_method()
            transport.script = [none]
            paid = judge.with_context(CallContext(budget))
            for ask in (partial(paid.choose, PROMPT, YES_NO), partial(paid.answer, PROMPT, SCORES)):
                with abstains(kind, "nothing to say") as caught:
                    await ask()
                (record,) = (await ledger.get_records(caught.value.calls)).values()
                assert record.reply == {"kind": kind, "reason": "nothing to say"}
                assert record.prompt_tokens == 7
                assert record.cost
    assert (budget.calls, budget.stored_replies) == (2, 2)
    assert budget.usage == Usage(14, 0, 2)


async def test_a_filter_that_names_no_model_is_no_wrong_model() -> None:
    judge, transport = judge_of(YES)
    transport.script = [Reply({"kind": "refused", "reason": "filtered"}, "")]
    with abstains("refused"):
        await judge.answer(PROMPT, SCORES)
    transport.script = [Reply({"kind": "refused", "reason": "filtered"}, "another")]
    with pytest.raises(errors.WrongModel, match="'another' answered"):
        await judge.answer(make_prompt(2), SCORES)


async def test_a_sampled_judge_that_declines_in_words() -> None:
    judge, _ = judge_of("抱歉，我无法回答。", logprobs="never")
    with abstains("refused"):
        await judge.choose(PROMPT, YES_NO)


DATED = "judge-2026-01-01"


@pytest.mark.parametrize(("answered", "accept"), [("judge", ()), (DATED, ("judge-2026-*",))])
async def test_the_model_that_answers_is_kept(answered: str, accept: Any) -> None:
    store = MemoryReplies()
    reply = text_reply(GOOD, answered)
    judge, _ = judge_of(reply, ledger=store, accept=accept)
    said = await judge.answer(PROMPT, SCORES)
    assert [one.model for one in await replies(store, said.calls)] == [answered]


@pytest.mark.parametrize(("answered", "accept"), [(DATED, ()), ("", ()), ("another", ("judge-*",))])
async def test_after_a_wrong_model_nothing_more_is_paid_for(answered: str, accept: Any) -> None:
    judge, transport = judge_of(text_reply(GOOD, answered), accept=accept)
    for number in range(2):
        with pytest.raises(errors.WrongModel, match=repr(answered) if number == 0 else None):
            await judge.answer(make_prompt(number), SCORES)
    assert len(transport.asked) == 1


@pytest.mark.parametrize(
    ("settings", "limit", "fact"),
    [
        ({}, 4096, "1024"),
        ({"max_tokens": 99}, 99, "99"),
        ({"max_tokens": 1024}, 1024, "1024 at most"),
        ({"max_tokens": 8192}, 8192, "8192"),
    ],
)
async def test_a_limit_follows_the_prompt_unless_it_is_set(settings: dict[str, int], limit: int, fact: str) -> None:
    judge, transport = judge_of(GOOD, **settings)
    await judge.answer(PROMPT, SCORES, max_tokens=4096)
    assert transport.samplings[0].max_tokens == limit
    assert judge.identity.facts["max_tokens"] == fact
    assert parse_limit(fact) == settings.get("max_tokens")


async def test_a_reply_that_is_cut_before_its_object_is_named_and_no_number() -> None:
    contract = replace(SCORES, reasoning="before")
    judge, transport = judge_of(cut("1. The hat is red, {so"))
    with abstains("unparsable", r"before the JSON object.*max_tokens = 4096"):
        await judge.answer(PROMPT, contract, max_tokens=4096)
    assert len(transport.asked) == 1
    assert transport.schemas == [None]


async def test_how_choices_are_answered_is_asked_once_and_again_where_it_was_wrong(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        first = scripted_judge(ScriptedTransport(YES), ledger=ledger)
        assert await first.find_choice_method() == "logprobs"
        later = scripted_judge(ScriptedTransport(NO_LOGPROBS), ledger=ledger)
        assert await later.find_choice_method() == "logprobs", "nobody was asked"
        with pytest.raises(errors.LogprobsUnavailable):
            await later.choose(PROMPT, YES_NO)
        again = scripted_judge(ScriptedTransport(NO_LOGPROBS), ledger=ledger)
        assert await again.find_choice_method() == "sampled"
        another = scripted_judge(ScriptedTransport(YES, model="judge-2"), ledger=ledger)
        assert await another.find_choice_method() == "logprobs", "another model is asked itself"


async def test_without_probabilities_the_word_is_sampled() -> None:
    script = NO_LOGPROBS, "No, it is blue.", "yes", '"Yes"', " YES."
    judge, transport = judge_of(*script, samples=4, temperature=1.0)
    assert await judge.find_choice_method() == "sampled"
    transport.script.pop(0)
    said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": 0.75, "No": 0.25}
    assert (said.value.method, said.value.samples, said.value.outside) == ("sampled", 4, None)
    assert [one.seed for one in transport.samplings] == [0, 1, 2, 3]
    assert judge.identity.facts["choices"] == "sampled"
    assert judge.identity.facts["reads"] == f"option.{Option.parser}"


async def test_the_evidence_of_several_samples() -> None:
    store, notes = MemoryReplies(), CallLog()
    settings = {"ledger": store, "logprobs": "never", "samples": 3, "price": PRICE}
    judge, transport = judge_of("No.", "Perhaps", "Yes", "Yes", **settings)
    judge = judge.with_context(CallContext(Budget(), logs=(notes,)))
    said = await judge.choose(PROMPT, YES_NO)
    assert len(transport.asked) == 4
    assert (said.evidence["samples"], len(said.evidence["unreadable"])) == (3, 1)
    texts = [str(one.reply) for one in await replies(store, said.calls)]
    assert [sum(word in text for text in texts) for word in ("No.", "Perhaps", "Yes")] == [1, 1, 2]
    assert (notes.usage["calls"], notes.usage["prompt_tokens"]) == (4, 400)
    assert notes.usage["cost"] == pytest.approx(4 * 0.051)


async def test_logprobs_can_be_declined() -> None:
    judge, _ = judge_of("Yes", logprobs="never")
    assert (await judge.choose(PROMPT, YES_NO)).value.probabilities == {"Yes": 1.0, "No": 0.0}


async def test_a_sampled_reply_that_is_no_choice() -> None:
    judge, _ = judge_of("Maybe", logprobs="never", samples=2)
    with abstains("unparsable"):
        await judge.choose(PROMPT, YES_NO)


async def test_calls_in_flight_are_limited() -> None:
    judge, transport = judge_of(YES, seconds=0.005, concurrency=3)
    await ask_all(judge, range(12))
    assert transport.most_in_flight == 3


async def test_the_first_call_about_an_image_goes_ahead() -> None:
    judge, transport = judge_of(YES, seconds=0.005)
    picture = judge.prepare_picture(load_image(np.zeros((8, 8, 3), np.uint8)))
    prompts = [Prompt("judge", (picture, Text(f"Question {i}?"))) for i in range(4)]
    await judge.find_choice_method()
    tasks = [asyncio.create_task(judge.choose(p, YES_NO)) for p in prompts]
    await asyncio.sleep(0.002)
    assert transport.in_flight == 1
    await asyncio.gather(*tasks)
    assert transport.most_in_flight == 3


async def test_costs_are_counted_and_limited() -> None:
    budget = Budget(limit=0.12)
    context, notes = CallContext(budget), CallLog()
    judge, transport = judge_of(YES, price=PRICE)
    judge = judge.with_context(context)
    await judge.with_context(context.with_log(notes)).choose(make_prompt(0), YES_NO)
    assert notes.usage["cost"] == pytest.approx(0.051)
    await judge.choose(make_prompt(1), YES_NO)
    with pytest.raises(errors.CostLimit, match="max_cost = 0.12"):
        await judge.choose(make_prompt(2), YES_NO)
    assert budget.cost == pytest.approx(0.102)
    await judge.choose(make_prompt(1), YES_NO)  # is in the ledger, and costs nothing
    assert len(transport.asked) == 2
    assert budget.usage.prompt_tokens == 200


async def test_calls_in_flight_count_against_the_limit() -> None:
    budget = Budget(limit=0.2)
    judge, _ = judge_of(YES, seconds=0.005, price=PRICE)
    await ask_all(judge, [0], budget)
    assert count_refused(await ask_all(judge, range(1, 9), budget)) == 6
    assert budget.cost <= 0.2


async def test_calls_go_one_by_one_until_their_cost_is_known() -> None:
    judge, transport = judge_of(YES, seconds=0.005, price=PRICE)
    await judge.find_choice_method()
    images = [load_image(np.full((8, 8, 3), i, np.uint8)) for i in range(8)]
    prompts = [Prompt("judge", (judge.prepare_picture(one), Text("Good?"))) for one in images]

    async def ask(budget: Budget) -> list[object]:
        paid = judge.with_context(CallContext(budget))
        calls = (paid.choose(prompt, YES_NO) for prompt in prompts)
        return await asyncio.gather(*calls, return_exceptions=True)

    poor = Budget(limit=0.12)
    assert count_refused(await ask(poor)) == 6
    assert poor.cost == pytest.approx(0.102)
    await ask(Budget())
    assert transport.most_in_flight > 1


async def test_callers_of_one_judge_spend_separately() -> None:
    poor, rich = Budget(limit=0.06), Budget(limit=1.0)
    judge, _ = judge_of(YES, seconds=0.002, price=PRICE)
    judge._findings.method = "logprobs"
    await ask_all(judge, [0], poor)
    few, all_ = await asyncio.gather(ask_all(judge, range(1, 4), poor), ask_all(judge, range(4, 8), rich))
    assert count_refused(few) == 3
    assert not any(isinstance(one, Exception) for one in all_)
    assert (poor.cost, rich.cost) == (pytest.approx(0.051), pytest.approx(4 * 0.051))
    assert (poor.calls, rich.calls) == (1, 4)


async def test_a_call_that_another_cannot_pay_is_paid_by_who_can() -> None:
    """The callers share the call: the money of the one who asked first is gone."""
    poor, rich = Budget(limit=0.01), Budget(limit=1.0)
    poor.add_earlier_cost(0.01, 0.0)
    judge, transport = judge_of(YES, price=PRICE)
    judge._findings.method = "logprobs"
    first, second = await asyncio.gather(ask_all(judge, [1], poor), ask_all(judge, [1], rich))
    assert count_refused(first) == 1
    assert not isinstance(second[0], Exception)
    assert (len(transport.asked), rich.calls, poor.calls) == (1, 1, 0)


async def test_nothing_with_a_price_is_asked_where_nobody_pays() -> None:
    judge, transport = judge_of(YES, price=PRICE)
    judge._findings.method = "logprobs"
    with pytest.raises(RuntimeError, match="CallContext"):
        await judge.choose(PROMPT, YES_NO)
    assert transport.asked == []


async def test_a_failed_call_is_not_kept() -> None:
    judge, _ = judge_of(errors.Overload("busy", service="generalist.judge"), YES)
    judge._findings.method = "logprobs"
    with pytest.raises(errors.Overload):
        await judge.choose(PROMPT, YES_NO)
    assert (await judge.choose(PROMPT, YES_NO)).value.probabilities["Yes"] == 1


async def test_untrained_models_say_so() -> None:
    judge = scripted_judge(ScriptedTransport(YES, model="qwen3-vl-tiny-untrained"))
    await judge.open(1)
    assert judge.identity.is_untrained


OWN = """http://127.0.0.1:8000/v1 http://[::1]:8000/v1 http://10.2.3.4:8000/v1 grpc://vllm:50051
http://judge.models.svc.cluster.local/v1 http://localhost:8000/v1"""
OTHERS = "https://api.openai.com/v1 http://8.8.8.8/v1 https://local.example.com/v1"


@pytest.mark.parametrize("url", f"{OWN} {OTHERS}".split())
def test_images_leave_the_network_only_with_consent(url: str) -> None:
    check_consent(JudgeEndpoint(url=url, send_images=True))
    with nullcontext() if url in OWN else pytest.raises(errors.ConfigError, match="send_images"):
        check_consent(JudgeEndpoint(url=url))


@pytest.mark.parametrize("url", ["http://10.2.3.4:8000/v1", "grpc://vllm:50051"])
def test_a_proxy_counts_as_leaving_the_network(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:pa55@proxy.test:3128")
    check_consent(JudgeEndpoint(url="http://127.0.0.1:8000/v1"))
    check_consent(JudgeEndpoint(url="http://localhost:8000/v1"))
    told_of = r"by the proxy http://proxy\.test:3128.*no_proxy="
    with pytest.raises(errors.ConfigError, match=told_of) as told:
        check_consent(JudgeEndpoint(url=url))
    assert "pa55" not in str(told.value)
    check_consent(JudgeEndpoint(url=url, send_images=True))
    monkeypatch.setenv("no_proxy", "10.2.3.4,vllm")
    check_consent(JudgeEndpoint(url=url))


async def test_answers_name_the_calls_they_rest_on() -> None:
    with Ledger() as ledger:
        judge = scripted_judge(ScriptedTransport("I would say 4.", GOOD), ledger=ledger)
        said = await judge.answer(PROMPT, SCORES)
        assert len(set(said.calls)) == 2
        assert await ledger.drop(said.calls) == 2
        judge = scripted_judge(ScriptedTransport(YES), ledger=ledger)
        chosen = await judge.choose(PROMPT, YES_NO)
        assert await ledger.drop(chosen.calls) == 1


async def test_what_is_counted_is_counted_for_whom_it_was_asked() -> None:
    judge, _ = judge_of(YES, seconds=0.001)

    async def ask(*numbers: int) -> dict[str, float]:
        notes = CallLog()
        await ask_all(judge.with_context(CallContext(logs=(notes,))), numbers)
        return notes.usage

    first, second = await asyncio.gather(ask(1, 2), ask(2, 3, 4))
    assert first["calls"] + second["calls"] == 4
    assert (first["prompt_tokens"], second["prompt_tokens"]) == (200, 300)
    assert "cost" not in first
