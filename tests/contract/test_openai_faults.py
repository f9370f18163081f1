"""The OpenAI transport against servers, networks and keys that fail."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import traceback
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import trustme

from editjudge.base.config import JudgeEndpoint, Secret
from editjudge.base.errors import (
    Abstention,
    BadReply,
    ConfigError,
    DeadlineExceeded,
    NoAccess,
    NoConnection,
    NoModel,
    Overload,
    Rejection,
    ServiceError,
    Unreachable,
)
from editjudge.panel.openai import OpenAiTransport, http
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.transport import Completion, Sampling

from ..fakes.openai import HALF, POLICY, RESET, Fault, ScriptedOpenAi, asking, problem, reply

ASKED = Prompt("", (Text("Good?"),))
KEY = "sk-5ecretKey+/="


async def ask(transport: OpenAiTransport) -> Completion:
    return await transport.complete(ASKED, Sampling())


PASSING: dict[str, tuple[Any, type[ServiceError]]] = {
    "timeout there": (problem(408, "took too long"), Unreachable),
    "conflict": (problem(409, "try again"), Overload),
    "too many": (problem(429, "slow down", code="rate_limit_exceeded"), Overload),
    "a defect there": (problem(500, "KeyError: 'x'"), Unreachable),
    "a proxy's page": (Fault(502, b"<html>Bad Gateway</html>"), Unreachable),
    "overloaded": (Fault(503), Overload),
    "a failure with status 200": (
        Fault(200, {"error": {"message": "upstream gave up", "code": 502}}),
        Unreachable,
    ),
    "lost in mid-reply": (RESET, Unreachable),
    "half a reply": (HALF, Unreachable),
    "too much nesting": (Fault(200, b"[" * 100_000), Unreachable),
    "a server that knows better": (
        problem(400, "warming up", headers={"x-should-retry": "true"}),
        Rejection,
    ),
}


@pytest.mark.parametrize("case", PASSING)
async def test_passing_faults_are_retried(case: str) -> None:
    fault, _ = PASSING[case]
    server = ScriptedOpenAi(fault, fault, reply("fine"))
    async with asking(server) as transport:
        said = await ask(transport)
    assert said.text == "fine"
    assert len(server.requests) == 3
    assert server.bodies[0] == server.bodies[2]


@pytest.mark.parametrize("case", PASSING)
async def test_lasting_faults_give_up_and_say_how_often_was_asked(case: str) -> None:
    fault, kind = PASSING[case]
    server = ScriptedOpenAi(fault)
    async with asking(server) as transport:
        with pytest.raises(kind, match="after 3 attempts") as caught:
            await ask(transport)
    assert type(caught.value) is kind
    assert (caught.value.service, caught.value.model) == ("generalist.judge", "judge")
    assert caught.value.endpoint == transport.url
    assert len(server.requests) == 3


FINAL: dict[str, tuple[Fault, type[ServiceError], str]] = {
    "no key": (problem(401, "Incorrect API key"), NoAccess, "Incorrect API key"),
    "no money": (problem(402, "Insufficient balance"), NoAccess, "balance"),
    "no rights": (problem(403, "not in your country"), NoAccess, "country"),
    "no such model": (problem(404, "The model does not exist"), NoModel, "does not exist"),
    "too large": (Fault(413, b"Request Entity Too Large"), Rejection, "Entity Too Large"),
    "too long a prompt": (problem(400, "maximum context length is 4096"), Rejection, "4096"),
    "a list, as Gemini's": (Fault(400, [{"error": {"message": "bad"}}]), Rejection, "400: bad"),
    "FastAPI's form": (Fault(422, {"detail": [{"loc": ["body", "n"]}]}), Rejection, "body"),
    "an old vLLM's form": (Fault(400, {"object": "error", "message": "no"}), Rejection, "400: no"),
    "text for an error": (Fault(400, {"error": "boom"}), Rejection, "boom"),
    "no quota": (
        problem(429, "You exceeded your quota", code="insufficient_quota"),
        NoAccess,
        "quota",
    ),
    "a server that knows better": (
        problem(500, "never", headers={"x-should-retry": "false"}),
        Unreachable,
        "never",
    ),
    "moved": (
        Fault(307, b"", {"location": "https://elsewhere.test/v1?key=x"}),
        NoModel,
        r"redirects to https://elsewhere\.test/v1, which is not followed",
    ),
    "a web page": (Fault(200, b"<p>", {"content-type": "text/html"}), NoModel, "web page"),
}


@pytest.mark.parametrize("case", FINAL)
async def test_final_faults_are_not_retried(case: str) -> None:
    fault, kind, text = FINAL[case]
    server = ScriptedOpenAi(fault)
    async with asking(server) as transport:
        with pytest.raises(kind, match=text) as caught:
            await ask(transport)
    assert type(caught.value) is kind
    assert not caught.value.retryable
    assert len(server.requests) == 1


async def test_errors_are_short_and_name_the_request() -> None:
    fault = problem(400, "long\n" * 1000, headers={"x-request-id": "req_7"})
    async with asking(ScriptedOpenAi(fault)) as transport:
        with pytest.raises(Rejection, match=r"long long .*… \(request req_7\)") as caught:
            await ask(transport)
    assert len(str(caught.value)) < 500


# Waiting


@pytest.mark.parametrize(
    "headers", [{"retry-after": "0.3"}, {"retry-after-ms": "300"}], ids=["seconds", "milliseconds"]
)
async def test_a_server_that_names_the_wait_is_heeded(headers: dict[str, str]) -> None:
    server = ScriptedOpenAi(problem(429, "slow down", headers=headers), reply())
    async with asking(server) as transport:
        await ask(transport)
    first, second = server.times
    assert second - first > 0.28


async def test_a_date_to_wait_for() -> None:
    fault = problem(503, "later", headers={"retry-after": formatdate(time.time() + 2)})
    server = ScriptedOpenAi(fault, reply())
    async with asking(server) as transport:
        await ask(transport)
    # Dates have whole seconds.
    assert server.times[1] - server.times[0] > 0.9


YEARS = ["Wed, 01 Jan 9999999 00:00:00 GMT", "Wed, 01 Jan 99999999999999999999 00:00:00 GMT"]


@pytest.mark.parametrize("wait", ["soon", "nan", "-5", "inf", *YEARS])
async def test_waits_that_are_none(wait: str) -> None:
    server = ScriptedOpenAi(problem(429, "slow", headers={"retry-after": wait}), reply())
    async with asking(server) as transport:
        await ask(transport)
    assert len(server.times) == 2


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    server = ScriptedOpenAi(problem(429, "slow down", headers={"retry-after": "3600"}))
    async with asking(server) as transport:
        with pytest.raises(Overload) as caught:
            await ask(transport)
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


async def test_one_deadline_for_all_attempts() -> None:
    server = ScriptedOpenAi(Fault(500), 30.0, reply())
    async with asking(server, replace(POLICY, deadline=0.4)) as transport:
        with pytest.raises(DeadlineExceeded, match="no reply within"):
            await ask(transport)
        await asyncio.sleep(0.1)
    assert server.cancelled == 1


async def test_cancelling_closes_the_request() -> None:
    server = ScriptedOpenAi(30.0)
    async with asking(server) as transport:
        task = asyncio.create_task(ask(transport))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        assert server.cancelled == 1


async def test_one_impatient_caller_does_not_take_the_look_up_from_the_others() -> None:
    server = ScriptedOpenAi(owner="vllm")
    async with asking(server) as transport:
        first = asyncio.create_task(transport.choose(ASKED, ("Yes", "No")))
        second = asyncio.create_task(transport.choose(ASKED, ("Yes", "No")))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).distribution.method == "logprobs"
    assert server.listed == 1


async def test_a_failed_look_up_is_made_again() -> None:
    server = ScriptedOpenAi(owner="vllm", models_answer=problem(400, "not yet"))
    async with asking(server) as transport:
        with pytest.raises(Rejection, match="not yet"):
            await ask(transport)
        server.models_answer = None
        await ask(transport)
    assert server.listed == 2


async def test_closing_ends_calls_in_flight_and_later_ones() -> None:
    server = ScriptedOpenAi(30.0)
    async with asking(server) as transport:
        task = asyncio.create_task(ask(transport))
        while not server.requests:
            await asyncio.sleep(0.01)
        await transport.close()
        with pytest.raises(Unreachable):
            await task
        with pytest.raises(Unreachable, match="closed"):
            await ask(transport)
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there() -> None:
    endpoint = JudgeEndpoint(url="http://127.0.0.1:9/v1", model="judge")
    async with OpenAiTransport(endpoint, POLICY) as transport:
        with pytest.raises(NoConnection, match="127.0.0.1:9"):
            await transport.identify(2)


async def test_a_reply_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 1000)
    server = ScriptedOpenAi(reply("x" * 2000))
    async with asking(server) as transport:
        with pytest.raises(BadReply, match="more than 1,000 bytes"):
            await ask(transport)
    assert len(server.requests) == 1


# Keys


ECHOES: dict[str, Any] = {
    "in an error": problem(401, f"Incorrect API key provided: {KEY}."),
    "in the whole header": problem(400, f"authorization: Bearer {KEY}"),
    "at the end of what is shown": problem(400, "x" * 290 + KEY),
    "in a page": Fault(500, f"<p>{KEY}".encode()),
    "in what is no JSON": Fault(200, f"key={KEY}".encode()),
    "at the end of what is shown of it": Fault(200, b"x" * 66 + KEY.encode()),
    "in the request's id": problem(400, "no", headers={"x-request-id": KEY}),
    "in a redirect": Fault(302, b"", {"location": f"https://x.test/{KEY}"}),
    "another secret": problem(400, "team is t0p-team"),
    "lost": RESET,
}


@pytest.mark.parametrize("case", ECHOES)
async def test_keys_stay_out_of_errors_and_logs(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("JUDGE_TEAM", "t0p-team")
    caplog.set_level(logging.DEBUG)
    server = ScriptedOpenAi(ECHOES[case])
    settings: dict[str, Any] = {
        "api_key": Secret(env="JUDGE_KEY"),
        "headers": {"X-Team": Secret(env="JUDGE_TEAM"), "x-run": "7"},
    }
    async with asking(server, **settings) as transport:
        with pytest.raises(ServiceError) as caught:
            await ask(transport)
        shown = [str(caught.value), repr(caught.value), repr(transport), caplog.text]
    shown += traceback.format_exception(caught.value)
    assert not any(secret in text for text in shown for secret in (KEY[:8], "t0p-team"))
    for seen in server.headers:
        assert seen["authorization"] == f"Bearer {KEY}"
        assert (seen["x-team"], seen["x-run"]) == ("t0p-team", "7")


SAID: dict[str, dict[str, Any]] = {
    "as its name": reply() | {"model": f"judge-{KEY}"},
    "as its text": reply(f"I was sent {KEY}"),
    "as a refusal": reply(None, message={"refusal": f"not with {KEY}"}),
}


@pytest.mark.parametrize("case", SAID)
async def test_keys_stay_out_of_names_texts_and_reasons(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    server = ScriptedOpenAi(SAID[case], models=(f"judge-{KEY}",))
    async with asking(server, api_key=Secret(env="JUDGE_KEY")) as transport:
        shown = [repr(await transport.identify(5))]
        try:
            shown.append(repr(await ask(transport)))
        except Abstention as abstained:
            shown.append(str(abstained))
    assert "[secret]" in shown[0]
    assert "[secret]" in shown[1]
    assert not any(KEY in text for text in shown)


async def test_a_word_is_no_secret_though_it_is_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers at home take any key; people give `EMPTY` or `1`."""
    monkeypatch.setenv("JUDGE_KEY", "1")
    server = ScriptedOpenAi(reply('{"score": 1}'))
    async with asking(server, api_key=Secret(env="JUDGE_KEY")) as transport:
        assert (await ask(transport)).text == '{"score": 1}'


