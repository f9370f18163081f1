"""Every provider judges: choices, JSON, pictures, refusals, filters, limits and cuts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from editjudge.answers.scores import ScoreField, Scores
from editjudge.app.doctor import check_services
from editjudge.base.config import JudgeEndpoint, Price, Settings
from editjudge.base.errors import Abstention, Rejection, WrongModel
from editjudge.base.images import load_image
from editjudge.base.providers import find_provider, load_providers
from editjudge.panel import Panel
from editjudge.panel.budget import Budget
from editjudge.panel.context import CallContext
from editjudge.panel.judge import Judge
from editjudge.panel.prompt import Prompt, Text

from ..fakes.openai import Fault, reply
from ..fakes.providers import PROVIDERS, ScriptedProvider

SCORES = Scores((ScoreField("score", 0, 10),))
JSON = reply(json.dumps({"reasoning": "As it was.", "score": 7}))
WITHOUT_LOGPROBS = {name for name, habits in PROVIDERS.items() if not habits.get("top_logprobs")}
LEFT_OUT = {"gpt-5": {"temperature"}, "opus-4.7": {"temperature"}, "gemini": {"seed"}, "qwen": {"schema"}}
PRICE = Price(input=0, output=1e6)  # 1 a token of the reply


@asynccontextmanager
async def open_judge(
    server: ScriptedProvider, *, deadline: float = 60, **more: Any
) -> AsyncIterator[tuple[Judge, Budget]]:
    """The judge of a panel that has the provider's name and address."""
    async with server.serving() as url:
        endpoint = JudgeEndpoint(url=url, model=server.model, price=PRICE, **more)
        settings = Settings(judges={"judge": endpoint}, retry_wait=0.001, deadline=deadline)
        async with Panel(settings) as panel:
            context = CallContext(budget := Budget())
            yield panel.judge("generalist.judge").with_context(context), budget


def about(judge: Judge, text: str = "Question?", pictures: int = 1) -> Prompt:
    shown = [judge.prepare_picture(load_image(np.full((8, 8, 3), shade, np.uint8))) for shade in range(pictures)]
    return Prompt("judge", (*shown, Text(f"{text} Reply in JSON.")))


def pictures_of(sent: dict[str, Any]) -> list[dict[str, str]]:
    parts = sent["messages"][-1]["content"]
    return [part["image_url"] for part in parts if part["type"] == "image_url"]


@pytest.fixture(params=PROVIDERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_doctor_is_green_or_says_what_there_is_not(name: str) -> None:
    server = ScriptedProvider(name)
    async with server.serving() as url:
        judge = JudgeEndpoint(url=url, model=server.model, price=PRICE, headers={"x-team": "a"})
        (finding,) = await check_services(Settings(judges={"judge": judge}, retry_wait=0.001))
    assert ("no token probabilities" in finding.problem) == (name in WITHOUT_LOGPROBS)
    assert name in WITHOUT_LOGPROBS or not finding.problem
    refused = LEFT_OUT.get(name, set())
    assert all(setting in finding.note for setting in refused), finding.note
    assert "refuses" in finding.note or not refused


async def test_a_choice_is_scored(name: str) -> None:
    async with open_judge(ScriptedProvider(name)) as (judge, _):
        spread = (await judge.choose(about(judge), ("Yes", "No"))).value
    expected = 1.0 if name in WITHOUT_LOGPROBS else pytest.approx(0.7 / 0.9)
    assert spread.probabilities["Yes"] == expected


async def test_scores_are_read_and_nothing_is_refused_twice(name: str) -> None:
    server = ScriptedProvider(name, JSON)
    async with open_judge(server) as (judge, _):
        answers = [(await judge.answer(about(judge, f"{n}", pictures=4), SCORES)).value.scores for n in range(3)]
        identity = judge.identity.facts
    assert answers == [{"score": 7}] * 3
    assert len(server.refusals) == len(set(server.refusals)), "each refusal is met once"
    sent = server.requests[-1]
    left_out = LEFT_OUT.get(name, set())
    assert ("temperature" in sent) == ("temperature" not in left_out)
    assert identity["temperature"] == ("default" if "temperature" in left_out else "0")
    assert ("seed" in sent) == ("seed" not in left_out) == (identity["seed"] == "0")
    assert ("response_format" in sent) == ("schema" not in left_out)
    assert identity.get("schema", "") == ("none" if "schema" in left_out else "")
    assert len(pictures_of(sent)) == 4


async def test_a_field_that_is_refused_only_later_is_a_failure(name: str) -> None:
    refusal = {"error": {"message": "temperature is deprecated", "param": "temperature"}}
    server = ScriptedProvider(name)
    async with open_judge(server) as (judge, _):
        await judge.find_choice_method()
        server.script = [JSON, Fault(400, refusal)]
        await judge.answer(about(judge, "first"), SCORES)
        before = judge.identity
        with pytest.raises(Rejection, match="deprecated"):
            await judge.answer(about(judge, "second"), SCORES)
        assert judge.identity == before


async def test_a_refusal_and_a_filter_are_no_scores(name: str) -> None:
    server = ScriptedProvider(name, reply(None, message={"refusal": "I can't help with that."}))
    async with open_judge(server) as (judge, _):
        for text in ("question", "forbidden"):
            with pytest.raises(Abstention) as caught:
                await judge.answer(about(judge, text), SCORES)
            assert caught.value.kind == "refused"


async def test_a_limit_is_waited_for_as_long_as_the_deadline_lets(name: str) -> None:
    server = ScriptedProvider(name, JSON)
    async with open_judge(server) as (judge, _):
        await judge.find_choice_method()
        server.limited = 3 if name == "opus-4.7" else 6  # it has no limit, but no room
        assert (await judge.answer(about(judge), SCORES)).value


async def test_a_judge_that_thinks_until_its_limit_is_cut(name: str) -> None:
    server = ScriptedProvider(name, reply(None, finish_reason="length"))
    async with open_judge(server, max_tokens=500) as (judge, _):
        with pytest.raises(Abstention, match="max_tokens = 500") as caught:
            await judge.answer(about(judge), SCORES)
    assert caught.value.kind == "unparsable"


@pytest.mark.parametrize("name", [n for n, habits in PROVIDERS.items() if habits.get("thinks")])
async def test_hidden_tokens_are_counted_and_priced(name: str) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 161}
    server = ScriptedProvider(name, JSON | {"usage": usage})
    async with open_judge(server) as (judge, budget):
        await judge.find_choice_method()
        before, paid = budget.usage.completion_tokens, budget.cost
        await judge.answer(about(judge), SCORES)
    assert (budget.usage.completion_tokens - before, budget.cost - paid) == (61, 61)


