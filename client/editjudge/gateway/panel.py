"""The services of a Judge service as a panel.

Their identities are known here, and their calls are made there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from ..base.config import GatewayEndpoint, Settings
from ..base.errors import BadReply, DeadlineExceeded, ServiceError, Unreachable
from ..base.identity import ModelIdentity, ServiceName
from ..panel import Panel
from ..panel.calls import ReplyStore
from ..panel.pool import EndpointPool
from ..panel.redaction import shorten
from ..panel.replica import Replica
from ..panel.retry import RetryPolicy
from ..v1 import judge_pb2 as pb
from .connection import SERVICE, JudgeService, PanelReport
from .messages import read_identities


class Gateway(Panel):
    """The services of a Judge service; use as an async context manager.

    One call to it is one edit. The call takes a place within the concurrency limit of the service,
    which is found out as for any endpoint. It is made again where the service has no room or is
    away for a while. Before `learn` nothing is known about any service.

    Args:
        endpoint: The Judge service.
        settings: How often and how long to try, and how many edits at once.
        ledger: Where facts about the service are stored.

    Attributes:
        url: Address of the service.
        version: Version of editjudge there.
        priced_judges: The judges whose costs are known.
        service_problems: What the service reports to be wrong with servers of its own.
    """

    def __init__(self, endpoint: GatewayEndpoint, settings: Settings, ledger: ReplyStore | None = None) -> None:
        super().__init__(settings, ledger=ledger)
        self.url = endpoint.url
        self.version = ""
        self._endpoint = endpoint
        self._identities: dict[ServiceName, ModelIdentity] = {}
        self.priced_judges: frozenset[ServiceName] = frozenset()
        self.service_problems: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        def connect(policy: RetryPolicy) -> JudgeService:
            edit_policy = replace(policy, deadline=self._endpoint.edit_deadline)
            return JudgeService(self._endpoint, edit_policy)

        try:
            replica: Replica[JudgeService] = await self._connect_replica(self.url, connect)
        except BaseException:  # also when cancelled: open connections must be closed
            await self._stack.aclose()
            raise
        self._other_replicas.append(replica)
        self._pool = EndpointPool([replica], self._policy)
        return self

    async def rebind(self) -> None:
        """Does nothing: nothing is bound here."""

    async def list_model_changes(self) -> tuple[str, ...]:
        """No lines: the service compares its servers itself."""
        return ()

    async def learn(self, request: pb.GetPanelRequest) -> PanelReport:
        """Ask the service which services judge there; they become the services of this panel.

        Raises:
            ServiceError: the service cannot be reached, refuses, or names services that do not
                exist. One that was never reached is not waited for.
        """

        async def request_panel(service: JudgeService) -> PanelReport:
            try:
                return await service.panel(request, self._settings.probe_timeout)
            except (Unreachable, DeadlineExceeded) as error:
                if self._is_connected:
                    raise
                # The pool would wait for it as for a lost server; perhaps it never was there.
                raise self.make_error(ServiceError, error.detail) from error

        report = await self._pool.run(request_panel)
        try:
            self._identities = read_identities(report.panel)
        except ValueError as error:
            raise self.make_error(BadReply, str(error)) from error
        priced_roles = (service.role for service in report.panel.services if service.priced)
        self.priced_judges = frozenset(map(ServiceName.parse, priced_roles))
        self.version = report.panel.version
        self.service_problems = tuple(map(shorten, report.panel.problems))
        self._is_connected = True
        return report

    async def score(self, make_request: Callable[[], pb.ScoreRequest]) -> pb.ScoreResponse:
        """Have an edit judged, within the concurrency limit of the service.

        Its request is made when there is a place for it.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """
        losses: list[Unreachable] = []
        return await self._pool.run(lambda service: service.score(make_request, losses))

    def make_error(self, kind: type[ServiceError], detail: str) -> ServiceError:
        """An error of the service."""
        return kind(shorten(detail), service=SERVICE, endpoint=self.url)

    @property
    def service_names(self) -> frozenset[ServiceName]:
        """Every service that judges there."""
        self._check_entered()
        return frozenset(self._identities)

    @property
    def has_prices(self) -> bool:
        """Whether any judge there has a price, so that costs are known."""
        return bool(self.priced_judges)

    def why_not(self, service: ServiceName) -> str:
        """Why a service does not judge there."""
        self._check_entered()
        problems = "; ".join(self.service_problems)
        return f"the Judge service at {self.url} does not have it{problems and f': {problems}'}"

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        """Identity of every service there, for signatures."""
        return dict(self._identities)
