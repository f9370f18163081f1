"""A rate-limit service (Envoy's protocol, version 3) that counts in memory.

Envoy's own messages for Python own the same files as the Envoy binary, so the few that are needed
are described here, by the numbers of their fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .grpc_server import serve

_FIELDS = """
Hits.value 1 UINT64
Text.key 1 STRING
Text.value 2 STRING
Descriptor.entries 1 Text*
Descriptor.hits 3 Hits
Request.domain 1 STRING
Request.descriptors 2 Descriptor*
Request.hits 3 UINT32
Response.code 1 INT32
Response.headers 3 Text*
"""
_OK, _OVER_LIMIT = 1, 2


def _messages() -> dict[str, Any]:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="rls.proto", package="rls", syntax="proto3")
    messages: dict[str, Any] = {}
    for line in _FIELDS.split("\n")[1:-1]:
        path, number, kind = line.split()
        message, name = path.split(".")
        if message not in messages:
            messages[message] = file.message_type.add(name=message)
        many = kind.endswith("*")
        field = messages[message].field.add(name=name, number=int(number))
        field.label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        if (of := kind.rstrip("*")) in messages:
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".rls.{of}"
        else:
            field.type = kinds.Type.Value(f"TYPE_{of}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name], pool)


_MESSAGES = _messages()


class RateLimits:
    """So many hits for each descriptor, and not one after them.

    Args:
        most: By what the descriptor says, as in `kind=tokens team=vision`; others have no limit.

    Attributes:
        hits: What each has taken.
        asked: How often each was asked for without a hit.
    """

    def __init__(self, **most: int) -> None:
        self._most = most
        self.hits: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    async def _should_limit(self, data: bytes, _: Any) -> bytes:
        request = _MESSAGES["rls.Request"].FromString(data)
        over = False
        for each in request.descriptors:
            said = {entry.key: entry.value for entry in each.entries}
            assert (request.domain, said.pop("kind")) == ("editjudge", "tokens")
            (team,) = said.values()
            added = each.hits.value if each.HasField("hits") else max(1, request.hits)
            over |= not added and self.hits[team] >= self._most.get(team, self.hits[team] + 1)
            self.hits[team] += added
            self.asked[team] += not added
        response = _MESSAGES["rls.Response"](code=_OVER_LIMIT if over else _OK)
        if over:
            response.headers.add(key="retry-after", value="3600")
        return bytes(response.SerializeToString())

    @asynccontextmanager
    async def serving(self, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
        """Serve until the block is left; gives `host:port`."""
        handlers = {"ShouldRateLimit": grpc.unary_unary_rpc_method_handler(self._should_limit)}
        name = "envoy.service.ratelimit.v3.RateLimitService"
        handler = grpc.method_handlers_generic_handler(name, handlers)
        async with serve(lambda server: server.add_generic_rpc_handlers((handler,)), address) as at:
            yield at
