"""What travels between a thin client and the service."""

from __future__ import annotations

from collections.abc import Iterator

from editjudge.base.errors import DeadlineExceeded, LogprobsUnavailable, OutOfTime, ServiceError
from editjudge.gateway.messages import get_error_kind
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway.messages import get_failure


def kinds(of: type[ServiceError] = ServiceError) -> Iterator[type[ServiceError]]:
    """All but what never leaves the panel: it asks in another way then."""
    for kind in of.__subclasses__():
        if kind is not LogprobsUnavailable:
            yield kind
        yield from kinds(kind)


def test_every_kind_of_failure_is_told() -> None:
    for kind in kinds():
        failure = get_failure(kind("no", service="judge", endpoint="http://here"))
        assert failure != pb.FAILURE_UNSPECIFIED, kind
        known = get_error_kind(failure)
        assert known is DeadlineExceeded if kind is OutOfTime else issubclass(kind, known or str)
