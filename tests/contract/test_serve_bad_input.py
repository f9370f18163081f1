"""What no caller should send: each has one code and one clear line, and costs itself alone."""

from __future__ import annotations

import asyncio
import io
import json
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from PIL import Image

from editjudge.base import images
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import accounting, http, server
from editjudge_services.gateway.bounds import MAX_PARTS, MAX_TEXT_BYTES
from editjudge_services.gateway.schemas import MAX_DIMENSIONS
from editjudge_services.gateway.server import SERVICE

from .. import encoded_pictures
from ..judge_service import (
    ASKED,
    JSON,
    RunningService,
    judge_settings,
    make_body,
    make_request,
    png,
    refusal,
    scripted_judge,
    serve,
)
from ..patience import until

Code = grpc.StatusCode
LARGEST = 200_000
GARBAGE = b"\xff\xfe not a message"


@pytest.fixture
async def service() -> AsyncIterator[RunningService]:
    async with serve() as service:
        yield service


@pytest.fixture
async def narrow(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningService]:
    """A service that takes messages of `LARGEST` bytes."""
    monkeypatch.setattr(server, "MAX_REQUEST_BYTES", LARGEST)
    monkeypatch.setattr(http, "MAX_REQUEST_BYTES", LARGEST)
    async with serve() as service:
        yield service


# What both protocols refuse by the field that is to be mended.

EDITS: list[tuple[str, dict[str, Any]]] = [
    ("edit.sources", {"sources": []}),
    ("edit.sources", {"sources": [png()] * 17}),
    ("edit.sources[0]", {"sources": [b"rubbish"]}),
    ("edit.edited", {"edited": None}),
    ("edit.edited", {"edited": png()[:90]}),
    ("edit.mask", {"mask": png(size=17)}),
    ("edit.target", {"target": b"rubbish"}),
    ("edit.instruction", {"instruction": "a\x00b"}),
    ("edit.instruction", {"instruction": "a" * 20_000}),
    ("edit.questions", {"questions": {}}),
    ("edit.questions[0]", {"questions": [1]}),
    ("edit.questions", {"questions": [{}] * 257}),
    ("edit.extra", {"extra": []}),
    ("edit.extra", {"extra": {"a": "x" * 300_000}}),
    ("edit.id", {"id": "x" * 20_000}),
    ("edit.target_text", {"target_text": "a" * 20_000}),
    ("edit.flaws", {"flaws": [{"field": "mask", "status": "failed"}] * 17}),
    ("edit.hint", {"hint": "a\x00b"}),
    ("edit.task", {"task": "a" * 20_000}),
    ("edit.flaws[0].field", {"flaws": [{"field": "x", "status": "failed"}]}),
    ("edit.flaws[0].status", {"flaws": [{"field": "mask", "status": "scored"}]}),
    ("edit.flaws[0].kind", {"flaws": [{"field": "mask", "status": "unscored", "kind": "x"}]}),
    ("edit.missing", {"missing": {"kind": "absent"}}),
    ("edit.missing.kind", {"edited": None, "missing": {"kind": "x"}}),
]
REPEATS = f'user = "{{sources}}{{edited}}{"{instruction}" * 4000}"'
PROTOCOLS: list[tuple[str, dict[str, Any]]] = [
    ("protocol.benchmark", {"benchmark": "kriss"}),
    ("protocol.name", {"benchmark": "kris", "name": "papers"}),
    ("protocol.on", {"benchmark": "kris", "on": ["first_digits"]}),
    ("protocol.off", {"benchmark": "kris", "off": ["x"]}),
    ("protocol.off", {"benchmark": "kris", "off": ["x"] * 65}),
    ("protocol.judges[0]", {"judges": ["a b"]}),
    ("protocol.judges", {"judges": ["a"] * 17}),
    ("protocol.rounds", {"rounds": -1}),
    ("protocol.rounds", {"judges": ["a", "b"], "rounds": 501}),
    ("protocol.rounds", {"benchmark": "i2i", "rounds": 1000}),
    ("protocol.prompts", {"prompts": {"core/nothing.toml": 'user = "x"'}}),
    ("protocol.prompts", {"prompts": {"core/instruction_following.toml": "x" * 1_100_000}}),
    ("protocol.prompts", {"prompts": {"core/instruction_following.toml": REPEATS}}),
    ("protocol.prompts", {"prompts": {f"core/{i}.toml": "" for i in range(513)}}),
]


