"""What all gRPC clients share: a channel that renews its connection, and statuses as errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..base.errors import (
    BadReply,
    DeadlineExceeded,
    NotAuthorised,
    NotServed,
    Overloaded,
    Refused,
    ServiceError,
    Unconnected,
    Unreachable,
)
from ..base.proxy import proxy_of
from .secrets import short

if TYPE_CHECKING:
    from ..base.config import GrpcAddress

_MORE = 5.0
"""Seconds for which an old channel outlives the deadline of its calls. It cancels what is left, and
that must not be a call whose time is just up: it would seem cancelled by its caller."""


class Channel:
    """A channel and its successors.

    A connection whose other end is gone without a word stays open for minutes. So when a call
    got no reply in time, and nothing else came either since it began, later calls get a new
    connection; those in flight keep theirs until they end.

    Args:
        make: Opens a channel. Its options must include a subchannel pool of its own, or the
            new channel gets the old connection.
        use: Told of each channel, to make stubs of it.
        grace: Seconds that a call on an old channel may have left.
    """

    def __init__(self, make: Callable[[], Any], use: Callable[[Any], None], grace: float) -> None:
        self._make = make
        self._use = use
        self._grace = grace
        self._channel = make()
        self._opened = self._heard = float("-inf")
        self._old: dict[asyncio.Task[None], Any] = {}
        use(self._channel)

    def heard(self) -> None:
        """Something came over it."""
        self._heard = asyncio.get_running_loop().time()

    def late(self, began: float) -> None:
        """A call that began then, by the event loop's clock, got no reply in time."""
        if began < max(self._opened, self._heard):
            return
        self._opened = asyncio.get_running_loop().time()
        old, self._channel = self._channel, self._make()
        self._use(self._channel)
        task = asyncio.create_task(old.close(self._grace + _MORE))
        self._old[task] = old
        task.add_done_callback(self._old.pop)

    async def close(self) -> None:
        """Close all of them; calls in flight are cancelled."""
        await self._channel.close()
        for task, channel in list(self._old.items()):
            task.cancel()
            await channel.close()
        await asyncio.gather(*self._old, return_exceptions=True)


MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Of one message: more than the mask of the largest picture takes."""
# Pinged seldom enough for servers that count pings (gRPC's default floor is 300 s).
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.lb_policy_name", "round_robin"),
    # So that a new channel is a new connection; see `Channel`.
    ("grpc.use_local_subchannel_pool", 1),
    # Otherwise a lost server is not looked for again for 1 s to 120 s, and retries are in vain.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)
_ERRORS: dict[str, type[ServiceError]] = {
    "UNAVAILABLE": Unreachable,
    # Nobody here cancelled the call (that raises CancelledError): the server is going away.
    "CANCELLED": Unreachable,
    "RESOURCE_EXHAUSTED": Overloaded,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "INVALID_ARGUMENT": Refused,
    "NOT_FOUND": NotServed,
    "UNAUTHENTICATED": NotAuthorised,
    "PERMISSION_DENIED": NotAuthorised,
}
# How servers that are up refuse a call for lack of room.
_FULL = ("queue", "saturated")
# What has the status INTERNAL, mostly, and may be over by the next attempt: a stream that was cut
# in the middle, and a Python model that did not tell Triton within a second that it lives.
_PASSING = ("RST_STREAM", "is not healthy")
# How the library itself says that there was no connection to send a request on.
_UNCONNECTED = ("failed to connect to", "Failed to connect to", "resolution failed", "resolve")
# Either side's limit on the size of a message has the status of a full queue.
_TOO_LARGE = "message larger than max"


def channel_options(url: str) -> tuple[tuple[str, int | str], ...]:
    """How a channel to an address is kept, and through which proxy it goes."""
    proxy = proxy_of(url)
    through = (("grpc.http_proxy", proxy),) if proxy else ()
    return (*_OPTIONS, ("grpc.enable_http_proxy", int(proxy is not None)), *through)


def channel_to(endpoint: GrpcAddress, use: Callable[[Any], None], grace: float) -> Channel:
    """A channel to a server, with TLS where its address says so; see `Channel`.

    Raises:
        ConfigError: a certificate cannot be read.
    """
    import grpc.aio

    parts = urlsplit(endpoint.url)
    options = channel_options(endpoint.url)
    secure = parts.scheme == "grpcs"
    credentials = grpc.ssl_channel_credentials(**endpoint.certificates()) if secure else None

    def opened() -> Any:
        if secure:
            return grpc.aio.secure_channel(parts.netloc, credentials, options=options)
        return grpc.aio.insecure_channel(parts.netloc, options=options)

    return Channel(opened, use, grace)


def words(error: Any) -> str:
    """The server's own words in a `grpc.RpcError`, or else the status."""
    return str(error.details() or error.code().name).strip()


def service_error(error: Any, *, service: str, endpoint: str, model: str = "") -> ServiceError:
    """The typed error of a `grpc.RpcError`; the server's own words are kept, in one line."""
    detail = short(words(error))
    kind = _ERRORS.get(error.code().name, ServiceError)
    if _TOO_LARGE in detail:
        kind = Refused if "SERVER:" in detail else BadReply
    elif kind is Unreachable and any(word in detail for word in _FULL):
        kind = Overloaded
    elif kind is Unreachable and any(word in detail for word in _UNCONNECTED):
        kind = Unconnected
    elif kind is ServiceError and any(words in detail for words in _PASSING):
        kind = Unreachable
    return kind(detail, service=service, endpoint=endpoint, model=model)
