"""Our Triton transport against a server that misbehaves in every way we know of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode

from editjudge.app.client import Client
from editjudge.base.config import Endpoint, Secret, Settings
from editjudge.base.errors import (
    Abstention,
    BadReply,
    ConfigError,
    DeadlineExceeded,
    NoModel,
    Overload,
    Rejection,
    ServiceError,
    Unreachable,
)
from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit
from editjudge.base.verdict import Failure as FailureOutcome
from editjudge.base.verdict import NoScore, NotServed, Score
from editjudge.panel import Panel
from editjudge.panel.grpc_channel import MAX_REPLY_BYTES
from editjudge.panel.triton import MAX_REQUEST_BYTES, MAX_ROWS, MAX_TEXT_BYTES

from ..fakes.triton import Failure, ScriptedTriton, reply, score

BUSY = Failure(StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
GONE = Failure(StatusCode.UNAVAILABLE, "Socket closed")
PIQE = ServiceName("quality", "piqe")
TOKEN = "tk-5ecretToken"


@asynccontextmanager
async def panel_of(server: ScriptedTriton, **settings: Any) -> AsyncIterator[Panel]:
    async with server.serving() as url:
        endpoints = {"scripted": Endpoint(url=url)}
        async with Panel(
            Settings(endpoints=endpoints, **{"retry_wait": 0.001, **settings})
        ) as panel:
            yield panel


async def ask(panel: Panel, service: str = "quality.piqe", image: bytes = b"image") -> Any:
    return await panel.call(service, {"IMAGE": image})


async def test_a_good_reply() -> None:
    server = ScriptedTriton(score(0.25))
    async with panel_of(server) as panel:
        assert (await ask(panel))["SCORE"].tolist() == [0.25]
        assert str(panel.specialists["quality.piqe"].identity) == (
            "quality_piqe/1(implementation=scripted.1)"
        )
    (request,) = server.requests
    assert request.inputs[0].name == "IMAGE"
    assert request.raw_input_contents[0] == b"\x05\x00\x00\x00image"


async def test_where_a_model_must_run_is_not_what_it_is() -> None:
    class Placed(ScriptedTriton):
        async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
            response = await super().ModelConfig(request, context)
            response.config.parameters["device"].string_value = "gpu"
            return response

    async with panel_of(Placed(score(0.25))) as panel:
        said = str(panel.specialists["quality.piqe"].identity)
    assert said == "quality_piqe/1(implementation=scripted.1)"


SLOW = Failure(StatusCode.INTERNAL, "Stub process 'quality_piqe_0_0' is not healthy.")

RETRIED = {
    "queue full": (BUSY, Overload),
    "connection lost": (GONE, Unreachable),
    "no sign of life": (SLOW, Unreachable),
}


@pytest.mark.parametrize("case", RETRIED)
async def test_passing_faults_are_retried(case: str) -> None:
    fault, _ = RETRIED[case]
    server = ScriptedTriton(fault, fault, score(0.75))
    async with panel_of(server) as panel:
        assert (await ask(panel))["SCORE"].tolist() == [0.75]
    assert len(server.requests) == 3


@pytest.mark.parametrize("case", RETRIED)
async def test_lasting_faults_give_up_and_say_how_often_was_asked(case: str) -> None:
    fault, kind = RETRIED[case]
    server = ScriptedTriton(fault)
    async with panel_of(server, attempts=3) as panel:
        with pytest.raises(kind, match="after 3 attempts") as caught:
            await ask(panel)
    assert len(server.requests) == 3
    assert (caught.value.service, caught.value.model) == ("quality.piqe", "quality_piqe")
    assert caught.value.endpoint.startswith("grpc://127.0.0.1:")


FINAL = {
    "bad input": (Failure(StatusCode.INVALID_ARGUMENT, "IMAGE: 0 bytes"), Rejection, "0 bytes"),
    "no such model": (Failure(StatusCode.NOT_FOUND, "unknown model"), NoModel, "unknown"),
    "a defect there": (Failure(StatusCode.INTERNAL, "KeyError: 'x'"), ServiceError, "KeyError"),
    "not let in": (Failure(StatusCode.UNAUTHENTICATED, "no token"), ServiceError, "no token"),
}


@pytest.mark.parametrize("case", FINAL)
async def test_final_faults_are_not_retried(case: str) -> None:
    fault, kind, text = FINAL[case]
    server = ScriptedTriton(fault)
    async with panel_of(server) as panel:
        with pytest.raises(kind, match=text) as caught:
            await ask(panel)
    assert not caught.value.retryable
    assert len(server.requests) == 1


async def test_an_abstention_is_typed() -> None:
    fault = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: nothing to see: flat")
    async with panel_of(ScriptedTriton(fault)) as panel:
        with pytest.raises(Abstention) as caught:
            await ask(panel)
    assert (caught.value.kind, caught.value.reason) == ("degenerate", "nothing to see: flat")


def read(text: str | bytes, boxes: int = 0, confidences: int = 0) -> Any:
    return reply(
        TEXT=text,
        BOXES=np.zeros((1, boxes, 4, 2), np.float32),
        CONFIDENCE=np.zeros((1, confidences), np.float32),
    )


def twice(first: Any, second: Any) -> Any:
    first.MergeFrom(second)
    return first


def of(answer: Any, model: str, version: str = "1") -> Any:
    answer.model_name, answer.model_version = model, version
    return answer


BAD_REPLIES: dict[str, tuple[str, Any, str]] = {
    "missing output": ("quality.piqe", reply(OTHER=np.zeros((1, 1), np.float32)), "lacks SCORE"),
    "wrong type": ("quality.piqe", reply(SCORE=np.zeros((1, 1), np.float64)), "FP64"),
    "wrong rank": ("quality.piqe", reply(SCORE=np.zeros((1,), np.float32)), r"FP32\[1\]"),
    "wrong shape": ("quality.piqe", reply(SCORE=np.zeros((1, 2), np.float32)), r"FP32\[1, 2\]"),
    "two in a batch": ("quality.piqe", reply(SCORE=np.zeros((2, 1), np.float32)), r"\[2, 1\]"),
    "NaN": ("quality.piqe", score(float("nan")), "NaN"),
    "infinity": ("quality.piqe", score(float("inf")), "infinity"),
    "above its range": ("quality.piqe", score(1.5), r"outside 0\.\.1"),
    "below its range": ("quality.piqe", score(-0.1), r"outside 0\.\.1"),
    "text for a number": ("quality.piqe", reply(SCORE="0.5"), "BYTES"),
    "number for text": (
        "ocr.ppocr",
        reply(TEXT=np.zeros((1, 1), np.float32)),
        "TEXT is FP32",
    ),
    "no UTF-8": ("ocr.ppocr", read(b"SALE \xff\xfe"), "TEXT is no UTF-8: invalid start byte"),
    "endless text": ("ocr.ppocr", read("x" * (MAX_TEXT_BYTES + 1)), "1,048,577 bytes; at most"),
    "endless boxes": ("ocr.ppocr", read("x", MAX_ROWS + 1, MAX_ROWS + 1), "65,537 long; at most"),
    "more boxes than confidences": (
        "ocr.ppocr",
        read("x", 2, 1),
        "these tensors must be of equal length: 2 of BOXES, 1 of CONFIDENCE",
    ),
    "two tensors of one name": ("quality.piqe", twice(score(0.1), score(0.9)), "two tensors"),
    "another model's": ("quality.piqe", of(score(0.5), "quality_other"), "'quality_other'"),
    "another version's": ("quality.piqe", of(score(0.5), "quality_piqe", "2"), "version '2'"),
}


@pytest.mark.parametrize("case", BAD_REPLIES)
async def test_replies_that_break_the_contract(case: str) -> None:
    service, answer, text = BAD_REPLIES[case]
    async with panel_of(ScriptedTriton(answer)) as panel:
        with pytest.raises(BadReply, match=text):
            await ask(panel, service)


async def test_a_version_that_comes_later_does_not_answer_for_the_one_that_was_identified() -> None:
    server = ScriptedTriton(score(0.5), versions=("1", "10", "9"))
    async with panel_of(server) as panel:
        await ask(panel)
    assert server.requests[0].model_version == "10"


async def test_more_than_any_reply_holds_is_refused_before_it_is_read() -> None:
    server = ScriptedTriton(read("x" * (MAX_REPLY_BYTES + 1)))
    async with panel_of(server) as panel:
        with pytest.raises(BadReply, match="larger than max"):
            await ask(panel, "ocr.ppocr")
    assert len(server.requests) == 1


async def test_more_than_the_server_takes_is_no_full_queue() -> None:
    server = ScriptedTriton()
    async with panel_of(server) as panel:
        with pytest.raises(Rejection, match="larger than max"):
            await ask(panel, image=bytes(4 * 1024 * 1024))
    assert server.requests == []


@pytest.mark.parametrize("kind", ["", "bored", "x" * 5000])
async def test_an_abstention_of_an_unknown_kind_is_a_bad_reply(kind: str) -> None:
    fault = Failure(StatusCode.INVALID_ARGUMENT, f"abstained/{kind}: I would rather not")
    async with panel_of(ScriptedTriton(fault)) as panel:
        with pytest.raises(BadReply, match="not as abstained, unparsable, refused") as caught:
            await ask(panel)
    assert len(str(caught.value)) < 300


async def test_long_reasons_are_one_short_line() -> None:
    fault = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: " + "flat\n" * 900)
    async with panel_of(ScriptedTriton(fault)) as panel:
        with pytest.raises(Abstention) as caught:
            await ask(panel)
    assert len(caught.value.reason) == 300
    assert "\n" not in caught.value.reason


async def test_secrets_are_blotted_out_of_all_that_a_server_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", f"Bearer {TOKEN}")
    script = (
        read(f"SALE {TOKEN}"),
        Failure(StatusCode.INTERNAL, f"no rights for {TOKEN}"),
        Failure(StatusCode.INVALID_ARGUMENT, f"abstained/refused: {TOKEN} may not"),
    )
    server = ScriptedTriton(*script, implementation=f"of-{TOKEN}")
    async with server.serving() as url:
        endpoint = Endpoint(url=url, headers={"authorization": Secret(env="JUDGE_TOKEN")})
        async with Panel(Settings(endpoints={"a": endpoint})) as panel:
            said = [str(panel.identities()), str(await ask(panel, "ocr.ppocr"))]
            for kind in (ServiceError, Abstention):
                with pytest.raises(kind) as caught:
                    await ask(panel)
                said.append(str(caught.value))
    assert not any(TOKEN in each for each in said)
    assert all("[secret]" in each for each in said)


async def test_a_reply_cut_short() -> None:
    answer = score(0.5)
    answer.raw_output_contents[0] = b"\x00\x00"
    async with panel_of(ScriptedTriton(answer)) as panel:
        with pytest.raises(BadReply, match="2 bytes"):
            await ask(panel)


async def test_no_text_is_a_reply() -> None:
    empty = reply(
        TEXT="", BOXES=np.zeros((1, 0, 4, 2), np.float32), CONFIDENCE=np.zeros((1, 0), np.float32)
    )
    async with panel_of(ScriptedTriton(empty)) as panel:
        got = await ask(panel, "ocr.ppocr")
    assert got["TEXT"] == b""
    assert got["BOXES"].shape == (0, 4, 2)


async def test_one_deadline_for_all_attempts() -> None:
    server = ScriptedTriton(30.0)
    async with panel_of(server, deadline=0.4, attempts=5) as panel:
        with pytest.raises(DeadlineExceeded):
            await ask(panel)
        await asyncio.sleep(0.1)
    assert server.cancelled == 1


async def test_the_deadline_shrinks_from_attempt_to_attempt() -> None:
    server = ScriptedTriton(GONE, GONE, score(0.5))
    async with panel_of(server, deadline=5.0, retry_wait=0.3) as panel:
        await ask(panel)
    first, second, third = (left for left in server.deadlines if left is not None)
    # gRPC rounds deadlines up on the wire, by far less than a wait.
    assert 5.1 > first > second + 0.2 > third + 0.4


async def test_cancelling_reaches_the_server() -> None:
    server = ScriptedTriton(30.0)
    async with panel_of(server) as panel:
        task = asyncio.create_task(ask(panel))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
    assert server.cancelled == 1


async def test_too_large_a_request_is_refused_before_it_is_sent() -> None:
    server = ScriptedTriton()
    async with panel_of(server) as panel:
        with pytest.raises(Rejection, match="the limit is"):
            await ask(panel, image=bytes(MAX_REQUEST_BYTES + 1))
    assert server.requests == []


async def test_no_more_calls_in_flight_than_the_limit() -> None:
    server = ScriptedTriton(score(0.5))
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(server.requests) - len(done))
            await asyncio.sleep(0.005)

    done: list[Any] = []

    async def one() -> None:
        done.append(await ask(panel))

    slow = ScriptedTriton.ModelInfer

    async def slowly(self: ScriptedTriton, request: Any, context: Any) -> Any:
        answer = await slow(self, request, context)
        await asyncio.sleep(0.03)
        return answer

    server.ModelInfer = slowly.__get__(server)  # type: ignore[method-assign]
    async with panel_of(server, concurrency=3) as panel:
        watcher = asyncio.create_task(watch())
        await asyncio.gather(*(one() for _ in range(12)))
        watcher.cancel()
    assert most == 3


async def test_a_server_that_is_not_there() -> None:
    settings = Settings(endpoints={"gone": Endpoint(url="grpc://127.0.0.1:9")}, probe_timeout=2)
    async with Panel(settings) as panel:
        assert list(panel.problems) == ["grpc://127.0.0.1:9"]
        with pytest.raises(NoModel, match="127.0.0.1:9"):
            await ask(panel)


async def test_an_endpoint_is_asked_only_for_the_services_it_is_given() -> None:
    server = ScriptedTriton()
    async with server.serving() as url:
        settings = Settings(endpoints={"a": Endpoint(url=url, services=("ocr.ppocr",))})
        async with Panel(settings) as panel:
            assert set(panel.specialists) == {"ocr.ppocr"}
            with pytest.raises(NoModel, match="not among the models ready"):
                await ask(panel)


async def test_an_unknown_service_in_the_settings() -> None:
    settings = Settings(endpoints={"a": Endpoint(url="grpc://x:1", services=("magic.ocr",))})
    with pytest.raises(ConfigError, match=r"no service is named magic\.ocr"):
        async with Panel(settings):
            pass


async def test_headers_travel_with_every_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "s3cret")
    (tmp_path / "team").write_text("vision\n")
    server = ScriptedTriton()
    headers: dict[str, str | Secret] = {
        "Authorization": Secret(env="JUDGE_TOKEN"),
        "x-team": Secret(file=tmp_path / "team"),
        "x-run": "7",
    }
    async with server.serving() as url:
        endpoint = Endpoint(url=url, headers=headers)
        assert "s3cret" not in repr(endpoint)
        async with Panel(Settings(endpoints={"a": endpoint})) as panel:
            await ask(panel)
    for seen in server.metadata:
        assert seen["authorization"] == "s3cret"
        assert (seen["x-team"], seen["x-run"]) == ("vision", "7")


async def test_a_run_goes_on_when_one_service_fails(photo: np.ndarray) -> None:
    server = ScriptedTriton(Failure(StatusCode.INTERNAL, "out of memory"))
    async with server.serving() as url:
        settings = Settings(endpoints={"a": Endpoint(url=url)})
        async with Client(settings) as client:
            edit = Edit.load(source=photo, edited=photo, instruction="x", target_text="SALE")
            judged = await client.score(edit)
    assert isinstance(judged.outcomes["core.psnr.source.whole"], Score)
    for name in ("core.quality.piqe", "core.text_content_accuracy"):
        outcome = judged.outcomes[name]
        assert isinstance(outcome, FailureOutcome)
        assert "out of memory" in outcome.error


async def test_abstentions_become_unscored(photo: np.ndarray) -> None:
    flat = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: no active block")
    async with ScriptedTriton(flat).serving() as url:
        async with Client(Settings(endpoints={"a": Endpoint(url=url)})) as client:
            edit = Edit.load(source=photo, edited=photo, instruction="x")
            judged = await client.score(edit, ["core.quality.piqe"])
    expected = NoScore(kind="degenerate", reason="no active block")
    assert judged.outcomes == {"core.quality.piqe": expected}


async def test_nothing_is_said_of_services_before_anybody_was_asked(photo: np.ndarray) -> None:
    async with ScriptedTriton().serving() as url:
        settings = Settings(endpoints={"a": Endpoint(url=url)})
        edit = Edit.load(source=photo, edited=photo, instruction="x")
        with pytest.raises(RuntimeError, match="async with Client"):
            await Client(settings).score(edit, ["core.quality.piqe"])
        panel = Panel(settings)
        for ask_first in (lambda: panel.service_names, lambda: panel.why_not(PIQE)):
            with pytest.raises(RuntimeError, match="async with Panel"):
                ask_first()
        with pytest.raises(RuntimeError, match="async with Panel"):
            await ask(panel)


async def test_a_server_without_the_model(photo: np.ndarray) -> None:
    async with ScriptedTriton(models=()).serving() as url:
        async with Client(Settings(endpoints={"a": Endpoint(url=url)})) as client:
            edit = Edit.load(source=photo, edited=photo, instruction="x")
            judged = await client.score(edit, ["core.quality.piqe"])
    outcome = judged.outcomes["core.quality.piqe"]
    assert isinstance(outcome, NotServed)
    assert "not among the models ready" in outcome.reason
