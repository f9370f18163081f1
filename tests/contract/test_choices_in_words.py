"""A judge without token probabilities is asked for a choice in words, over HTTP."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from editjudge.answers.texts import Option
from editjudge.app.doctor import check_services
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.errors import Abstention
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.words import FIRMER
from editjudge.storage.ledger import Ledger

from ..fakes.openai import Fault, ScriptedOpenAi, bound_to, choices_of, problem, reply
from . import panels
from .panels import CONTRACT, SAID, YES_NO

PROMPT = Prompt("judge", (Text("Is the vase gone? Answer with one word, Yes or No."),))
DECLINED = "I'm sorry, but I can't assist with that request."
LONG = "This image cannot be judged, since it shows a person."
UNSUPPORTED = problem(400, "response_format of type json_schema is not supported")


judge_of = partial(panels.judge_of, logprobs="never")


def text_of(asked: dict[str, Any]) -> str:
    return str(asked["messages"][-1]["content"])


class BoundJudge(ScriptedOpenAi):
    """Holds every reply to the choices that it is given, and takes the last of them."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"binds": True, **more})

    def make_reply(self) -> dict[str, Any]:
        asked = self.requests[-1]
        return reply(bound_to(asked, choices_of(asked)[-1]))


@pytest.mark.parametrize(
    "first", [DECLINED, LONG, "Perhaps.", "Yes or No? No.", "No, I cannot assist with that request."]
)
async def test_what_is_no_choice_is_asked_for_in_a_firmer_form(first: str) -> None:
    server = ScriptedOpenAi(reply(first), reply("No"))
    async with judge_of(server) as judge:
        said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": 0.0, "No": 1.0}
    assert len(said.calls) == 2
    assert said.evidence["second_replies"] == 1, "it is the second reply that counts"
    assert len(said.evidence["unreadable"]) == 1
    asked, again = map(text_of, server.requests)
    assert again == f"{asked}{FIRMER}Yes\nNo", "nothing of the reply is quoted"


@pytest.mark.parametrize("first", [DECLINED, "Perhaps."])
@pytest.mark.parametrize(("last", "kind"), [(DECLINED, "refused"), ("Perhaps not.", "unparsable")])
async def test_the_last_reply_says_what_a_missing_choice_is(first: str, last: str, kind: str) -> None:
    server = ScriptedOpenAi(reply(first), reply(last))
    async with judge_of(server) as judge:
        with pytest.raises(Abstention) as caught:
            await judge.choose(PROMPT, YES_NO)
    assert (caught.value.kind, len(caught.value.calls), len(server.requests)) == (kind, 2, 2)
    assert "second_replies" not in caught.value.evidence


async def test_each_sample_is_asked_again_by_itself() -> None:
    by_seed = {0: ["Yes"], 1: [DECLINED, "No"], 2: ["Perhaps.", "Yes"]}
    server = SeededJudge(by_seed)
    async with judge_of(server, samples=3, temperature=1.0) as judge:
        said = await judge.choose(PROMPT, YES_NO)
    assert said.value.probabilities == {"Yes": pytest.approx(2 / 3), "No": pytest.approx(1 / 3)}
    assert (said.evidence["samples"], said.evidence["second_replies"]) == (3, 2)
    assert len(said.calls) == 5


class SeededJudge(ScriptedOpenAi):
    """Replies to each seed with the next of its own texts."""

    def __init__(self, by_seed: dict[int, list[str]]) -> None:
        super().__init__()
        self.by_seed = by_seed

    def make_reply(self) -> dict[str, Any]:
        return reply(self.by_seed[self.requests[-1]["seed"]].pop(0))


@pytest.mark.parametrize(("last", "kind"), [(DECLINED, "refused"), ("Perhaps.", "unparsable")])
async def test_a_sample_that_cannot_be_read_does_not_vanish(last: str, kind: str) -> None:
    """It is no share, and the other two are no 100 %."""
    server = SeededJudge({0: ["Yes"], 1: [DECLINED, last], 2: ["Yes"]})
    async with judge_of(server, samples=3, temperature=1.0) as judge:
        with pytest.raises(Abstention) as caught:
            await judge.choose(PROMPT, YES_NO)
    assert caught.value.kind == kind


@pytest.mark.parametrize("contract", [Option(YES_NO), Option(("a cup, red", "a jug"))])
async def test_options_are_asked_for_in_the_same_form(contract: Option) -> None:
    server = ScriptedOpenAi(reply(DECLINED), reply(contract.options[0]))
    async with judge_of(server) as judge:
        said = await judge.answer(PROMPT, contract)
    assert said.value == contract.options[0]
    assert text_of(server.requests[1]).endswith(FIRMER + "\n".join(contract.options))


async def test_other_forms_still_say_what_was_wrong() -> None:
    server = ScriptedOpenAi(reply("4"), reply(SAID))
    async with judge_of(server) as judge:
        await judge.answer(PROMPT, CONTRACT)
    assert "What was wrong with it: no JSON object" in text_of(server.requests[1])


