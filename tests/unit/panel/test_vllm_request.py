"""What is sent to vLLM is what protobuf would have sent."""

from __future__ import annotations

import base64

import pytest
from smg_grpc_proto import vllm_engine_pb2 as pb
from smg_grpc_proto.generated import common_pb2

from editjudge.panel.prompt import Picture
from editjudge.panel.vllm.request import Request

# About the sizes at which a length takes one more byte.
SIZES = (0, 1, 2, 3, 60, 70, 80, 90, 12_200, 12_270, 12_300, 1_572_800, 1_573_000)


@pytest.mark.parametrize("sizes", [(), SIZES[:1], SIZES, *((size,) for size in SIZES[1:])])
def test_it_is_read_as_the_message_that_it_is(sizes: tuple[int, ...]) -> None:
    pictures = tuple(Picture(bytes(size), "image/png", (1, 1)) for size in sizes)
    message = pb.GenerateRequest(request_id="é", stream=False)
    message.tokenized.input_ids.extend(range(300))
    message.sampling_params.logit_bias[7] = 100.0
    read = pb.GenerateRequest.FromString(Request(message, pictures).encode())
    whole = pb.GenerateRequest()
    whole.CopyFrom(message)
    for picture in pictures:
        url = "data:image/png;base64," + base64.b64encode(picture.data).decode()
        whole.media_refs.items.add(modality=common_pb2.IMAGE, url=url)
    assert read == whole
    assert not message.HasField("media_refs"), "it can be sent again"
