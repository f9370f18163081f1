"""What of a request is counted before it is parsed."""

from __future__ import annotations

import json
from functools import partial

import pytest
from google.protobuf.message import DecodeError

from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import interceptor
from editjudge_services.gateway.bounds import MAX_PARTS, MAX_TEXT_BYTES, check_json, check_message
from editjudge_services.gateway.schemas import InvalidRequest

REQUEST = pb.ScoreRequest.DESCRIPTOR
SMALL = pb.ScoreRequest(
    request_id="a",
    edit=pb.Edit(sources=[pb.Picture(data=b"x", name="a.png")], extra_json='{"a": ["\\"", 1]}'),
    protocol=pb.Protocol(rounds=300, prompts={"core/x.toml": "x" * 200}),
)


def test_pictures_are_no_text() -> None:
    picture = pb.Picture(data=b"x" * (MAX_TEXT_BYTES + 1))
    check_message(pb.ScoreRequest(edit=pb.Edit(mask=picture)).SerializeToString(), REQUEST)
    check_json(json.dumps({"data": "x" * (MAX_TEXT_BYTES + 1)}).encode())
    check_json(b'{"data":"%s"}' % (b"\\/" * MAX_TEXT_BYTES))  # as PHP writes base64


def test_a_text_may_hold_what_stands_between_parts() -> None:
    check_json(json.dumps({"a": ',:[{\\"' * MAX_PARTS}).encode())


def test_a_cut_message_is_one_only_where_the_parser_says_so() -> None:
    data = SMALL.SerializeToString()
    for end in range(len(data)):
        reads = []
        for read in (pb.ScoreRequest.FromString, partial(check_message, descriptor=REQUEST)):
            try:
                read(data[:end])
                reads.append(True)
            except DecodeError:
                reads.append(False)
        assert reads[0] == reads[1], end


@pytest.mark.parametrize("data", [b"\x0b\x0c", b"\x0e", b"\x80" * 11, b"\x22\xff\xff\xff\xff\x7f"])
def test_what_no_message_has_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        check_message(data, REQUEST)


def test_the_parser_never_sees_a_bomb() -> None:
    class Parser:
        DESCRIPTOR = REQUEST

        def deserialize(self, data: bytes) -> None:
            raise AssertionError

    with pytest.raises(InvalidRequest, match="dimensions: more than 32,768 parts"):
        interceptor._parse(Parser().deserialize, b"\x1a\0" * (MAX_PARTS + 1), None)