async def refused_by_both(service: RunningService, field: str, *dimensions: str, **fields: Any) -> tuple[str, str]:
    """The words over gRPC and JSON of a request that is refused for a field."""
    far = await refusal(service.stub.Score(make_request(*dimensions, **fields)))
    assert (far.code, far.field) == (Code.INVALID_ARGUMENT, field)
    assert far.words.startswith(f"{field}: ")
    status, near = await service.post(make_body(*dimensions, **fields))
    error = near["error"]
    assert (status, error["code"], error["field"]) == (400, "INVALID_ARGUMENT", field)
    return far.words, f"{error['message']}; {error['fix']}"


@pytest.mark.parametrize(("field", "fields"), EDITS, ids=[field for field, _ in EDITS])
async def test_what_cannot_be_judged_is_refused_by_its_field(
    service: RunningService, field: str, fields: dict[str, Any]
) -> None:
    await refused_by_both(service, field, **fields)


@pytest.mark.parametrize(("field", "protocol"), PROTOCOLS, ids=[field for field, _ in PROTOCOLS])
async def test_rules_that_are_not_there_are_refused_by_their_field(
    service: RunningService, field: str, protocol: dict[str, Any]
) -> None:
    await refused_by_both(service, field, "*", protocol=protocol)
    about = pb.GetPanelRequest(protocol=pb.Protocol(**protocol))
    told = await refusal(service.stub.GetPanel(about))
    assert (told.code, told.field) == (Code.INVALID_ARGUMENT, field)


async def test_a_dimension_that_is_not_there_is_refused(service: RunningService) -> None:
    for words in await refused_by_both(service, "dimensions", "core.pnsr.source.whole"):
        assert "core.psnr.source.whole" in words, "the one that is meant"


async def test_more_ids_than_anybody_means_are_refused_at_once(service: RunningService) -> None:
    assert await service.stub.Score(make_request(*["core.psnr.*"] * MAX_DIMENSIONS))
    await refused_by_both(service, "dimensions", *["core.psnr.*"] * (MAX_DIMENSIONS + 1))
    many = [f"core.x{i}" for i in range(1000)]
    calls = (
        service.stub.Score(make_request(*many)),
        service.stub.Score(make_request("*" * 1000)),
        service.stub.ListDimensions(pb.ListDimensionsRequest(patterns=many)),
        service.stub.ListDimensions(pb.ListDimensionsRequest(patterns=["x.*"])),
    )
    told = [(await refusal(call)).code for call in calls]
    assert told == [Code.INVALID_ARGUMENT] * len(calls)


def nest(number: int, data: bytes) -> bytes:
    """A field of a message, as it is sent: of bytes."""
    size = len(data)
    length = b"" if size else b"\0"
    while size:
        size, low = size >> 7, size & 127
        length += bytes([low | 128 if size else low])
    return bytes([number << 3 | 2]) + length + data


