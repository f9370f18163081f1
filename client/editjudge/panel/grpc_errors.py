"""What both gRPC transports share: how a channel is kept, and statuses as typed errors."""

from __future__ import annotations

from typing import Any

from ..base.errors import (
    DeadlineExceeded,
    NotAuthorised,
    NotServed,
    Overloaded,
    Refused,
    ServiceError,
    Unreachable,
)

# Pinged seldom enough for servers that count pings (gRPC's default floor is 300 s).
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
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


def words(error: Any) -> str:
    """The server's own words in a `grpc.RpcError`, or else the status."""
    return str(error.details() or error.code().name).strip()


def service_error(error: Any, *, service: str, endpoint: str, model: str = "") -> ServiceError:
    """The typed error of a `grpc.RpcError`; the server's own words are kept."""
    detail = words(error)
    kind = _ERRORS.get(error.code().name, ServiceError)
    if kind is Unreachable and any(word in detail for word in _FULL):
        kind = Overloaded
    elif kind is ServiceError and any(words in detail for words in _PASSING):
        kind = Unreachable
    return kind(detail, service=service, endpoint=endpoint, model=model)
