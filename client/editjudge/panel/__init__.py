"""The services at hand, found and bound as `role.variant`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..config import Settings
from ..errors import NotServed
from .bind import Bound
from .budget import Budget
from .generalist import Generalist
from .kept import Kept
from .limits import Gauge
from .replay import replaying
from .services import SERVICES, Service, model_name
from .triton import Identity, Reply

if TYPE_CHECKING:
    from ..run.ledger import Ledger

__all__ = ["SERVICES", "Panel", "Service", "model_name"]


class Panel:
    """The judges of a run; use as an async context manager.

    On entry every endpoint is asked which of the known services it has ready. One that
    cannot be reached does not stop the others: `problems` says what is missing and why. A
    service that several endpoints have is balanced between them, where it is the same model.

    Calls are kept where a ledger is given, here or in the settings; calls to generalists are
    otherwise kept in memory.

    Args:
        ledger: Instead of the one of the settings; it is not closed with the panel.
        patience: Seconds that calls wait for an endpoint that was lost; 0 fails at once.

    Attributes:
        services: Bound specialists by `role.variant`.
        generalists: Bound multimodal LLMs by `generalist.<name>`.
        problems: Endpoint URL to what is wrong with it.
        budget: What generalists have cost.
    """

    def __init__(
        self, settings: Settings, *, ledger: Ledger | None = None, patience: float = 0.0
    ) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._ledger = ledger
        self._bound = Bound(settings, patience, self._stack)
        self._kept: Kept | None = None
        self._replaying = False
        self.services = self._bound.services
        self.generalists = self._bound.generalists
        self.problems = self._bound.problems
        self.budget = Budget(settings.max_cost)

    @classmethod
    def replaying(
        cls, ledger: Ledger, identities: Mapping[str, str], settings: Settings | None = None
    ) -> Panel:
        """A panel that makes no calls: everything is answered from the ledger.

        Args:
            identities: Of every service, as `identities()` told them when the calls were made.
            settings: For what generalists' identities do not hold, such as `max_outside`.

        Returns:
            A panel whose calls raise `NotServed` where the ledger has no answer.
        """
        # No file and no variables are read: only what is given counts.
        settings = settings or Settings.model_construct()
        panel = cls(settings, ledger=ledger)
        panel._replaying = True
        panel._kept = Kept(ledger)
        for name, identity in identities.items():
            if name in SERVICES:
                panel.services[name] = Service(name, Identity.stated(model_name(name), identity))
            else:
                endpoint = settings.generalists.get(name.partition(".")[2])
                panel.generalists[name] = replaying(name, identity, ledger, endpoint)
        return panel

    async def __aenter__(self) -> Self:
        if self._replaying:
            return self
        try:
            await self._bind()
        except BaseException:  # also when cancelled: what is open already must be closed
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def call(
        self,
        service: str,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
    ) -> Reply:
        """Call a service on one request, within its endpoints' limits.

        Raises:
            NotServed: no endpoint has the service.
            Abstained: it says there is no value for this input.
            ServiceError: see `editjudge.errors`.
        """
        bound = self.services.get(service)
        if bound is None:
            raise NotServed(self.why_not(service), service=service)
        if self._kept is None:
            return await bound(inputs, parameters)
        return await self._kept(bound, inputs, parameters)

    def generalist(self, service: str) -> Generalist:
        """A multimodal LLM.

        Raises:
            NotServed: none is bound under this name.
        """
        bound = self.generalists.get(service)
        if bound is None:
            raise NotServed(self.why_not(service), service=service)
        return bound

    @property
    def served(self) -> frozenset[str]:
        """Everything at hand, as `role.variant`."""
        return frozenset((*self.services, *self.generalists))

    def why_not(self, service: str) -> str:
        """Why a service is not at hand."""
        role, _, name = service.partition(".")
        if self._replaying:
            return "it was not at hand when the calls in the ledger were made"
        if role == "generalist":
            endpoint = self._settings.generalists.get(name)
            if endpoint is None:
                return "no generalist is configured (--generalist URL, or docs/configuration.md)"
            urls = [endpoint.url, *endpoint.replicas]
            return "; ".join(f"{url}: {self.problems.get(url, 'not bound')}" for url in urls)
        urls = [endpoint.url for endpoint in self._settings.endpoints.values()]
        if problems := [f"{url}: {self.problems[url]}" for url in urls if url in self.problems]:
            return "; ".join(problems)
        if not self._settings.endpoints:
            return "no endpoint is configured and no local stack runs (editjudge up)"
        return f"not among the models ready at {', '.join(urls)} (docs/models.md adds it)"

    def identities(self) -> dict[str, str]:
        """Identity of every bound service, for signatures."""
        return {
            **{name: str(service.identity) for name, service in self.services.items()},
            **{name: generalist.identity for name, generalist in self.generalists.items()},
        }

    def gauges(self) -> dict[str, Gauge]:
        """The load of every endpoint now, by its address."""
        return {lane.url: lane.gauge() for lane in self._bound.lanes}

    async def _bind(self) -> None:
        from ..run.ledger import Ledger

        settings = self._settings
        ledger = self._ledger
        if ledger is None and (settings.ledger or settings.generalists):
            ledger = self._stack.enter_context(Ledger(settings.ledger))
        if ledger is not None and (self._ledger or settings.ledger):
            # In memory a digest of every image would cost more than it saves.
            self._kept = Kept(ledger)
        await self._bound.specialists()
        if ledger is None:
            return
        for name, endpoint in settings.generalists.items():
            await self._bound.generalist(f"generalist.{name}", endpoint, ledger, self.budget)
