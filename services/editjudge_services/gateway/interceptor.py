"""A gRPC interceptor that parses requests, so that an unreadable one is refused as such."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from inspect import isasyncgenfunction
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .errors import abort
from .schemas import InvalidRequest

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class DecodingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses a message that cannot be parsed with INVALID_ARGUMENT; grpcio would say UNKNOWN.

    In a stream such a message ends the stream.
    """

    async def intercept_service(self, resolve: Callable[[Any], Awaitable[Any]], call: Any) -> Any:
        """Wrap the handler of a method; None where there is no such method."""
        handler = await resolve(call)
        if handler is None:
            return None
        kind = next(name for name in _KINDS if getattr(handler, name) is not None)
        # grpcio hands over bytes, and parsing happens where the error can be explained.
        return handler._replace(request_deserializer=None, **{kind: _wrap_method(handler, kind)})


def _wrap_method(handler: Any, kind: str) -> Callable[[Any, Any], Any]:
    """Make a method that parses the requests of `handler` before calling it."""
    method = getattr(handler, kind)

    async def parse(data: bytes, context: Any) -> Any:
        try:
            return handler.request_deserializer(data)
        except DecodeError:
            reason = f"{len(data):,} bytes are no message of this method"
            await abort(context, InvalidRequest("request", reason, "make it from the proto"))

    async def parse_stream(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for data in messages:
            yield await parse(data, context)

    async def read(data: Any, context: Any) -> Any:
        if handler.request_streaming:
            return parse_stream(data, context)
        return await parse(data, context)

    async def answer(data: Any, context: Any) -> Any:
        return await method(await read(data, context), context)

    async def answer_stream(data: Any, context: Any) -> AsyncIterator[Any]:
        async with aclosing(method(await read(data, context), context)) as responses:
            async for response in responses:
                yield response

    return answer_stream if isasyncgenfunction(method) else answer
