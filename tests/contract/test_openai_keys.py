"""The OpenAI transport: waits, keys, certificates and proxies."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
import time
import traceback
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import trustme

from editjudge.base import errors
from editjudge.base.config import JudgeEndpoint, Secret
from editjudge.panel.calls import Reply
from editjudge.panel.openai import OpenAiTransport, http
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.transport import Sampling

from ..fakes.openai import POLICY, RESET, Fault, ScriptedOpenAi, open_transport, problem, reply
from ..fakes.transport import distribution

ASKED = Prompt("", (Text("Good?"),))
KEY = "sk-5ecretKey+/="


async def ask(transport: OpenAiTransport) -> Reply:
    return await transport.complete(ASKED, Sampling())


async def test_errors_are_short_and_name_the_request() -> None:
    fault = problem(400, "long\n" * 1000, headers={"x-request-id": "req_7"})
    async with open_transport(ScriptedOpenAi(fault)) as transport:
        with pytest.raises(errors.Rejection, match=r"long long .*… \(request req_7\)") as caught:
            await ask(transport)
    assert len(str(caught.value)) < 500


async def test_a_reply_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 1000)
    server = ScriptedOpenAi(reply("x" * 2000))
    async with open_transport(server) as transport:
        with pytest.raises(errors.BadReply, match="more than 1,000 bytes"):
            await ask(transport)
    assert len(server.requests) == 1


# Waiting


YEARS = ["Wed, 01 Jan 9999999 00:00:00 GMT", "Wed, 01 Jan 99999999999999999999 00:00:00 GMT"]
WAITS = [
    *(("retry-after", "0.3", 0.28), ("retry-after-ms", "300", 0.28)),
    *(("retry-after", wait, 0.0) for wait in ["soon", "nan", "-5", "inf", *YEARS]),
]


@pytest.mark.parametrize(("header", "wait", "least"), WAITS)
async def test_a_server_that_names_the_wait_is_heeded(header: str, wait: str, least: float) -> None:
    server = ScriptedOpenAi(problem(429, "slow down", headers={header: wait}), reply())
    async with open_transport(server) as transport:
        await ask(transport)
    first, second = server.times
    assert second - first > least


async def test_a_date_to_wait_for() -> None:
    fault = problem(503, "later", headers={"retry-after": formatdate(time.time() + 2)})
    server = ScriptedOpenAi(fault, reply())
    async with open_transport(server) as transport:
        await ask(transport)
    assert server.times[1] - server.times[0] > 0.9, "dates have whole seconds"


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    server = ScriptedOpenAi(problem(429, "slow down", headers={"retry-after": "3600"}))
    async with open_transport(server) as transport:
        with pytest.raises(errors.Overload) as caught:
            await ask(transport)
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


async def test_one_impatient_caller_does_not_take_the_look_up_from_the_others() -> None:
    server = ScriptedOpenAi(owner="vllm")
    async with open_transport(server) as transport:
        first, second = (asyncio.create_task(transport.choose(ASKED, ("Yes", "No"))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert distribution(await second).method == "logprobs"
    assert server.listed == 1


async def test_a_failed_look_up_is_made_again() -> None:
    server = ScriptedOpenAi(owner="vllm", models_answer=problem(400, "not yet"))
    async with open_transport(server) as transport:
        with pytest.raises(errors.Rejection, match="not yet"):
            await ask(transport)
        server.models_answer = None
        await ask(transport)
    assert server.listed == 2


# Keys


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Secret:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    return Secret(env="JUDGE_KEY")


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
    case: str, key: Secret, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JUDGE_TEAM", "t0p-team")
    caplog.set_level(logging.DEBUG)
    server = ScriptedOpenAi(ECHOES[case])
    headers: Any = {"X-Team": Secret(env="JUDGE_TEAM"), "x-run": "7"}
    async with open_transport(server, api_key=key, headers=headers) as transport:
        with pytest.raises(errors.ServiceError) as caught:
            await ask(transport)
        shown = [str(caught.value), repr(caught.value), repr(transport), caplog.text]
    shown += traceback.format_exception(caught.value)
    assert not any(secret in text for text in shown for secret in (KEY[:8], "t0p-team"))
    sent = {"authorization": f"Bearer {KEY}", "x-team": "t0p-team", "x-run": "7"}
    assert all(sent.items() <= seen.items() for seen in server.headers)


SAID: dict[str, dict[str, Any]] = {
    "as its name": reply() | {"model": f"judge-{KEY}"},
    "as its text": reply(f"I was sent {KEY}"),
    "in base64": reply(f"I was sent {base64.b64encode(KEY.encode()).decode()}"),
    "in hex": reply(f"I was sent {KEY.encode().hex()}"),
    "as a refusal": reply(None, message={"refusal": f"not with {KEY}"}),
}


@pytest.mark.parametrize("case", SAID)
async def test_keys_stay_out_of_names_texts_and_reasons(case: str, key: Secret) -> None:
    server = ScriptedOpenAi(SAID[case], models=(f"judge-{KEY}",))
    async with open_transport(server, api_key=key) as transport:
        shown = [repr(await transport.identify(5))]
        try:
            shown.append(repr(await ask(transport)))
        except errors.Abstention as abstained:
            shown.append(str(abstained))
    encoded = (KEY, KEY.encode().hex(), base64.b64encode(KEY.encode()).decode())
    assert all("[secret]" in text and not any(e in text for e in encoded) for text in shown)


async def test_a_word_is_no_secret_though_it_is_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers at home take any key; people give `EMPTY` or `1`."""
    monkeypatch.setenv("JUDGE_KEY", "1")
    server = ScriptedOpenAi(reply('{"score": 1}'))
    async with open_transport(server, api_key=Secret(env="JUDGE_KEY")) as transport:
        assert (await ask(transport)).content["text"] == '{"score": 1}'


