"""Choices over the OpenAI transport: exact where the server is vLLM, the likeliest elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from editjudge.base.errors import BadReply, LogprobsUnavailable, Rejection, ServiceError
from editjudge.panel.calls import Reply, Usage
from editjudge.panel.choices import list_labels
from editjudge.panel.prompt import Prompt, Text

from ..fakes.openai import POLICY, ScriptedOpenAi, open_transport, problem, reply
from ..fakes.transport import distribution

ASKED = Prompt("", (Text("Is it there: "), Text("a <|im_end|> sign", is_data=True)))
CHOICES = ("Yes", "No")
EXPECTED = pytest.approx({"Yes": 0.7 / 0.9, "No": 0.2 / 0.9})


async def choose(server: ScriptedOpenAi, choices: tuple[str, ...] = CHOICES) -> Reply:
    async with open_transport(server) as transport:
        return await transport.choose(ASKED, choices)


async def test_vllm_tells_the_whole_label_set() -> None:
    server = ScriptedOpenAi(owner="vllm")
    choice = await choose(server)
    found = distribution(choice)
    assert found.probabilities == EXPECTED
    assert found.outside == pytest.approx(0.1)
    assert (found.method, choice.model) == ("logprobs", "judge")
    (asked,) = server.requests
    # What the vocabulary has, and the small letters, which are bytes of their own here.
    assert sorted(asked["logprob_token_ids"]) == [1, 2, 3, 4, 1000 + ord("n"), 1000 + ord("y")]
    wanted = {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1}
    wanted |= {"logprobs": True, "return_tokens_as_token_ids": True}
    assert wanted.items() <= asked.items()
    assert "seed" not in asked


SPELT = {" Yes": 0.3, "yes": 0.15, "Yes": 0.05, "YES": 0.1, " no": 0.1, "No": 0.1, "Maybe": 0.2}


@pytest.mark.parametrize("owner", ["vllm", "openai"])
async def test_every_spelling_of_a_choice_is_that_choice(owner: str) -> None:
    server = ScriptedOpenAi(owner=owner, probabilities=SPELT)
    server.vocabulary |= {word: 2000 + i for i, word in enumerate(SPELT)}
    found = distribution(await choose(server))
    assert found.probabilities == pytest.approx({"Yes": 0.75, "No": 0.25})
    assert found.outside == pytest.approx(0.2)


async def test_choices_of_several_tokens() -> None:
    server = ScriptedOpenAi(owner="vllm", probabilities={"ex": 0.3, "po": 0.1, "good": 0.6})
    found = distribution(await choose(server, ("poor", "good", "excellent")))
    assert found.probabilities == pytest.approx({"poor": 0.1, "good": 0.6, "excellent": 0.3})
    assert found.outside == pytest.approx(0.0)


LIKELIEST: dict[str, dict[str, Any]] = {
    "a provider": {},
    "an older vLLM": {"owner": "vllm", "ids": False},
    "a gateway to vLLM": {"owner": "vllm", "tokenize": False},
}


@pytest.mark.parametrize("case", LIKELIEST)
async def test_the_likeliest_tokens_where_there_is_no_more(case: str) -> None:
    server = ScriptedOpenAi(**LIKELIEST[case])
    found = distribution(await choose(server))
    assert found.probabilities == EXPECTED
    assert (found.method, found.outside) == ("top_logprobs", pytest.approx(0.1))
    assert [asked["top_logprobs"] for asked in server.requests] == [20]


async def test_callers_share_one_look_at_the_labels() -> None:
    server = ScriptedOpenAi(owner="vllm")
    async with open_transport(server) as transport:
        await asyncio.gather(*(transport.choose(ASKED, CHOICES) for _ in range(32)))
    # The candidate in the data is one more.
    assert sorted(server.tokenized) == sorted(["<|im_end|>", *list_labels(CHOICES)])
    assert (len(server.requests), server.listed) == (32, 1)


async def test_too_many_labels() -> None:
    server = ScriptedOpenAi(owner="vllm")
    choices = tuple(f"{i:03}" for i in range(129))
    server.vocabulary |= {choice: 2000 + i for i, choice in enumerate(choices)}
    with pytest.raises(Rejection, match="129 choices have 129 label tokens, the limit is 128"):
        await choose(server, choices)
    assert server.requests == []


async def test_choices_that_no_token_tells_apart() -> None:
    server = ScriptedOpenAi(owner="vllm")
    server.vocabulary |= {"A": 50, "a": 50}  # a tokenizer that folds case
    with pytest.raises(LogprobsUnavailable, match="begins 'A' only"):
        await choose(server, ("A", "a"))


async def test_nothing_for_any_choice() -> None:
    said = await choose(ScriptedOpenAi(probabilities={"Maybe": 1.0}))
    assert "no choice is among the 1 likeliest" in said.content["reason"]
    assert (said.content["kind"], said.usage) == ("abstained", Usage(100, 0, 1))


async def test_ids_that_a_gateway_does_not_let_through() -> None:
    fault = problem(400, "Unknown parameter: logprob_token_ids")
    server = ScriptedOpenAi(fault, None, owner="vllm")
    found = distribution(await choose(server))
    assert (found.probabilities, found.method) == (EXPECTED, "top_logprobs")
    assert ["logprob_token_ids" in asked for asked in server.requests] == [True, False]


NO_LOGPROBS = {
    "null": reply(logprobs=None),
    "absent": reply(),
    "no content": reply(logprobs={"content": None}),
    "Gemini": problem(400, "Logprobs is not supported for the current model."),
    "OpenAI's reasoning models": problem(403, "You are not allowed to request logprobs."),
    "strict": problem(422, "Extra inputs are not permitted: logprobs"),
}


@pytest.mark.parametrize("case", NO_LOGPROBS)
async def test_servers_without_probabilities_are_asked_a_few_times(case: str) -> None:
    server = ScriptedOpenAi(NO_LOGPROBS[case])
    async with open_transport(server) as transport:
        for _ in range(40):
            with pytest.raises(LogprobsUnavailable):
                await transport.choose(ASKED, CHOICES)
    assert len(server.requests) == 32


@pytest.mark.parametrize("case", NO_LOGPROBS)
async def test_a_reply_without_probabilities_costs_itself(case: str) -> None:
    """A gateway has many servers behind it, and not every one has them."""
    server = ScriptedOpenAi(*[NO_LOGPROBS[case], None] * 6)
    async with open_transport(server) as transport:
        for _ in range(6):
            with pytest.raises(LogprobsUnavailable):
                await transport.choose(ASKED, CHOICES)
            assert distribution(await transport.choose(ASKED, CHOICES)).probabilities


async def test_servers_that_list_fewer_tokens() -> None:
    fault = problem(400, "Requested sample logprobs of 20, which is greater than max allowed: 5")
    server = ScriptedOpenAi(fault, None)
    async with open_transport(server) as transport:
        for _ in range(2):
            await transport.choose(ASKED, CHOICES)
    assert [asked["top_logprobs"] for asked in server.requests] == [20, 5, 5]


def logprobs(top: Any) -> dict[str, Any]:
    return reply(logprobs={"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": top}]})


def yes(logprob: Any) -> dict[str, Any]:
    return logprobs([YES | {"logprob": logprob}])


YES = {"token": "Yes", "logprob": -0.1}
UNSURE = {"token": "Yes", "logprob": -1.5}
BAD_LOGPROBS = {
    "no list": logprobs(None),
    "an empty list": logprobs([]),
    "no position": reply(logprobs={"content": []}),
    "a list": reply(logprobs=[]),
    "text for a number": yes("-0.1"),
    "true": yes(True),
    "false, which is no certainty": yes(False),
    "an endless number": yes(10**400),
    "null": yes(None),
    "NaN": yes(float("nan")),
    "positive": yes(0.5),
    "a number for a token": logprobs([YES | {"token": 7}]),
    "no entry": logprobs(["Yes"]),
    "more than 1 in sum": logprobs([YES, YES | {"token": "No"}]),
    "one token twice": logprobs([UNSURE, UNSURE | {"token": "No"}, UNSURE]),
    "a second choice": {"choices": logprobs([YES])["choices"] * 2},
}


@pytest.mark.parametrize("case", BAD_LOGPROBS)
async def test_probabilities_of_a_wrong_shape(case: str) -> None:
    with pytest.raises(BadReply):
        await choose(ScriptedOpenAi(BAD_LOGPROBS[case]))


PIECES = [{"token": "\ufffd", "logprob": -4.0}, {"token": "\ufffd", "logprob": -4.5}]
ODD_LOGPROBS = {
    "tokens that are no choice may look alike": PIECES,
    "too small for a float is no chance": [{"token": "No", "logprob": -(10**400)}],
}


@pytest.mark.parametrize("case", ODD_LOGPROBS)
async def test_probabilities_that_are_odd_and_right(case: str) -> None:
    found = distribution(await choose(ScriptedOpenAi(logprobs([YES, *ODD_LOGPROBS[case]]))))
    assert found.probabilities == {"Yes": 1.0, "No": 0.0}


async def test_no_deadline_is_passed_while_waiting_for_others() -> None:
    slow = asyncio.Event()

    async def never(text: str, model: str) -> None:
        await slow.wait()

    server = ScriptedOpenAi(owner="vllm")
    async with open_transport(server, replace(POLICY, deadline=0.2)) as transport:
        transport._vocabulary._tokenize = never  # type: ignore[method-assign,assignment]
        with pytest.raises(ServiceError, match="no reply within"):
            await transport.choose(ASKED, CHOICES)
