"""The Judge service by its proto alone, as a caller without our client meets it."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from PIL import Image

from editjudge.app.client import Client
from editjudge.base.config import Settings
from editjudge.base.item import Edit
from editjudge.base.verdict import Failure
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.admission import SharedLimit
from editjudge_services.gateway.errors import NoCapacity
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.schemas import InvalidRequest
from editjudge_services.gateway.server import SERVICE, serve_grpc
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer

from ..fakes.openai import ScriptedOpenAi
from ..patience import patience, until


def png(seed: int = 0, size: int = 32) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def asking(*dimensions: str, request_id: str = "", **fields: Any) -> pb.ScoreRequest:
    edit = {
        "id": "one",
        "instruction": "make it red",
        "sources": [pb.Picture(data=png(0), name="before.png")],
        "edited": pb.Picture(data=png(1), name="after.png"),
        **fields,
    }
    return pb.ScoreRequest(
        request_id=request_id, edit=pb.Edit(**edit), dimensions=dimensions or ["core.psnr.*"]
    )


def teams_of(service: JudgeService) -> set[str]:
    """Those that have used anything."""
    return set(re.findall(r'editjudge_edits_total{team="(.*?)"}', service.metrics.text().decode()))


class Served:
    """A service that runs, and a stub for it."""

    def __init__(self, service: JudgeService, address: str, channel: Any) -> None:
        self.service = service
        self.address = address
        self.channel = channel
        self.stub = judge_pb2_grpc.JudgeServiceStub(channel)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with JudgeService(Settings()) as service:
        async with serve_grpc(service, "127.0.0.1:0", drain=5) as address:
            async with grpc.aio.insecure_channel(address) as channel:
                yield Served(service, address, channel)


async def test_a_score_is_the_one_that_our_client_gives(served: Served) -> None:
    response = await served.stub.Score(asking("core.*", request_id="r1"))
    edit = Edit.load(source=png(0), edited=png(1), instruction="make it red", item_id="one")
    async with Client(Settings()) as client:
        direct = await client.score(edit, ["core.*"])
    assert (response.request_id, response.edit_id) == ("r1", "one")
    assert [o.dimension for o in response.outcomes] == list(direct.outcomes)
    for outcome in response.outcomes:
        ours = direct.outcomes[outcome.dimension]
        assert pb.Status.Name(outcome.status) == f"STATUS_{ours.status.upper()}"
        assert outcome.HasField("value") == (ours.status == "scored")
        assert outcome.signature == str(direct.signatures[outcome.dimension])
        if ours.status == "scored":
            assert outcome.value == ours.value
        else:
            assert outcome.reason == ours.reason


BROKEN = [
    ({"sources": []}, "edit.sources"),
    ({"sources": [pb.Picture(data=png())] * 17}, "edit.sources"),
    ({"sources": [pb.Picture(data=b"rubbish")]}, "edit.sources[0]"),
    ({"edited": None}, "edit.edited"),
    ({"edited": pb.Picture(data=png()[:90])}, "edit.edited"),
    ({"mask": pb.Picture(data=png(size=17))}, "edit.mask"),
    ({"target": pb.Picture(data=b"")}, "edit.target.data"),
    ({"instruction": "a\x00b"}, "edit.instruction"),
    ({"instruction": "a" * 20_000}, "edit.instruction"),
]


@pytest.mark.parametrize(("fields", "field"), BROKEN, ids=[field for _, field in BROKEN])
async def test_what_cannot_be_judged_is_refused_with_its_field(
    served: Served, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Score(asking(**fields))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    (detail,) = rpc_status.from_call(caught.value).details
    bad = error_details_pb2.BadRequest()
    assert detail.Unpack(bad)
    assert bad.field_violations[0].field == field
    assert field in caught.value.details()


async def test_a_dimension_that_is_not_there_is_refused(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Score(asking("core.pnsr.source.whole"))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "core.psnr.source.whole" in caught.value.details()  # the one that is meant


async def test_a_stream_refuses_one_and_judges_the_others(served: Served) -> None:
    async def requests() -> AsyncIterator[pb.ScoreStreamRequest]:
        for i in range(40):
            fields = {"edited": pb.Picture(data=b"no")} if i == 7 else {}
            yield pb.ScoreStreamRequest(request=asking(request_id=str(i), **fields))

    answers = [answer async for answer in served.stub.ScoreStream(requests())]
    refused = [a.refusal for a in answers if a.WhichOneof("result") == "refusal"]
    judged = {a.response.request_id for a in answers if a.WhichOneof("result") == "response"}
    assert [(r.request_id, r.field) for r in refused] == [("7", "edit.edited")]
    assert judged == {str(i) for i in range(40)} - {"7"}


async def test_a_stream_answers_before_the_next_is_asked(served: Served) -> None:
    call = served.stub.ScoreStream()
    for i in range(3):
        await call.write(pb.ScoreStreamRequest(request=asking(request_id=str(i))))
        answer = await call.read()
        assert answer.response.request_id == str(i)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_dimensions_and_panel_say_what_is_here(served: Served) -> None:
    listed = (await served.stub.ListDimensions(pb.ListDimensionsRequest())).dimensions
    known = {d.id: d for d in listed}
    assert known["core.psnr.source.whole"].served
    assert not known["core.quality.piqe"].served
    assert list(known["core.quality.piqe"].services) == ["quality.piqe"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.ListDimensions(pb.ListDimensionsRequest(patterns=["x.*"]))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    panel = await served.stub.GetPanel(pb.GetPanelRequest())
    assert not panel.services
    assert panel.version


async def test_health_and_reflection_are_the_standard_ones(served: Served) -> None:
    checks = health_pb2_grpc.HealthStub(served.channel)
    for name in ("", SERVICE):
        reply = await checks.Check(health_pb2.HealthCheckRequest(service=name))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    stub = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    async for reply in stub.ServerReflectionInfo(iter([asked])):
        names = {each.name for each in reply.list_services_response.service}
        assert SERVICE in names


async def test_over_the_room_of_one_the_others_are_judged() -> None:
    scripted = ScriptedOpenAi(30.0)
    async with scripted.serving() as url:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        async with JudgeService(settings, ServiceOptions(edits=4, edits_of_one=2)) as service:
            async with serve_grpc(service, "127.0.0.1:0", drain=0.1) as address:
                async with grpc.aio.insecure_channel(address) as channel:
                    stub = judge_pb2_grpc.JudgeServiceStub(channel)
                    slow = asking("core.instruction_following")
                    calls = [stub.Score(slow, metadata=[("x-team", "busy")]) for _ in range(2)]
                    waiting = [asyncio.ensure_future(_outcome(call)) for call in calls]
                    await until(lambda: service.in_flight.get("busy") == 2)
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await stub.Score(asking(), metadata=[("x-team", "busy")])
                    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                    assert await stub.Score(asking(), metadata=[("x-team", "other")])
                    for call in calls:
                        call.cancel()
                    await asyncio.gather(*waiting)
                    await until(lambda: not service.in_flight)


async def _outcome(call: Any) -> Any:
    try:
        return await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
        return error


async def test_a_caller_s_deadline_ends_the_calls_that_it_made() -> None:
    scripted = ScriptedOpenAi(60.0)
    async with scripted.serving() as url:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        async with JudgeService(settings) as service:
            async with serve_grpc(service, "127.0.0.1:0", drain=0.1) as address:
                async with grpc.aio.insecure_channel(address) as channel:
                    stub = judge_pb2_grpc.JudgeServiceStub(channel)
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await stub.Score(asking("core.instruction_following"), timeout=2)
                    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                    await until(lambda: not service.in_flight and scripted.cancelled)


async def test_what_is_in_flight_is_finished_when_it_ends() -> None:
    scripted = ScriptedOpenAi(1.0, None)
    async with scripted.serving() as url:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        async with JudgeService(settings) as service:
            async with serve_grpc(service, "127.0.0.1:0", drain=60) as address:
                channel = grpc.aio.insecure_channel(address)
                stub = judge_pb2_grpc.JudgeServiceStub(channel)
                call = asyncio.ensure_future(
                    _outcome(stub.Score(asking("core.instruction_following")))
                )
                await until(lambda: scripted.requests)
            response = await call
            assert response.outcomes[0].status in {pb.STATUS_SCORED, pb.STATUS_UNSCORED}
            await channel.close()


async def test_it_says_that_it_ends_and_still_answers_for_a_while() -> None:
    async with JudgeService(Settings()) as service:
        async with serve_grpc(service, "127.0.0.1:0", notice=3) as address:
            channel = grpc.aio.insecure_channel(address)
            checks = health_pb2_grpc.HealthStub(channel)
            watched = checks.Watch(health_pb2.HealthCheckRequest(service=""))
            assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVING

            async def asked() -> Any:
                assert (await watched.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
                return await judge_pb2_grpc.JudgeServiceStub(channel).Score(asking())

            answer = asyncio.ensure_future(asked())
        assert (await answer).outcomes
        await channel.close()


async def test_a_defect_in_one_edit_costs_that_one(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = served.service.client.judge

    async def trips(edit: Any, *asked: Any, **more: Any) -> Any:
        if edit.item.id == "bad":
            raise LookupError("half \ud83d")
        return await judge(edit, *asked, **more)

    monkeypatch.setattr(served.service.client, "judge", trips)

    async def requests() -> AsyncIterator[pb.ScoreStreamRequest]:
        for name in ("a", "bad", "c"):
            yield pb.ScoreStreamRequest(request=asking(request_id=name, id=name))

    answers = [answer async for answer in served.stub.ScoreStream(requests())]
    (refusal,) = [a.refusal for a in answers if a.WhichOneof("result") == "refusal"]
    assert (refusal.request_id, refusal.code) == ("bad", 13)
    assert "LookupError" in refusal.message
    assert len(answers) == 3
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Score(asking(id="bad"))
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "LookupError" in capsys.readouterr().err


async def test_half_a_character_in_a_reason_ends_no_stream(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = served.service.client.judge

    async def failing(*asked: Any, **more: Any) -> Any:
        judged = await judge(*asked, **more)
        failed = {name: Failure(error="cut \ud83d") for name in judged.outcomes}
        return replace(judged, outcomes=failed)

    monkeypatch.setattr(served.service.client, "judge", failing)
    response = await served.stub.Score(asking())
    assert response.outcomes[0].reason == "cut \ufffd"


async def test_services_are_looked_for_again_whatever_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def rebind() -> None:
        asked.append(len(asked))
        raise OSError("too many open files")

    async with JudgeService(Settings(), discovery_seconds=0.01) as service:
        monkeypatch.setattr(service.client.panel, "rebind", rebind)
        await until(lambda: len(asked) > 2)
    assert (
        "services could not be discovered: OSError: too many open files" in capsys.readouterr().err
    )


async def test_edits_of_a_stream_wait_for_places() -> None:
    async with JudgeService(Settings(), ServiceOptions(edits=3, edits_of_one=2)) as service:
        async with serve_grpc(service, "127.0.0.1:0", drain=1) as address:
            async with grpc.aio.insecure_channel(address) as channel:
                stub = judge_pb2_grpc.JudgeServiceStub(channel)

                async def requests() -> AsyncIterator[pb.ScoreStreamRequest]:
                    for i in range(12):
                        yield pb.ScoreStreamRequest(request=asking(request_id=str(i)))

                answers = [a.WhichOneof("result") async for a in stub.ScoreStream(requests())]
    assert answers == ["response"] * 12
    assert not service.in_flight


async def test_pictures_are_decoded_only_where_there_is_room() -> None:
    async with JudgeService(Settings(), ServiceOptions(megapixels=4 * 32 * 32 / 2**20)) as service:
        async with serve_grpc(service, "127.0.0.1:0", drain=1) as address:
            async with grpc.aio.insecure_channel(address) as channel:
                stub = judge_pb2_grpc.JudgeServiceStub(channel)
                assert await stub.Score(asking())
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.Score(asking(edited=pb.Picture(data=png(1, 64))))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "pixels" in caught.value.details()


@pytest.mark.parametrize("waits", [True, False])
async def test_what_is_shared_is_waited_for_or_refused(waits: bool) -> None:
    shared = SharedLimit(3, 2, "edits")
    had = []

    async def take() -> None:
        async with shared.acquire("b", 2, may_wait=waits):
            had.append("b")

    async with shared.acquire("a", 2, may_wait=False):
        if not waits:
            with pytest.raises(NoCapacity, match="3 edits are in use now"):
                await take()
            with pytest.raises(NoCapacity, match="2 edits of yours"):
                async with shared.acquire("a", 1, may_wait=False):
                    pass
            return
        waiting = asyncio.create_task(take())
        await asyncio.sleep(0)
        assert not had
    await waiting
    assert had == ["b"]
    assert not shared.in_use


@pytest.mark.parametrize("waits", [True, False])
async def test_what_there_is_never_room_for_is_refused_at_once(waits: bool) -> None:
    """Though nobody else is there, and though it would fit without the limit of one caller."""
    shared = SharedLimit(3, 2, "edits", "edits")
    for amount in (3, 4):
        with pytest.raises(InvalidRequest, match=f"{amount} edits") as caught:
            async with asyncio.timeout(patience(10)), shared.acquire("a", amount, may_wait=waits):
                pass
        assert "send at most 2 at a time" in str(caught.value)
        assert not shared.in_use


async def test_more_ids_than_anybody_means_are_refused_at_once(served: Served) -> None:
    assert await served.stub.Score(asking(*["core.psnr.*"] * 100_000))
    many = [f"core.x{i}" for i in range(1000)]
    calls = (
        served.stub.Score(asking(*many)),
        served.stub.Score(asking("*" * 1000)),
        served.stub.ListDimensions(pb.ListDimensionsRequest(patterns=many)),
    )
    for call in calls:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_deadline_that_is_over_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        def invocation_metadata(self) -> tuple[()]:
            return ()

        def time_remaining(self) -> float:
            return 0.01

        def set_trailing_metadata(self, _: Any) -> None:
            pass

        async def abort(self, code: grpc.StatusCode, details: str) -> None:
            raise AssertionError(code.name, details)

    async def slow(*_: Any, **__: Any) -> None:
        await asyncio.sleep(60)

    async with JudgeService(Settings()) as service:
        monkeypatch.setattr(service, "score", slow)
        with pytest.raises(AssertionError, match="DEADLINE_EXCEEDED"):
            await JudgeServicer(service).Score(asking(), Context())


UNKNOWN = [
    ({"benchmark": "kriss"}, "protocol.benchmark"),
    ({"benchmark": "kris", "name": "papers"}, "protocol.name"),
    ({"benchmark": "kris", "on": ["first_digits"]}, "protocol.on"),
    ({"benchmark": "kris", "off": ["x"]}, "protocol.off"),
    ({"judges": ["a b"]}, "protocol.judges[0]"),
    ({"judges": ["a"] * 17}, "protocol.judges"),
    ({"rounds": -1}, "protocol.rounds"),
    ({"judges": ["a", "b"], "rounds": 501}, "protocol.rounds"),
    ({"benchmark": "i2i", "rounds": 1000}, "protocol.rounds"),
    ({"prompts": {"core/nothing.toml": 'user = "x"'}}, "protocol.prompts"),
    ({"prompts": {"core/instruction_following.toml": "x" * 1_100_000}}, "protocol.prompts"),
]


@pytest.mark.parametrize(("protocol", "field"), UNKNOWN)
async def test_rules_that_are_not_there_are_refused_by_their_field(
    served: Served, protocol: dict[str, Any], field: str
) -> None:
    request = asking("*")
    request.protocol.CopyFrom(pb.Protocol(**protocol))
    about = pb.GetPanelRequest(protocol=request.protocol)
    for call in (served.stub.Score(request), served.stub.GetPanel(about)):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        (detail,) = rpc_status.from_call(caught.value).details
        bad = error_details_pb2.BadRequest()
        assert detail.Unpack(bad)
        assert bad.field_violations[0].field == field


NO_ITEM = [
    ({"questions_json": "{}"}, "edit.questions"),
    ({"questions_json": "[1]"}, "edit.questions[0]"),
    ({"questions_json": "[" * 100_000}, "edit.questions_json"),
    ({"extra_json": "[]"}, "edit.extra"),
    ({"extra_json": "{"}, "edit.extra_json"),
    ({"hint": "a\x00b"}, "edit.hint"),
    ({"task": "a" * 20_000}, "edit.task"),
    ({"flaws": [pb.Flaw(field="x", status=pb.STATUS_FAILED)]}, "edit.flaws[0].field"),
    ({"flaws": [pb.Flaw(field="mask", status=pb.STATUS_SCORED)]}, "edit.flaws[0].status"),
    ({"flaws": [pb.Flaw(field="mask", status=pb.STATUS_UNSCORED, kind="x")]}, "edit.flaws[0].kind"),
    ({"missing": pb.Missing(kind="absent")}, "edit.missing"),
    ({"edited": None, "missing": pb.Missing(kind="x")}, "edit.missing.kind"),
]


@pytest.mark.parametrize(("fields", "field"), NO_ITEM)
async def test_what_is_no_item_is_refused_by_its_field(
    served: Served, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Score(asking(**fields))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert str(caught.value.details()).startswith(f"{field}: ")


async def test_the_signatures_of_a_protocol_are_told_and_are_those_of_its_values(
    served: Served,
) -> None:
    protocol = pb.Protocol(benchmark="gie", judges=["judge", "second"], rounds=2)
    panel = await served.stub.GetPanel(pb.GetPanelRequest(protocol=protocol))
    rounds = {f"@{judge}.{n}" for judge in protocol.judges for n in (1, 2)}
    assert {name[name.index("@") :] for name in panel.signatures if "@" in name} == rounds
    request = asking(*panel.signatures)
    request.protocol.CopyFrom(protocol)
    judged = await served.stub.Score(request)
    assert {o.dimension: o.signature for o in judged.outcomes} == dict(panel.signatures)


async def test_a_label_of_a_caller_s_template_is_no_program(served: Served) -> None:
    text = 'user = "{sources}{edited}{instruction}"\n[labels]\nsource = "{n:>999999999}"'
    request = asking("core.instruction_following")
    request.protocol.prompts["core/instruction_following.toml"] = text
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.Score(request)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert str(caught.value.details()).startswith("protocol.prompts: ")
