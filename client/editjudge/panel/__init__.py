"""The services that a run can call, bound as `role.variant`."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ..base.config import Settings
from ..base.contracts import Tensors
from ..base.errors import NotServed, ServiceError
from ..base.identity import Identities, ModelIdentity, ServiceName
from .bind import Bound
from .calls import CallStore, RememberedReplies, Said
from .context import NOBODY, CallContext
from .generalist import Generalist, replaying_generalist
from .replica import DEFAULT_POLICY, Gauge, PoolPolicy
from .services import SERVICES, CachedSpecialists, Service, model_name

__all__ = ["SERVICES", "Panel", "PoolPolicy", "Service", "model_name"]


class Panel:
    """The specialists and generalists of a run; use as an async context manager.

    On entry every endpoint is asked which of the known services it has ready. One that
    cannot be reached does not stop the others: `problems` says what is missing and why. A
    service that several endpoints have is balanced between them, where it is the same model.
    Before that nothing is known of any service, and asking for one raises RuntimeError.

    With a ledger all calls are kept there; without one, calls to generalists are kept in memory.
    Who pays for calls, and who keeps them apart, is told by `within`.

    Args:
        ledger: Of whoever opened it: it is not closed with the panel.
        policy: How calls to each endpoint are regulated; by default none waits for an endpoint
            that was lost.

    Attributes:
        services: Bound specialists by `role.variant`.
        generalists: Bound multimodal LLMs by `generalist.<name>`.
        problems: Endpoint URL to what is wrong with it.
        context: On whose behalf its services are called.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        ledger: CallStore | None = None,
        policy: PoolPolicy = DEFAULT_POLICY,
    ) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        replies = RememberedReplies() if ledger is None else ledger
        self._bound = Bound(settings, policy, self._stack, replies)
        self._calls = ledger
        self._cached = CachedSpecialists()
        self._replaying = False
        self._asked = False
        self.services = self._bound.services
        self.generalists = self._bound.generalists
        self.problems = self._bound.problems
        self.context = NOBODY

    @classmethod
    def replaying(
        cls,
        ledger: CallStore,
        identities: Identities,
        settings: Settings | None = None,
    ) -> Panel:
        """A panel that makes no calls: everything is answered from the ledger.

        Args:
            identities: Of every service, as `identities()` returned them when the calls were made.
            settings: For what generalists' identities do not hold, such as `max_outside`.

        Returns:
            A panel whose calls raise `NotServed` where the ledger has no answer.
        """
        # No file and no variables are read: only what is given counts.
        settings = settings or Settings.model_construct()
        panel = cls(settings, ledger=ledger)
        panel._replaying = panel._asked = True
        for name, identity in identities.items():
            if name.is_generalist:
                endpoint = settings.generalists.get(name.variant)
                panel.generalists[name] = replaying_generalist(name, identity, ledger, endpoint)
            else:
                panel.services[name] = Service(name, identity)
        return panel

    def within(self, context: CallContext) -> Self:
        """The same services, called on somebody's behalf; the panel itself stays as it is."""
        bound = copy.copy(self)
        bound.context = context
        return bound

    async def __aenter__(self) -> Self:
        if self._replaying:
            return self
        try:
            await self._bound.connect()
            await self._bound.bind()
        except BaseException:  # also when cancelled: what is open already must be closed
            await self._stack.aclose()
            raise
        self._asked = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def rebind(self) -> None:
        """Ask the endpoints again: services that came are taken up, those that went are dropped.

        What is the same model at the same endpoints is not touched, nor are calls in flight.
        Nothing is asked where all is answered from a ledger.
        """
        if not self._replaying:
            await self._bound.bind()

    async def altered(self) -> tuple[str, ...]:
        """Ask the bound servers for their models again: a line for each that is another now."""
        return () if self._replaying else await self._bound.altered()

    async def settle(self) -> None:
        """Find out how generalists answer choices now: it is part of their identity."""

        async def ask(generalist: Generalist) -> None:
            with contextlib.suppress(ServiceError):  # the calls will say it
                await generalist.within(self.context).method()

        await asyncio.gather(*map(ask, tuple(self.generalists.values())))

    async def call(
        self,
        service: str,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
    ) -> Tensors:
        """Call a service on one request, within its endpoints' limits.

        Raises:
            NotServed: no endpoint has the service.
            Abstained: the service has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        name = ServiceName.parsed(service)
        bound = self.services.get(name)
        if bound is None:
            raise NotServed(self.why_not(name), service=name)
        context = self.context
        calls = context.calls or self._calls
        if calls is None:
            # In memory a digest of every image would cost more than it saves.
            return (await bound.timed(inputs, parameters, context.terms))[0]
        return await self._cached(calls, bound, inputs, parameters, context)

    def generalist(self, service: str) -> Generalist:
        """A multimodal LLM.

        Raises:
            NotServed: none is bound under this name.
        """
        name = ServiceName.parsed(service)
        bound = self.generalists.get(name)
        if bound is None:
            raise NotServed(self.why_not(name), service=name)
        return bound.within(self.context)

    @property
    def served(self) -> frozenset[ServiceName]:
        """Every bound service, as `role.variant`."""
        self._check_entered()
        return frozenset((*self.services, *self.generalists))

    @property
    def priced(self) -> bool:
        """Whether any generalist has a price, so that costs are told."""
        return any(generalist.endpoint.price for generalist in self.generalists.values())

    def why_not(self, service: ServiceName) -> str:
        """Why a service is not bound."""
        self._check_entered()
        if self._replaying:
            return "it was not at hand when the calls in the ledger were made"
        if service.is_generalist:
            endpoint = self._settings.generalists.get(service.variant)
            if endpoint is None:
                return "no generalist is configured (--generalist URL, or docs/configuration.md)"
            urls = [endpoint.url, *endpoint.replicas]
            return "; ".join(f"{url}: {self.problems.get(url, 'not bound')}" for url in urls)
        urls = [endpoint.url for endpoint in self._settings.endpoints.values()]
        if problems := [f"{url}: {self.problems[url]}" for url in urls if url in self.problems]:
            return "; ".join(problems)
        if not self._settings.endpoints:
            return "no endpoint is configured and no local stack runs (editjudge up)"
        mend = (
            "docs/models.md adds it"
            if service in SERVICES
            else f"load it there as {model_name(service)}: docs/own.md"
        )
        return f"not among the models ready at {', '.join(urls)} ({mend})"

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        """Identity of every bound service, for signatures."""
        return {
            **{name: service.identity.signed for name, service in self.services.items()},
            **{name: generalist.identity for name, generalist in self.generalists.items()},
        }

    def _check_entered(self) -> None:
        if not self._asked:
            raise RuntimeError("nobody was asked yet: enter it, `async with Panel(…) as panel`")

    async def said(self, calls: Iterable[str]) -> Mapping[str, Said]:
        """What came back from calls, by key, as far as they are kept."""
        return await (self.context.calls or self._bound.replies).said(calls)

    async def keep_limits(self) -> None:
        """Keep how many calls each endpoint was found to take, for the next session."""
        await self._bound.keep_limits()

    def gauges(self) -> dict[str, Gauge]:
        """The load of every endpoint now, by its address."""
        return {replica.url: replica.gauge() for replica in self._bound.replicas}
