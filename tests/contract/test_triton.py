"""Our Triton transport against a server that misbehaves in every way we know of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode

from editjudge.app.client import Client
from editjudge.base import errors
from editjudge.base.config import Endpoint, Secret, Settings
from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit
from editjudge.base.verdict import Failure as FailureOutcome
from editjudge.base.verdict import NoScore, NotServed, Score
from editjudge.panel import Panel
from editjudge.panel.grpc_channel import MAX_REPLY_BYTES
from editjudge.panel.triton import MAX_REQUEST_BYTES, MAX_ROWS, MAX_TEXT_BYTES

from ..fakes.grpc_server import Failure
from ..fakes.triton import ScriptedTriton, reply, score
from .panels import ask, panel_of

TOKEN = "tk-5ecretToken"
PIQE, READER = "quality.piqe", "ocr.ppocr"


def make_refusal(detail: str) -> Failure:
    return Failure(StatusCode.INVALID_ARGUMENT, detail)


async def read_with(panel: Panel) -> Any:
    return await panel.call(READER, {"IMAGE": b"image"})


class PlacedTriton(ScriptedTriton):
    """Says where a model must run, which is not what it is."""

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = await super().ModelConfig(request, context)
        response.config.parameters["device"].string_value = "gpu"
        return response


@pytest.mark.parametrize("kind", [ScriptedTriton, PlacedTriton])
async def test_a_good_reply(kind: type[ScriptedTriton]) -> None:
    async with panel_of(server := kind(score(0.25))) as panel:
        assert await ask(panel) == 0.25
        told = str(panel.specialists[PIQE].identity)
    assert told == "quality_piqe/1(implementation=scripted.1)"
    (request,) = server.requests
    assert request.inputs[0].name == "IMAGE"
    assert request.raw_input_contents[0] == b"\x05\x00\x00\x00image"


def read(text: str | bytes, boxes: int = 0, confidences: int = 0) -> Any:
    places = np.zeros((1, boxes, 4, 2), np.float32)
    return reply(TEXT=text, BOXES=places, CONFIDENCE=np.zeros((1, confidences), np.float32))


def zeros(*shape: int, kind: Any = np.float32) -> Any:
    return reply(SCORE=np.zeros(shape, kind))


def twice(first: Any, second: Any) -> Any:
    first.MergeFrom(second)
    return first


def of(model: str, version: str = "1") -> Any:
    answer = score(0.5)
    answer.model_name, answer.model_version = model, version
    return answer


def cut() -> Any:
    answer = score(0.5)
    answer.raw_output_contents[0] = b"\x00\x00"
    return answer


UNEQUAL = "these tensors must be of equal length: 2 of BOXES, 1 of CONFIDENCE"
BAD_REPLIES: dict[str, tuple[str, Any, str]] = {
    "missing output": (PIQE, reply(OTHER=np.zeros((1, 1), np.float32)), "lacks SCORE"),
    "wrong type": (PIQE, zeros(1, 1, kind=np.float64), "FP64"),
    "wrong rank": (PIQE, zeros(1), r"FP32\[1\]"),
    "wrong shape": (PIQE, zeros(1, 2), r"FP32\[1, 2\]"),
    "two in a batch": (PIQE, zeros(2, 1), r"\[2, 1\]"),
    "cut short": (PIQE, cut(), "2 bytes"),
    "NaN": (PIQE, score(float("nan")), "NaN"),
    "infinity": (PIQE, score(float("inf")), "infinity"),
    "above its range": (PIQE, score(1.5), r"outside 0\.\.1"),
    "below its range": (PIQE, score(-0.1), r"outside 0\.\.1"),
    "text for a number": (PIQE, reply(SCORE="0.5"), "BYTES"),
    "number for text": (READER, reply(TEXT=np.zeros((1, 1), np.float32)), "TEXT is FP32"),
    "no UTF-8": (READER, read(b"SALE \xff\xfe"), "TEXT is no UTF-8: invalid start byte"),
    "endless text": (READER, read("x" * (MAX_TEXT_BYTES + 1)), "1,048,577 bytes; at most"),
    "endless boxes": (READER, read("x", MAX_ROWS + 1, MAX_ROWS + 1), "65,537 long; at most"),
    "larger than any reply": (READER, read("x" * (MAX_REPLY_BYTES + 1)), "larger than max"),
    "more boxes than confidences": (READER, read("x", 2, 1), UNEQUAL),
    "two tensors of one name": (PIQE, twice(score(0.1), score(0.9)), "two tensors"),
    "another model's": (PIQE, of("quality_other"), "'quality_other'"),
    "another version's": (PIQE, of("quality_piqe", "2"), "version '2'"),
    "an abstention without a kind": (PIQE, make_refusal("abstained/: no"), "not as abstained, unpars"),
    "an unknown abstention": (PIQE, make_refusal("abstained/bored: no"), "not as abstained, unparsable"),
    "a long one": (PIQE, make_refusal(f"abstained/{'x' * 5000}: no"), "not as abstained, unparsable"),
}


@pytest.mark.parametrize("case", BAD_REPLIES)
async def test_replies_that_break_the_contract(case: str) -> None:
    service, answer, text = BAD_REPLIES[case]
    async with panel_of(server := ScriptedTriton(answer)) as panel:
        with pytest.raises(errors.BadReply, match=text) as caught:
            await panel.call(service, {"IMAGE": b"image"})
    assert len(str(caught.value)) < 300
    assert len(server.requests) == 1


@pytest.mark.parametrize(("said", "length"), [("nothing to see: flat", 20), ("flat\n" * 900, 300)])
async def test_an_abstention_is_typed_and_one_short_line(said: str, length: int) -> None:
    async with panel_of(ScriptedTriton(make_refusal(f"abstained/degenerate: {said}"))) as panel:
        with pytest.raises(errors.Abstention) as caught:
            await ask(panel)
    told = caught.value.reason
    assert (caught.value.kind, len(told), "\n" in told) == ("degenerate", length, False)
    assert told.startswith(said.partition("\n")[0])


async def test_no_text_is_a_reply() -> None:
    async with panel_of(ScriptedTriton(read(""))) as panel:
        got = await read_with(panel)
    assert (got["TEXT"], got["BOXES"].shape) == (b"", (0, 4, 2))


async def test_a_version_that_comes_later_does_not_answer_for_the_one_that_was_identified() -> None:
    async with panel_of(server := ScriptedTriton(versions=("1", "10", "9"))) as panel:
        await ask(panel)
    assert server.requests[0].model_version == "10"


@pytest.mark.parametrize(
    ("size", "text"),
    [(4 * 1024 * 1024, "larger than max"), (MAX_REQUEST_BYTES + 1, "the limit is")],
    ids=["for the server", "for us"],
)
async def test_too_large_a_request_is_refused_and_no_full_queue(size: int, text: str) -> None:
    async with panel_of(server := ScriptedTriton()) as panel:
        with pytest.raises(errors.Rejection, match=text):
            await ask(panel, bytes(size))
    assert server.requests == []


async def test_secrets_are_blotted_out_of_all_that_a_server_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", f"Bearer {TOKEN}")
    script = (
        read(f"SALE {TOKEN}"),
        Failure(StatusCode.INTERNAL, f"no rights for {TOKEN}"),
        make_refusal(f"abstained/refused: {TOKEN} may not"),
    )
    server = ScriptedTriton(*script, implementation=f"of-{TOKEN}")
    async with panel_of(server, headers={"authorization": Secret(env="JUDGE_TOKEN")}) as panel:
        said = [str(panel.identities()), str(await read_with(panel))]
        for kind in (errors.ServiceError, errors.Abstention):
            with pytest.raises(kind) as caught:
                await ask(panel)
            said.append(str(caught.value))
    assert not any(TOKEN in each for each in said)
    assert all("[secret]" in each for each in said)


async def test_headers_travel_with_every_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUDGE_TOKEN", "s3cret")
    (tmp_path / "team").write_text("vision\n")
    headers: dict[str, str | Secret] = {
        "Authorization": Secret(env="JUDGE_TOKEN"),
        "x-team": Secret(file=tmp_path / "team"),
        "x-run": "7",
    }
    assert "s3cret" not in repr(Endpoint(url="grpc://a:1", headers=headers))
    async with panel_of(server := ScriptedTriton(), headers=headers) as panel:
        await ask(panel)
    sent = {"authorization": "s3cret", "x-team": "vision", "x-run": "7"}
    assert len(server.metadata) > 1
    assert all(sent.items() <= seen.items() for seen in server.metadata)


async def test_the_deadline_shrinks_from_attempt_to_attempt() -> None:
    gone = Failure(StatusCode.UNAVAILABLE, "Socket closed")
    server = ScriptedTriton(gone, gone, None)
    async with panel_of(server, deadline=5.0, retry_wait=0.3) as panel:
        await ask(panel)
    first, second, third = (left for left in server.deadlines if left is not None)
    # gRPC rounds deadlines up on the wire, by far less than a wait.
    assert 5.1 > first > second + 0.2 > third + 0.4


class Slow(ScriptedTriton):
    """Says how many calls it had at once, at most."""

    inside = most = 0

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0.03)
        self.inside -= 1
        return await super().ModelInfer(request, context)


async def test_no_more_calls_in_flight_than_the_limit() -> None:
    async with panel_of(server := Slow(), concurrency=3) as panel:
        await asyncio.gather(*(ask(panel) for _ in range(12)))
    assert server.most == 3


# What is bound


async def test_a_server_that_is_not_there_costs_its_services() -> None:
    settings = Settings(endpoints={"gone": Endpoint(url="grpc://127.0.0.1:9")}, probe_timeout=2)
    async with Panel(settings) as panel:
        assert list(panel.problems) == ["grpc://127.0.0.1:9"]
        with pytest.raises(errors.NoModel, match="127.0.0.1:9"):
            await ask(panel)


async def test_an_endpoint_is_asked_only_for_the_services_it_is_given() -> None:
    async with panel_of(ScriptedTriton(), services=(READER,)) as panel:
        assert set(panel.specialists) == {READER}
        with pytest.raises(errors.NoModel, match="not among the models ready"):
            await ask(panel)


class Strange(ScriptedTriton):
    """Knows no model by its name."""

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        await context.abort(StatusCode.NOT_FOUND, "Request for unknown model")


async def test_a_server_that_does_not_know_a_model_has_it_not_ready() -> None:
    async with panel_of(Strange()) as panel:
        assert (panel.service_names, panel.problems) == (set(), {})


async def test_an_unknown_service_in_the_settings() -> None:
    settings = Settings(endpoints={"a": Endpoint(url="grpc://x:1", services=("magic.ocr",))})
    with pytest.raises(errors.ConfigError, match=r"no service is named magic\.ocr"):
        async with Panel(settings):
            pass


async def test_nothing_is_said_of_services_before_anybody_was_asked(photo: np.ndarray) -> None:
    settings = Settings(endpoints={"a": Endpoint(url="grpc://127.0.0.1:9")})
    edit = Edit.load(source=photo, edited=photo, instruction="x")
    with pytest.raises(RuntimeError, match="async with Client"):
        await Client(settings).score(edit, ["core.quality.piqe"])
    panel = Panel(settings)
    for ask_first in (lambda: panel.service_names, lambda: panel.why_not(ServiceName.parse(PIQE))):
        with pytest.raises(RuntimeError, match="async with Panel"):
            ask_first()
    with pytest.raises(RuntimeError, match="async with Panel"):
        await ask(panel)


# What becomes of an edit


async def score_unchanged(server: ScriptedTriton, photo: np.ndarray, *names: str) -> dict[str, Any]:
    """The outcomes of an edit that changes nothing."""
    edit = Edit.load(source=photo, edited=photo, instruction="x", target_text="SALE")
    async with server.serving() as url:
        async with Client(Settings(endpoints={"a": Endpoint(url=url)})) as client:
            return dict((await client.score(edit, names or ("*",))).outcomes)


async def test_a_run_goes_on_when_one_service_fails(photo: np.ndarray) -> None:
    server = ScriptedTriton(Failure(StatusCode.INTERNAL, "out of memory"))
    outcomes = await score_unchanged(server, photo, "core.*")
    assert isinstance(outcomes["core.psnr.source.whole"], Score)
    for name in ("core.quality.piqe", "core.text_content_accuracy"):
        outcome = outcomes[name]
        assert isinstance(outcome, FailureOutcome)
        assert "out of memory" in outcome.error


async def test_abstentions_become_unscored_and_absent_models_are_not_served(photo: np.ndarray) -> None:
    flat = ScriptedTriton(make_refusal("abstained/degenerate: no active block"))
    outcomes = await score_unchanged(flat, photo, "core.quality.piqe")
    expected = NoScore(kind="degenerate", reason="no active block")
    assert outcomes == {"core.quality.piqe": expected}
    (outcome,) = (await score_unchanged(ScriptedTriton(models=()), photo, "core.quality.piqe")).values()
    assert isinstance(outcome, NotServed)
    assert "not among the models ready" in outcome.reason