def test_a_provider_has_an_address_and_the_variable_of_its_key() -> None:
    judge = JudgeEndpoint.model_validate({"provider": "openai", "model": "gpt-4o"})
    assert judge.url == load_providers()["openai"].url
    assert judge.api_key is not None
    assert judge.api_key.env == "OPENAI_API_KEY"
    own = JudgeEndpoint.model_validate({"provider": "vllm", "url": "http://node:8000/v1"})
    assert (own.url, own.api_key) == ("http://node:8000/v1", None)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"provider": "closedai"}, "no provider 'closedai'; there are openai"),
        ({"provider": "azure"}, "give the `url` of Azure OpenAI, such as https://{resource}"),
        ({"provider": "vllm"}, "give the `url` of vLLM"),
        ({"url": "http://a/v1", "extra": {"top_p": 0.5}}, "top_p: this field is set"),
        ({"url": "grpc://a:1", "extra": {"a": 1}}, "sent over HTTP only"),
        *(
            ({"url": "http://a/v1", "temperature": t}, 'give a number from 0 to 2, or "default"')
            for t in ("warm", True, -1, 2.5, None, float("nan"))
        ),
    ],
)
def test_settings_that_cannot_be_sent(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=".*") as caught:
        JudgeEndpoint.model_validate(settings)
    assert text in str(caught.value)


async def test_further_fields_are_sent_and_signed() -> None:
    extra = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
    server = ScriptedProvider("gpt-4o", JSON)
    async with open_judge(server, extra=extra, image_detail="high", temperature="default") as (judge, _):
        await judge.answer(about(judge), SCORES)
        facts = judge.identity.facts
    sent = server.requests[-1]
    assert {name: sent[name] for name in extra} == extra
    assert "temperature" not in sent
    assert json.loads(facts["extra"]) == extra
    assert (facts["image_detail"], facts["temperature"]) == ("high", "default")
    (url,) = pictures_of(sent)
    assert url["detail"] == "high"
    assert url["url"].startswith("data:image/png;base64,")


async def test_an_undated_name_is_fixed_to_the_date_that_answers_first() -> None:
    server = ScriptedProvider("gpt-4o", JSON)
    server.model = "gpt-4o"
    async with open_judge(server) as (judge, _):
        await judge.answer(about(judge, "first"), SCORES)
        assert judge.identity.facts["snapshot"] == "gpt-4o-2024-11-20"
        server.answers_as = "gpt-4o-2025-01-01"
        with pytest.raises(WrongModel, match="2025-01-01"):
            await judge.answer(about(judge, "second"), SCORES)


def test_servers_are_known_by_the_owner_of_their_models() -> None:
    assert find_provider("", "sglang").title == "SGLang"
    assert find_provider("", "system").title == ""
    assert find_provider("ollama", "system").neutral["top_p"] == 1.0
