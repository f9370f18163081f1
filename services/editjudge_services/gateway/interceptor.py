"""A gRPC interceptor that parses requests, so that an unreadable one is refused as such."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from inspect import isasyncgenfunction
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from editjudge.base.threads import in_thread

from .bounds import check_message
from .errors import abort
from .schemas import InvalidRequest

_SMALL_BYTES = 4096
"""Up to this size a message is parsed at once; others wait for a thread."""
_PARSERS = ThreadPoolExecutor(2, "parse")
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


def _parse(deserialize: Any, data: bytes) -> Any:
    """Parse a message that holds no more than a request may."""
    check_message(data, deserialize.__self__.DESCRIPTOR)
    return deserialize(data)


async def _read_message(deserialize: Any, data: bytes, context: Any) -> Any:
    """Parse a message, or end the call with the reason why it cannot be."""
    try:
        if len(data) <= _SMALL_BYTES:
            return _parse(deserialize, data)
        return await in_thread(_parse, deserialize, data, executor=_PARSERS)
    except InvalidRequest as error:
        await abort(context, error)
    except DecodeError:
        reason = f"{len(data):,} bytes are no message of this method"
        await abort(context, InvalidRequest("request", reason, "make it from the proto"))


def _wrap_method(handler: Any, kind: str) -> Callable[[Any, Any], Any]:
    """Make a method that parses the requests of `handler` before calling it."""
    method, deserialize = getattr(handler, kind), handler.request_deserializer

    async def parse_stream(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for data in messages:
            yield await _read_message(deserialize, data, context)

    async def read(data: Any, context: Any) -> Any:
        if handler.request_streaming:
            return parse_stream(data, context)
        return await _read_message(deserialize, data, context)

    async def answer(data: Any, context: Any) -> Any:
        return await method(await read(data, context), context)

    async def answer_stream(data: Any, context: Any) -> AsyncIterator[Any]:
        async with aclosing(method(await read(data, context), context)) as responses:
            async for response in responses:
                yield response

    return answer_stream if isasyncgenfunction(method) else answer
