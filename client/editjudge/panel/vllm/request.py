"""A request of vLLM's gRPC protocol whose pictures are encoded without protobuf.

The protocol takes a picture as the text of a data URL. Protobuf would check that text, copy it into
the message, check it again and copy it out again, which takes longer than sending it. In protobuf's
encoding, messages that follow one another are merged into one, so the pictures are appended to the
rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smg_grpc_proto import vllm_engine_pb2
from smg_grpc_proto.generated import common_pb2

from ..prompt import Picture

_VARINT, _LENGTH = 0, 2


@dataclass(frozen=True, slots=True)
class Request:
    """A generate request.

    Attributes:
        message: A `GenerateRequest` without `media_refs`.
        pictures: Its `media_refs`, in order.
    """

    message: Any
    pictures: tuple[Picture, ...] = ()

    def encode(self) -> bytes:
        """The `GenerateRequest` in protobuf's encoding."""
        return b"".join((self.message.SerializeToString(), *self._media()))

    def _media(self) -> Iterator[bytes]:
        """Each picture as a `media_refs` of its own; the reader merges their items."""
        for picture in self.pictures:
            head = picture.url_head
            size = len(head) + picture.base64_size
            item = _MODALITY + _URL + _varint(size)
            items = _ITEMS + _varint(len(item) + size)
            yield _MEDIA_REFS + _varint(len(items) + len(item) + size) + items + item + head
            yield picture.base64()


def _tag(message: Any, field: str, kind: int) -> bytes:
    return _varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | kind)


def _varint(number: int) -> bytes:
    """A number in protobuf's encoding: seven bits to a byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


_MEDIA_REFS = _tag(vllm_engine_pb2.GenerateRequest, "media_refs", _LENGTH)
_ITEMS = _tag(vllm_engine_pb2.MediaRefs, "items", _LENGTH)
_URL = _tag(vllm_engine_pb2.MediaRef, "url", _LENGTH)
_MODALITY = _tag(vllm_engine_pb2.MediaRef, "modality", _VARINT) + _varint(common_pb2.IMAGE)
