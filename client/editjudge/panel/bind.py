"""Finding out who serves what, when a panel is opened."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..config import Endpoint, GeneralistEndpoint, Settings
from ..errors import ConfigError, ServiceError
from .budget import Budget
from .generalist import Generalist
from .lanes import Lane, Lanes
from .limits import AdaptiveLimit
from .reach import check_consent, transport_for
from .retry import RetryPolicy
from .services import SERVICES, Service, known, model_name
from .transport import Transport
from .triton import Identity, TritonEndpoint

if TYPE_CHECKING:
    from ..run.ledger import Ledger


@dataclass
class Bound:
    """What was found.

    Attributes:
        stack: Closes the connections.
        lanes: Every endpoint that is used.
        problems: Address to what is wrong with it.
    """

    settings: Settings
    patience: float
    stack: AsyncExitStack
    services: dict[str, Service] = field(default_factory=dict)
    generalists: dict[str, Generalist] = field(default_factory=dict)
    lanes: list[Lane[TritonEndpoint] | Lane[Transport]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    async def specialists(self) -> None:
        """Ask every Triton which of its services it has ready.

        Raises:
            ConfigError: a setting cannot be used.
        """
        asked = list(self.settings.endpoints.values())
        wanted = [known(endpoint.services or SERVICES, endpoint.url) for endpoint in asked]
        lanes = [await self._triton(endpoint) for endpoint in asked]
        found = await asyncio.gather(
            *(self._found(lane, names) for lane, names in zip(lanes, wanted, strict=True))
        )
        serving: dict[str, list[Lane[TritonEndpoint]]] = {}
        identities: dict[str, Identity] = {}
        for lane, identity_of in zip(lanes, found, strict=True):
            for name, identity in identity_of.items():
                first = identities.setdefault(name, identity)
                if identity == first:
                    serving.setdefault(name, []).append(lane)
                else:
                    there = serving[name][0].url
                    self._problem(
                        lane.url, f"{name} is not used: {_differs(identity, first)} at {there}"
                    )
        for name in SERVICES:
            if name in serving:
                balanced = Lanes(serving[name], self.patience)
                self.services[name] = Service(name, identities[name], balanced)

    async def generalist(
        self, name: str, endpoint: GeneralistEndpoint, ledger: Ledger, budget: Budget
    ) -> None:
        """Find out which model a generalist and its replicas have.

        Raises:
            ConfigError: a setting cannot be used.
        """
        if self.settings.max_cost is not None and endpoint.price is None:
            table = f"[generalists.{name.partition('.')[2]}]"
            raise ConfigError(
                f"max_cost is set, but {name} has no price",
                f"write price = {{input = …, output = …}} in {table}",
            )
        lanes = []
        for url in (endpoint.url, *endpoint.replicas):
            one = endpoint.model_copy(update={"url": url, "replicas": ()})
            try:
                check_consent(one)
            except ConfigError as error:
                self._problem(url, str(error))
                continue
            lanes.append(await self._transport(one, name))
        if not lanes:
            return
        generalist = Generalist(name, endpoint, Lanes(lanes, self.patience), ledger, budget)
        with suppress(ServiceError):  # they are its problems
            await generalist.open(self.settings.probe_timeout)
            self.generalists[name] = generalist
        for url, problem in generalist.problems.items():
            self._problem(url, problem)

    async def _triton(self, endpoint: Endpoint) -> Lane[TritonEndpoint]:
        limit, policy = self._regulated()
        triton = TritonEndpoint(endpoint, policy)
        await self.stack.enter_async_context(triton)
        lane = Lane(triton.url, triton, limit)
        self.stack.callback(lane.close)
        self.lanes.append(lane)
        return lane

    async def _transport(self, endpoint: GeneralistEndpoint, name: str) -> Lane[Transport]:
        limit, policy = self._regulated()
        transport = transport_for(endpoint, policy, name, self.settings.concurrency)
        await self.stack.enter_async_context(transport)
        lane = Lane(endpoint.url, transport, limit)
        self.stack.callback(lane.close)
        self.lanes.append(lane)
        return lane

    def _regulated(self) -> tuple[AdaptiveLimit, RetryPolicy]:
        limit = AdaptiveLimit(self.settings.concurrency)
        return limit, replace(policy_of(self.settings), observe=limit.observe)

    async def _found(
        self, lane: Lane[TritonEndpoint], names: tuple[str, ...]
    ) -> dict[str, Identity]:
        timeout = self.settings.probe_timeout
        try:
            await lane.target.server(timeout)
            found = await asyncio.gather(*(_identity(lane.target, n, timeout) for n in names))
        except ServiceError as error:
            self._problem(lane.url, error.detail)
            return {}
        return {name: one for name, one in zip(names, found, strict=True) if one is not None}

    def _problem(self, url: str, text: str) -> None:
        before = self.problems.get(url)
        self.problems[url] = f"{before}; {text}" if before else text


def policy_of(settings: Settings) -> RetryPolicy:
    """How often and how long is asked."""
    return RetryPolicy(
        attempts=settings.attempts, deadline=settings.deadline, first_wait=settings.retry_wait
    )


async def _identity(triton: TritonEndpoint, name: str, timeout: float) -> Identity | None:
    if not await triton.ready(model_name(name), timeout):
        return None
    return await triton.identity(model_name(name), timeout)


def _differs(identity: Identity, first: Identity) -> str:
    if str(identity) == str(first):
        return f"{identity} here, but its fingerprint is not that of the same"
    return f"{identity} here, {first}"