async def test_a_name_without_end() -> None:
    async with asking(ScriptedOpenAi(reply() | {"model": "x" * 1000})) as transport:
        with pytest.raises(BadReply, match="name has 1,000 characters"):
            await ask(transport)


@pytest.mark.parametrize(
    ("url", "key", "text"),
    [
        ("https://me:pa55@judge.test/v1", "k", "holds more than a path"),
        ("https://judge.test/v1?key=pa55", "k", "holds more than a path"),
        ("https://judge.test/v1", "pa55\nx: y", "control character"),
    ],
)
def test_keys_in_wrong_places(
    url: str, key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", key)
    endpoint = JudgeEndpoint(url=url, api_key=Secret(env="JUDGE_KEY"))
    with pytest.raises(ConfigError, match=text) as caught:
        OpenAiTransport(endpoint, POLICY)
    assert "pa55" not in str(caught.value)


# TLS and proxies


async def test_a_certificate_of_ones_own_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = ScriptedOpenAi()
    async with server.serving(context) as url:
        trusting = JudgeEndpoint(url=url, ca_file=tmp_path / "ca.pem")
        async with OpenAiTransport(trusting, POLICY) as transport:
            assert (await ask(transport)).text == "Yes"
        async with OpenAiTransport(JudgeEndpoint(url=url), POLICY) as transport:
            with pytest.raises(Unreachable, match="TLS") as caught:
                await ask(transport)
    assert (caught.value.attempts, caught.value.retryable) == (1, False)


@pytest.mark.parametrize(("content", "text"), [(None, "No such file"), ("x", "no certificate")])
def test_a_file_that_holds_no_certificate(tmp_path: Path, content: str | None, text: str) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    endpoint = JudgeEndpoint(url="https://judge.test/v1", ca_file=tmp_path / "ca.pem")
    with pytest.raises(ConfigError, match=text):
        OpenAiTransport(endpoint, POLICY)


async def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = ScriptedOpenAi()
    async with proxy.serving() as url:
        monkeypatch.setenv("http_proxy", url.removesuffix("/v1"))
        far = JudgeEndpoint(url="http://judge.test/v1", model="judge")
        async with OpenAiTransport(far, POLICY) as transport:
            assert (await ask(transport)).text == "Yes"
        assert proxy.headers[-1]["host"] == "judge.test"
        near = JudgeEndpoint(url="http://127.0.0.1:9/v1", model="judge")
        async with OpenAiTransport(near, POLICY) as transport:
            with pytest.raises(NoConnection):
                await ask(transport)
