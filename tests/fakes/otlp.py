"""A receiver of spans (OTLP over gRPC) that keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .grpc_server import serve


class Spans(trace_service_pb2_grpc.TraceServiceServicer):
    """What was sent.

    Attributes:
        requests: As they came.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def Export(self, request: Any, _: Any) -> Any:  # noqa: N802 - the proto's name
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self) -> list[Span]:
        """All of them."""
        scopes = (s for r in self.requests for of in r.resource_spans for s in of.scope_spans)
        return [span for scope in scopes for span in scope.spans]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve until the block is left; gives `host:port`."""
        add = partial(trace_service_pb2_grpc.add_TraceServiceServicer_to_server, self)
        async with serve(add) as at:
            yield at