@pytest.mark.parametrize(("owner", "field"), [("openai", "response_format"), ("vllm", "structured_outputs")])
@pytest.mark.parametrize("logprobs", ["never", "auto"])
async def test_a_server_that_can_is_held_to_the_choices(owner: str, field: str, logprobs: str) -> None:
    server = BoundJudge(owner=owner)
    if logprobs == "auto":
        server.script = [problem(400, "logprobs is not supported"), None]
    async with judge_of(server, logprobs=logprobs) as judge:
        said = await judge.choose(PROMPT, YES_NO)
        assert judge.identity.facts["choices"] == "sampled"
        assert judge.identity.facts["bound"] == "choices"
    assert said.value.probabilities == {"Yes": 0.0, "No": 1.0}
    assert (said.value.method, said.evidence["method"]) == ("bound", "bound")
    asked = server.requests[-1][field]
    if owner == "vllm":
        assert asked == {"choice": ["Yes", "No"]}
        return
    form = asked["json_schema"]
    assert (form["strict"], form["schema"]["type"]) == (True, "object"), "no other is allowed"
    assert form["schema"]["properties"] == {"choice": {"type": "string", "enum": [*YES_NO]}}


INVALID = problem(400, "Invalid schema for response_format 'reply'")
UNBOUND: list[tuple[str, Any]] = [
    *(("openai", binds) for binds in (False, UNSUPPORTED, INVALID, problem(422, "no"))),
    *(("vllm", binds) for binds in (False, problem(400, "structured_outputs is not supported"))),
]


@pytest.mark.parametrize(("owner", "binds"), UNBOUND)
async def test_a_server_that_ignores_or_rejects_the_field_is_not_sent_it(owner: str, binds: bool | Fault) -> None:
    server = ScriptedOpenAi(reply("No."), owner=owner, binds=binds)
    with Ledger() as ledger:
        for _ in range(2):
            async with judge_of(server, ledger) as judge:
                said = await judge.choose(PROMPT, YES_NO)
                assert judge.identity.facts["choices"] == "sampled"
                assert "bound" not in judge.identity.facts
    assert said.value.probabilities["No"] == 1.0
    assert len(server.requests) == 1, "and this is remembered"
    assert not {"response_format", "structured_outputs"} & server.requests[0].keys()


async def test_bound_and_free_replies_are_calls_of_their_own() -> None:
    """A server may begin to bind under the same name; a free reply is no bound one."""
    with Ledger() as ledger:
        free = ScriptedOpenAi(reply("No"))
        async with judge_of(free, ledger, seed=3) as judge:
            before = await judge.choose(PROMPT, YES_NO)
        bound = BoundJudge()
        async with judge_of(bound, ledger, seed=3) as judge:
            assert await judge.probe() == "bound"
            after = await judge.choose(PROMPT, YES_NO)
    assert not {*before.calls} & {*after.calls}


async def test_a_server_that_no_longer_binds_gives_no_choice_and_is_asked_again() -> None:
    server = ScriptedOpenAi(reply("No. The vase is there."), binds=True)
    with Ledger() as ledger:
        async with judge_of(server, ledger) as judge:
            with pytest.raises(Abstention, match="no longer restricts replies") as caught:
                await judge.choose(PROMPT, YES_NO)
        assert caught.value.kind == "unparsable"
        server.binds = False
        async with judge_of(server, ledger) as judge:
            assert (await judge.choose(PROMPT, YES_NO)).value.method == "sampled"


@pytest.mark.parametrize(
    "withheld",
    [
        reply("Yes", finish_reason="content_filter"),
        reply(None, message={"refusal": DECLINED}),
        reply('{"choice": "Yes"}', message={"refusal": DECLINED}),
    ],
)
@pytest.mark.parametrize("binds", [False, True])
async def test_what_a_provider_withholds_is_refused_and_no_choice(withheld: dict[str, Any], binds: bool) -> None:
    server = ScriptedOpenAi(withheld, binds=binds)
    async with judge_of(server) as judge:
        with pytest.raises(Abstention) as caught:
            await judge.choose(PROMPT, YES_NO)
    assert caught.value.kind == "refused"
    assert len(server.requests) == 1, "the provider would withhold it again"


async def test_options_of_a_judge_with_probabilities_are_bound_too() -> None:
    server = ScriptedOpenAi(None, reply(json.dumps({"choice": "b"})))
    async with judge_of(server, logprobs="auto") as judge:
        said = await judge.answer(PROMPT, Option(("a", "b")))
        assert judge.identity.facts["choices"] == "top_logprobs"
    assert said.value == "b"
    assert choices_of(server.requests[-1]) == ["a", "b"]


@pytest.mark.parametrize(
    ("binds", "samples", "parts"),
    [
        (False, 1, ("one sampled word", "to average several")),
        (True, 1, ("one sampled word", "the judge cannot decline")),
        (False, 5, ("the mean of 5 sampled words",)),
    ],
)
async def test_doctor_says_what_it_means_for_the_numbers(binds: bool, samples: int, parts: tuple[str, ...]) -> None:
    server = BoundJudge() if binds else ScriptedOpenAi(reply("Yes"))
    async with server.serving() as url:
        judge = JudgeEndpoint(url=url, logprobs="never", samples=samples)
        (finding,) = await check_services(Settings(judges={"judge": judge}))
    assert not finding.problem
    assert finding.note.startswith("no token probabilities: ")
    assert "\n" not in finding.note
    assert all(part in finding.note for part in parts)
    assert ("cannot decline" in finding.note) is binds


async def test_doctor_says_nothing_of_a_judge_with_probabilities() -> None:
    async with ScriptedOpenAi().serving() as url:
        (finding,) = await check_services(Settings(judges={"judge": JudgeEndpoint(url=url)}))
    assert (finding.note, finding.problem) == ("", "")
