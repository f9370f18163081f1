"""Before the method of a gRPC call sees it: it can be read, and its terms are known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from inspect import isasyncgenfunction
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from .bodies import Unusable
from .refusals import abort

Method = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class _Garbage:
    """Bytes that are no message of the method."""

    size: int


class Entrance(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses garbage with INVALID_ARGUMENT, where grpcio calls it UNKNOWN; it ends a stream.

    The calls that a method makes have the caller's class, and no more time than it waits.
    """

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        """The handler of a method, behind the entrance; None where there is no such method."""
        handler = await continuation(details)
        if handler is None:
            return None
        kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
        kind = next(name for name in kinds if getattr(handler, name) is not None)
        read = _each_read if handler.request_streaming else _read
        return getattr(grpc, f"{kind}_rpc_method_handler")(
            _entered(getattr(handler, kind), read),
            _parsing(handler.request_deserializer),
            handler.response_serializer,
        )


def _parsing(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parsed(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return _Garbage(len(data))

    return parsed


async def _read(request: Any, context: Any) -> Any:
    if isinstance(request, _Garbage):
        reason = f"{request.size:,} bytes are no message of this method"
        await abort(context, Unusable("request", reason, "make it from the proto"))
    return request


async def _each_read(requests: Any, context: Any) -> Any:
    async def each() -> AsyncIterator[Any]:
        async for request in requests:
            yield await _read(request, context)

    return each()


def _entered(method: Method, read: Callable[[Any, Any], Awaitable[Any]]) -> Method:
    """A method as it is; those that give a stream come in two kinds."""

    async def one(request: Any, context: Any) -> Any:
        return await method(await read(request, context), context)

    async def several(request: Any, context: Any) -> AsyncIterator[Any]:
        async with aclosing(method(await read(request, context), context)) as responses:
            async for response in responses:
                yield response

    return several if isasyncgenfunction(method) else one