MANY, LONG = f"more than {MAX_PARTS:,} parts", f"{MAX_TEXT_BYTES:,} are the most"
EMPTY = MAX_PARTS + 10
BOMBS: Mapping[str, tuple[bytes, str, str, str]] = {
    "sources": (nest(2, b"\x22\0" * EMPTY), "Score", "edit.sources", MANY),
    "sources of many edits": (nest(2, nest(4, b"")) * EMPTY, "Score", "edit", MANY),
    "flaws": (nest(2, b"\x6a\0" * EMPTY), "Score", "edit.flaws", MANY),
    "dimensions": (b"\x1a\0" * EMPTY, "Score", "dimensions", MANY),
    "judges": (nest(4, b"\x2a\0" * EMPTY), "Score", "protocol.judges", MANY),
    "templates": (nest(4, b"\x3a\0" * EMPTY), "Score", "protocol.prompts", MANY),
    "rounds": (nest(4, b"\x30\1" * EMPTY), "Score", "protocol.rounds", MANY),
    "unknown": (b"\xfa\x7f\0" * EMPTY, "Score", "request", MANY),
    "numbers in extra": (nest(2, nest(12, b'{"a":[' + b"1," * EMPTY)), "Score", "edit.extra_json", MANY),
    "text of extra": (nest(2, nest(12, b" " * 5_000_000)), "Score", "edit.extra_json", LONG),
    "unknown text": (nest(15, b" " * 5_000_000), "Score", "request", LONG),
    "a stream": (nest(1, nest(2, b"\x22\0" * EMPTY)), "ScoreStream", "edit.sources", MANY),
    "a panel": (nest(1, b"\x2a\0" * EMPTY), "GetPanel", "protocol.judges", MANY),
    "a list": (b"\x0a\0" * EMPTY, "ListDimensions", "patterns", MANY),
}


@pytest.mark.parametrize("case", BOMBS)
async def test_a_bomb_is_refused_before_it_is_parsed(service: RunningService, case: str) -> None:
    data, method, field, words = BOMBS[case]
    channel, path = service.channel, f"/{SERVICE}/{method}"
    if method == "ScoreStream":
        call = channel.stream_stream(path)()
        await call.write(data)
        told = await refusal(call.read())
    else:
        told = await refusal(channel.unary_unary(path)(data))
    assert (told.code, told.field) == (Code.INVALID_ARGUMENT, field)
    assert words in told.words


EXTRA = b'{"edit":{"instruction":"","extra":{"a":[%s]}}}'
BATCHED = b'{"requests":[%s]}'
JSON_BOMBS: Mapping[str, tuple[bytes, str]] = {
    "numbers": (EXTRA % (b"1," * EMPTY), MANY),
    "objects": (EXTRA % (b"{}," * EMPTY), MANY),
    "one key": (b'{"edit":{%s}}' % (b'"id":"",' * EMPTY), MANY),
    "escaped quotes": (EXTRA % (b'"%s"' % (b'\\"' * (8 * EMPTY))), MANY),
    "text": (EXTRA % (b'"%s"' % (b"x" * 5_000_000)), LONG),
    "text as a picture": (EXTRA % (b'{"data":"%s"}' % (b"\\n" * 2_500_000)), LONG),
    "a picture in extra": (EXTRA % (b'{"data":"%s"}' % (b"x" * 5_000_000)), "are the most"),
    "a number": (EXTRA % (b"9" * 1_000_000), "out of range"),
    "a batch": (BATCHED % (EXTRA % (b"1," * (4 * EMPTY))), f"{4 * MAX_PARTS:,} parts"),
}


