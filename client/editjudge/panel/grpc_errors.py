"""What both gRPC transports share: how a channel is made, and statuses as typed errors."""

from __future__ import annotations

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
from .channel import Channel
from .secrets import short

if TYPE_CHECKING:
    from ..base.config import GrpcAddress

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
