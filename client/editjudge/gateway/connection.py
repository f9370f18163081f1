"""One Judge service over gRPC, with typed errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import grpc

from ..base.config import GatewayEndpoint
from ..base.contracts import TEAM_HEADER
from ..base.errors import ServiceError
from ..base.proxy import proxy_of
from ..panel.grpc_channel import Channel, channel_to, service_error
from ..panel.retry import RetryPolicy, with_retries
from ..panel.secrets import Secrets, short
from ..v1 import judge_pb2 as pb
from ..v1 import judge_pb2_grpc

T = TypeVar("T")
SERVICE = "the Judge service"
"""How errors call it."""


class Told(NamedTuple):
    """What a service says of itself.

    Attributes:
        team: As whom a front door before it knows the caller; "" where none says.
    """

    panel: pb.GetPanelResponse
    team: str


class JudgeService:
    """A channel to one Judge service; use as an async context manager.

    Args:
        endpoint: Its address, with what it takes to be let in.
        policy: How often and how long to ask; its deadline is that of one edit.

    Raises:
        ConfigError: a certificate or a header's secret cannot be read.
    """

    def __init__(self, endpoint: GatewayEndpoint, policy: RetryPolicy) -> None:
        self.url = endpoint.url
        self._policy = policy
        values = endpoint.header_values()
        self._metadata = tuple(values.items())
        self._secrets = Secrets(endpoint.headers, values, proxy_of(endpoint.url))

        def use(channel: Any) -> None:
            self._stub: Any = judge_pb2_grpc.JudgeServiceStub(channel)  # type: ignore[no-untyped-call]

        self._channel: Channel = channel_to(endpoint, use, policy.deadline)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def panel(self, request: pb.GetPanelRequest, timeout: float) -> Told:
        """Who judges there.

        Args:
            timeout: Seconds for an attempt.

        Raises:
            ServiceError: it cannot be reached or asked.
        """

        async def once(left: float) -> Told:
            call = self._stub.GetPanel(request, timeout=min(left, timeout), metadata=self._metadata)
            panel = await call
            headers = dict(await call.initial_metadata() or ())
            return Told(panel, short(str(headers.get(TEAM_HEADER, ""))))

        return await self._retried(once)

    async def score(self, request: pb.ScoreRequest) -> pb.ScoreResponse:
        """Have an edit judged, with retries inside the policy's deadline.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """

        async def once(left: float) -> pb.ScoreResponse:
            response: pb.ScoreResponse = await self._stub.Score(
                request, timeout=left, metadata=self._metadata
            )
            return response

        return await self._retried(once)

    async def _retried(self, once: Callable[[float], Awaitable[T]]) -> T:
        """Attempts that fail with the typed error of their status."""

        async def typed(left: float) -> T:
            try:
                answer = await once(left)
            except grpc.RpcError as error:
                failure = service_error(error, service=SERVICE, endpoint=self.url)
                raise self.error(type(failure), failure.detail) from error
            self._channel.heard()
            return answer

        return await with_retries(typed, self._policy, late=self._channel.late)

    def error(self, kind: type[ServiceError], detail: str) -> ServiceError:
        """An error of this service, its secrets blotted out."""
        return kind(self._secrets.hidden(detail), service=SERVICE, endpoint=self.url)