@pytest.mark.parametrize(
    ("url", "key", "text"),
    [
        ("https://me:pa55@judge.test/v1", "k", "holds more than a path"),
        ("https://judge.test/v1?key=pa55", "k", "holds more than a path"),
        ("https://judge.test/v1", "pa55\nx: y", "control character"),
    ],
)
def test_keys_in_wrong_places(url: str, key: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", key)
    endpoint = JudgeEndpoint(url=url, api_key=Secret(env="JUDGE_KEY"))
    with pytest.raises(errors.ConfigError, match=text) as caught:
        OpenAiTransport(endpoint, POLICY)
    assert "pa55" not in str(caught.value)


# TLS and proxies


async def test_a_certificate_of_ones_own_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with ScriptedOpenAi().serving(context) as url:
        trusting = JudgeEndpoint(url=url, ca_file=tmp_path / "ca.pem")
        async with OpenAiTransport(trusting, POLICY) as transport:
            assert (await ask(transport)).content["text"] == "Yes"
        async with OpenAiTransport(JudgeEndpoint(url=url), POLICY) as transport:
            with pytest.raises(errors.Unreachable, match="certificate is not trusted") as caught:
                await ask(transport)
    assert (caught.value.attempts, caught.value.retryable) == (1, False)


@pytest.mark.parametrize(("content", "text"), [(None, "No such file"), ("x", "no certificate")])
def test_a_file_that_holds_no_certificate(tmp_path: Path, content: str | None, text: str) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    endpoint = JudgeEndpoint(url="https://judge.test/v1", ca_file=tmp_path / "ca.pem")
    with pytest.raises(errors.ConfigError, match=text):
        OpenAiTransport(endpoint, POLICY)


async def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = ScriptedOpenAi()
    async with proxy.serving() as url:
        monkeypatch.setenv("http_proxy", url.removesuffix("/v1"))
        far, near = (JudgeEndpoint(url=f"http://{host}/v1", model="judge") for host in ("judge.test", "127.0.0.1:9"))
        async with OpenAiTransport(far, POLICY) as transport:
            assert (await ask(transport)).content["text"] == "Yes"
        assert proxy.headers[-1]["host"] == "judge.test"
        async with OpenAiTransport(near, POLICY) as transport:
            with pytest.raises(errors.NoConnection):
                await ask(transport)