@pytest.mark.parametrize("case", JSON_BOMBS)
async def test_a_bomb_of_json_is_refused(service: RunningService, case: str) -> None:
    body, words = JSON_BOMBS[case]
    path = "/v1/score:batch" if body.startswith(BATCHED[:10]) else "/v1/score"
    status, told = await service.post(body, path)
    assert (status, told["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert words in f"{told['error']['message']}; {told['error']['fix']}"


async def test_a_label_of_a_caller_s_template_is_no_program(service: RunningService) -> None:
    text = 'user = "{sources}{edited}{instruction}"\n[labels]\nsource = "{n:>999999999}"'
    prompts = {"core/instruction_following.toml": text}
    asked = "core.instruction_following"
    await refused_by_both(service, "protocol.prompts", asked, protocol={"prompts": prompts})


async def test_pictures_are_decoded_only_where_there_is_room() -> None:
    async with serve(megapixels=4 * 32 * 32 / 2**20) as service:
        assert await service.stub.Score(make_request())
        told = await refusal(service.stub.Score(make_request(edited=png(1, 64))))
    assert told.code is Code.INVALID_ARGUMENT
    assert "pixels" in told.words


async def test_a_flood_of_pictures_that_are_slow_to_decode_holds_up_no_other_team() -> None:
    """PNG of 16 bits with transparency, a tenth to a third of a second a megapixel, each edit another picture."""
    edits, side, ended = 40, 600, list[str]()
    rows = np.random.default_rng(0).integers(0, 256, (side, 1 + 8 * side), np.uint8)
    rows[:, 0] = 0  # no filter
    async with serve() as service:

        async def score(team: str, **pictures: Any) -> None:
            request = make_request(**pictures)
            assert await service.stub.Score(request, metadata=[("x-team", team)])
            ended.append(team)

        await score("other")
        flooding = []
        for number in range(edits):
            rows[0, 1] = number
            deep = encoded_pictures.png((side, side), 6, zlib.compress(rows.tobytes(), 1), depth=16)
            flooding.append(asyncio.create_task(score("flood", edited=deep, sources=[png(0, side)])))
        await until(lambda: "flood" in ended)
        await score("other")
        flooded = ended.count("flood")
        await asyncio.gather(*flooding)
    assert flooded <= edits // 2, "a small edit of another team waits for few of them"


# What is no message of a protocol.


class Call(NamedTuple):
    """A call over gRPC, and how it is refused."""

    data: bytes
    words: str
    field: str = ""
    code: Code = Code.INVALID_ARGUMENT
    method: str = f"{SERVICE}/Score"


def unknown(method: str, words: str) -> Call:
    return Call(b"", words, "", Code.UNIMPLEMENTED, method)


HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
OTHER = health_pb2.HealthCheckRequest(service="x").SerializeToString()
LARGE = make_request(instruction="x" * LARGEST).SerializeToString()
DEEP_JSON = make_request()
DEEP_JSON.edit.questions_json = "[" * 100_000
NO_JSON = make_request()
NO_JSON.edit.extra_json = "{"
NO_MESSAGE, NO_SOURCE = "no message of this method", "edit.sources: there is none"
EMPTY = make_request(target=b"").SerializeToString()
CUT = make_request().SerializeToString()[:-5]
CALLS: Mapping[str, Call] = {
    "garbage": Call(GARBAGE, NO_MESSAGE, "request"),
    "a cut message": Call(CUT, NO_MESSAGE, "request"),
    "JSON": Call(b"{}", "2 bytes are no message", "request", method=f"{SERVICE}/GetPanel"),
    "garbage to the health check": Call(GARBAGE, NO_MESSAGE, "request", method=f"{HEALTH}/Check"),
    "nothing": Call(b"", NO_SOURCE, "edit.sources"),
    "another message": Call(OTHER, NO_SOURCE, "edit.sources"),
    "an empty picture": Call(EMPTY, "", "edit.target.data"),
    "deep questions": Call(DEEP_JSON.SerializeToString(), "", "edit.questions_json"),
    "extra that is no JSON": Call(NO_JSON.SerializeToString(), "", "edit.extra_json"),
    "an unknown method": unknown(f"{SERVICE}/Judge", "Method not found"),
    "an unknown service": unknown("editjudge.v2.JudgeService/Score", "not found"),
    "another's method": unknown("inference.GRPCInferenceService/ServerLive", "not found"),
    "too large a message": Call(LARGE, "larger than max", code=Code.RESOURCE_EXHAUSTED),
    "an unknown service's health": Call(OTHER, "", "", Code.NOT_FOUND, f"{HEALTH}/Check"),
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_bad_call_is_refused_by_its_code_and_the_next_is_answered(narrow: RunningService, case: str) -> None:
    data, words, field, code, method = CALLS[case]
    told = await refusal(narrow.channel.unary_unary(f"/{method}")(data))
    assert (told.code, told.field) == (code, field)
    assert words in told.words
    assert "\n" not in told.words
    assert (await narrow.stub.Score(make_request())).outcomes


async def test_a_picture_too_large_for_its_message_is_told_with_the_limit(narrow: RunningService) -> None:
    told = await refusal(narrow.stub.Score(make_request(edited=png(1, 400))))
    assert told.code is Code.RESOURCE_EXHAUSTED
    assert str(LARGEST) in told.words


async def test_garbage_in_a_stream_ends_that_stream(service: RunningService) -> None:
    for method in (f"{SERVICE}/ScoreStream", f"{REFLECTION}/ServerReflectionInfo"):
        call = service.channel.stream_stream(f"/{method}")()
        await call.write(GARBAGE)
        assert (await refusal(call.read())).code is Code.INVALID_ARGUMENT


async def test_health_and_reflection_are_the_standard_ones(service: RunningService) -> None:
    checks = health_pb2_grpc.HealthStub(service.channel)
    serves = health_pb2.HealthCheckResponse.SERVING
    for name in ("", SERVICE):
        assert (await checks.Check(health_pb2.HealthCheckRequest(service=name))).status == serves
    watched = checks.Watch(health_pb2.HealthCheckRequest())
    assert (await watched.read()).status == serves
    watched.cancel()
    stub = reflection_pb2_grpc.ServerReflectionStub(service.channel)

    async def reflect(**asked: str) -> Any:
        requests = iter([reflection_pb2.ServerReflectionRequest(**asked)])
        (reply,) = [each async for each in stub.ServerReflectionInfo(requests)]
        return reply

    listed = (await reflect(list_services="")).list_services_response
    assert SERVICE in {each.name for each in listed.service}
    described = await reflect(file_containing_symbol=SERVICE)
    assert described.file_descriptor_response.file_descriptor_proto
    unknown = await reflect(file_containing_symbol="x.Y")
    assert unknown.error_response.error_code == Code.NOT_FOUND.value[0]


async def test_fields_that_are_newer_than_the_service_are_passed_over(service: RunningService) -> None:
    newer = make_request().SerializeToString() + b"\xfa\x7f\x03new"  # field 2047, of bytes
    answer = await service.channel.unary_unary(f"/{SERVICE}/Score")(newer)
    assert pb.ScoreResponse.FromString(answer).outcomes


class Web(NamedTuple):
    """A request over HTTP, and how it is refused."""

    body: Any = b""
    field: str = "body"
    status: int = 400
    code: str = "INVALID_ARGUMENT"
    method: str = "POST"
    path: str = "/v1/score"
    headers: Mapping[str, str] = JSON


def other_method(method: str, path: str = "/v1/score") -> Web:
    return Web(b"{}" if method == "PUT" else b"", "", 405, "UNIMPLEMENTED", method, path)


def no_path(path: str) -> Web:
    return Web(b"", "", 404, "NOT_FOUND", "GET", path)


GOOD = make_body()
BATCH = "/v1/score:batch"
FORM, TEXT = ({"content-type": kind} for kind in ("application/x-www-form-urlencoded", "text/plain"))
WEB: Mapping[str, Web] = {
    "no JSON": Web(b"{"),
    "no object": Web(b"[]"),
    "nothing": Web(),
    "no edit": Web({}, "edit"),
    "deep lists": Web(b"[" * 90_000),
    "deep objects": Web(b'{"edit":' * 5000 + b"1" + b"}" * 5000),
    "no UTF-8": Web(b'{"\xff":1}'),
    "half a character": Web(GOOD | {"dimensions": ["\ud83d"]}),
    "a misspelt field": Web(GOOD | {"dimension": ["core.*"]}, "dimension"),
    "a misspelt field of an edit": Web(make_body(instructions="x"), "edit.instructions"),
    "a misspelt field of a protocol": Web(make_body(protocol={"onn": ["x"]}), "protocol.onn"),
    "a misspelt field of a batch": Web({"requests": [GOOD], "wait": True}, "wait", path=BATCH),
    "nothing in a batch": Web({"requests": []}, "requests", path=BATCH),
    "too many in a batch": Web({"requests": [{"edit": {}}] * 65}, "requests", path=BATCH),
    "a number as text": Web(make_body(instruction=7), "edit.instruction"),
    "text as a number": Web(make_body(protocol={"rounds": "many"}), "protocol.rounds"),
    "no base64": Web(make_body(edited={"data": "not base64!"}), "edit.edited.data"),
    "the address of a picture": Web(make_body(edited={"data": "http://a/b.png"}), "edit.edited.data"),
    "an address beside a picture": Web(
        make_body(sources=[{"data": "", "url": "http://a/b.png"}]), "edit.sources[0].url"
    ),
    "an empty picture": Web(make_body(target=b""), "edit.target"),
    "too large": Web(make_body(instruction="x" * LARGEST), "", 413),
    "a form": Web(GOOD, "", 415, headers=FORM),
    "JSON that calls itself text": Web(b"{}", "", 415, path=BATCH, headers=TEXT),
    "an encoding that it has not": Web(b"{}", headers=JSON | {"content-encoding": "gzip"}),
    "GET of what is posted": other_method("GET"),
    "PUT": other_method("PUT"),
    "OPTIONS": other_method("OPTIONS"),
    "DELETE": other_method("DELETE", "/v1/panel"),
    "another path": no_path("/v2/score"),
    "a path with a file": no_path("/v1/../etc/passwd"),
    "a query of what is not there": no_path("/v2/score?x=1"),
    "a query of what takes none": Web(GOOD, "wait", path="/v1/score?wait=1"),
    "a misspelt field of a query": Web(b"", "patern", method="GET", path="/v1/dimensions?pattern=core.*&patern=x"),
    "no dimension": Web(b"", "pattern", method="GET", path="/v1/dimensions?pattern=x"),
}


@pytest.mark.parametrize("case", WEB)
async def test_a_bad_request_is_refused_by_its_status_and_the_next_is_answered(
    narrow: RunningService, case: str
) -> None:
    body, field, status, code, method, path, headers = WEB[case]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = narrow.session.request(method, narrow.web + path, data=data or None, headers=headers)
    async with asked as reply:
        told = json.loads(await reply.text())["error"]
    assert (reply.status, told["code"], told["field"]) == (status, code, field)
    assert told["message"]
    assert "\n" not in told["message"] + told["fix"]
    assert ("allow" in reply.headers) == (status == 405)
    assert (await narrow.post(GOOD))[0] == 200


async def test_who_asks_for_heads_gets_them(service: RunningService) -> None:
    for path in ("/health", "/v1/panel", "/v1/openapi.json"):
        async with service.session.head(service.web + path) as reply:
            assert (reply.status, await reply.read()) == (200, b"")
    async with service.session.get(f"{service.web}/health") as reply:
        assert await reply.text() == "serving"


async def test_a_stream_and_a_batch_refuse_one_and_judge_the_others(service: RunningService) -> None:
    sent = [make_request(request_id=str(i), edited=b"no" if i == 7 else png(1)) for i in range(40)]
    answers = await service.stream(*sent)
    refused = [a.refusal for a in answers if a.WhichOneof("result") == "refusal"]
    judged = {a.response.request_id for a in answers if a.WhichOneof("result") == "response"}
    assert [(r.request_id, r.field) for r in refused] == [("7", "edit.edited")]
    assert judged == {str(i) for i in range(40)} - {"7"}
    edits = [make_body(id=str(i), edited=b"no" if i == 2 else png(1)) for i in range(3)]
    wrong = (*edits, GOOD | {"bogus": 1}, make_body(instruction=7), 7)
    status, body = await service.batch(*wrong)
    fields = [each["error"] and each["error"]["field"] for each in body["results"]]
    expected = [None, None, "edit.edited", "bogus", "edit.instruction", "body"]
    assert (status, fields) == (200, expected)
    assert [r["score"]["sample"]["id"] for r in body["results"] if r["score"]] == ["0", "1"]


async def test_a_defect_in_one_edit_costs_that_one(
    service: RunningService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = service.service.client.judge

    async def trips(edit: Any, *asked: Any, **more: Any) -> Any:
        if edit.item.id == "bad":
            raise LookupError("half \ud83d")
        return await judge(edit, *asked, **more)

    monkeypatch.setattr(service.service.client, "judge", trips)
    answers = await service.stream(*(make_request(request_id=i, id=i) for i in ("a", "bad", "c")))
    (told,) = [a.refusal for a in answers if a.WhichOneof("result") == "refusal"]
    assert (told.request_id, told.code, len(answers)) == ("bad", 13, 3)
    assert "LookupError" in told.message
    assert (await refusal(service.stub.Score(make_request(id="bad")))).code is Code.INTERNAL
    status, body = await service.batch(*(make_body(id=i) for i in ("a", "bad", "c")))
    codes = [each["error"] and each["error"]["code"] for each in body["results"]]
    assert (status, codes) == (200, [None, "INTERNAL", None])
    status, body = await service.post(make_body(id="bad"))
    assert (status, body["error"]["code"]) == (500, "INTERNAL")
    assert "LookupError" in capsys.readouterr().err


async def test_a_place_comes_before_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with serve(edits=2, drain=0.1) as service:
        sending = service.session.post(f"{service.web}/v1/score", data=never(), headers=JSON)
        slow = asyncio.ensure_future(sending)
        await until(lambda: service.service.edits.in_use)
        status, body = await service.post(b"not even JSON")
        assert (status, body["error"]["code"]) == (429, "RESOURCE_EXHAUSTED")
        slow.cancel()


def _encode(kind: str, pixels: np.ndarray, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


_NOISE = np.random.default_rng(5).integers(0, 256, (64, 64, 3), np.uint8)
BAD_PICTURES = {
    "a PNG cut short": png(1, 64)[:-200],
    "a PNG with a wrong checksum": png(1, 64)[:-20] + bytes(4) + png(1, 64)[-16:],
    "a JPEG cut short": _encode("JPEG", _NOISE)[:-600],
    "dark 16 bits": _encode("PNG", np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)),
    "text": b"no picture",
}


@pytest.mark.parametrize("name", BAD_PICTURES)
async def test_a_bad_picture_never_reaches_a_judge(name: str) -> None:
    async with scripted_judge().serving() as judge:
        async with serve(judge_settings(judge)) as service:
            for _ in range(2):  # what is wrong once is not taken for whole the next time
                told = await refusal(service.stub.Score(make_request(ASKED, edited=BAD_PICTURES[name])))
                assert told.code is Code.INVALID_ARGUMENT
                assert told.field == "edit.edited"


async def test_pictures_that_a_judge_only_sees_are_not_decoded_and_proved_whole_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proofs, decodings = [], []
    inspect, decode = images.inspect_image, images._decode
    monkeypatch.setattr(images, "inspect_image", lambda *a: proofs.append(1) or inspect(*a))
    monkeypatch.setattr(images, "_decode", lambda *a: decodings.append(1) or decode(*a))
    # There is no room to decode anything.
    async with scripted_judge().serving() as judge:
        async with serve(judge_settings(judge), megapixels=2 / 2**20) as service:
            for _ in range(2):
                request = make_request(ASKED, sources=[png(71, 48)], edited=png(72, 48))
                (outcome,) = (await service.stub.Score(request)).outcomes
                assert outcome.HasField("value")
            told = await refusal(service.stub.Score(make_request(ASKED, "core.psnr.*")))
            assert "pixels" in told.words
    assert len(proofs) == 2
    assert not decodings
