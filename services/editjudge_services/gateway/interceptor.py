"""Before the method of a gRPC call sees a request: it can be read."""

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
    """Refuses garbage with INVALID_ARGUMENT, where grpcio calls it UNKNOWN; it ends a stream."""

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        """The handler of a method, behind the entrance; None where there is no such method."""
        handler = await continuation(details)
        if handler is None:
            return None
        kind = next(name for name in _KINDS if getattr(handler, name) is not None)
        # Requests come as bytes, and are parsed where a refusal has words.
        return handler._replace(request_deserializer=None, **{kind: _parsing(handler, kind)})


def _parsing(handler: Any, kind: str) -> Callable[[Any, Any], Any]:
    """A method that parses its requests itself."""
    method = getattr(handler, kind)

    async def parsed(data: bytes, context: Any) -> Any:
        try:
            return handler.request_deserializer(data)
        except DecodeError:
            reason = f"{len(data):,} bytes are no message of this method"
            await abort(context, InvalidRequest("request", reason, "make it from the proto"))

    async def each(sent: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for data in sent:
            yield await parsed(data, context)

    async def read(sent: Any, context: Any) -> Any:
        return each(sent, context) if handler.request_streaming else await parsed(sent, context)

    async def answer(sent: Any, context: Any) -> Any:
        return await method(await read(sent, context), context)

    async def answers(sent: Any, context: Any) -> AsyncIterator[Any]:
        async with aclosing(method(await read(sent, context), context)) as responses:
            async for response in responses:
                yield response

    return answers if isasyncgenfunction(method) else answer
