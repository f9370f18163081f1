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
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_FILE = """
name: "tests/rls.proto" package: "rls" syntax: "proto3"
message_type { name: "Hits" field { name: "value" number: 1 type: TYPE_UINT64 label: LABEL_OPTIONAL } }
message_type { name: "Text"
  field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL } }
message_type { name: "Descriptor"
  field { name: "entries" number: 1 type: TYPE_MESSAGE type_name: ".rls.Text" label: LABEL_REPEATED }
  field { name: "hits" number: 3 type: TYPE_MESSAGE type_name: ".rls.Hits" label: LABEL_OPTIONAL } }
message_type { name: "Request"
  field { name: "domain" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "descriptors" number: 2 type: TYPE_MESSAGE type_name: ".rls.Descriptor" label: LABEL_REPEATED }
  field { name: "hits" number: 3 type: TYPE_UINT32 label: LABEL_OPTIONAL } }
message_type { name: "Response"
  field { name: "code" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "headers" number: 3 type: TYPE_MESSAGE type_name: ".rls.Text" label: LABEL_REPEATED } }
"""
_OK, _OVER_LIMIT = 1, 2


def _messages() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    file = text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto())
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
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {"ShouldRateLimit": grpc.unary_unary_rpc_method_handler(self._should_limit)}
        name = "envoy.service.ratelimit.v3.RateLimitService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        port = server.add_insecure_port(address)
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)
