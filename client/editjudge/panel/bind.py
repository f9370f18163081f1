"""Finding out who serves what, when a panel is opened and again when services come and go."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ..base.config import Concurrency, Endpoint, GeneralistEndpoint, Settings
from ..base.errors import ConfigError, ServiceError
from ..base.identity import Identities, ModelIdentity, ServiceName
from ..base.proxy import is_loopback, proxy_of, without_password
from .calls import ReplyStore
from .generalist import Generalist, altered_line
from .limit import start_of
from .pool import EndpointPool
from .replica import PoolPolicy, Replica
from .retry import RetryPolicy
from .services import SERVICES, Service, known, model_name
from .transport import Transport
from .triton import TritonEndpoint

E = TypeVar("E", bound=AbstractAsyncContextManager[object])
K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Bound:
    """The services that were found, and the connections to their servers.

    The connections stay what they are from the first `bind` on: a call in flight is not touched
    when its service is gone or replaced.

    Attributes:
        policy: By which every pool regulates its calls.
        beside: Servers that are called as a whole, and have no service of their own here.
        stack: Closes the connections.
        replies: Where generalists' replies are kept.
        services: Specialists by name.
        generalists: By name.
        problems: Address to what is wrong with the server there.
    """

    settings: Settings
    policy: PoolPolicy
    stack: AsyncExitStack
    replies: ReplyStore
    services: dict[ServiceName, Service] = field(default_factory=dict)
    generalists: dict[ServiceName, Generalist] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    beside: list[Replica[Any]] = field(default_factory=list)
    _tritons: list[tuple[Replica[TritonEndpoint], tuple[ServiceName, ...]]] = field(
        default_factory=list
    )
    _transports: dict[ServiceName, list[Replica[Transport]]] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    _binding: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def replicas(self) -> tuple[Replica[Any], ...]:
        """Every server that is used: the specialists' first, in the order of the settings."""
        tritons = (triton for triton, _ in self._tritons)
        transports = (each for group in self._transports.values() for each in group)
        return (*tritons, *transports, *self.beside)

    async def connect(self) -> None:
        """Make the connections; no server is asked anything.

        Raises:
            ConfigError: a setting cannot be used.
        """
        check_prices(self.settings)
        for endpoint in self.settings.endpoints.values():
            names = known(endpoint.services or SERVICES, endpoint.url)
            self._tritons.append((await self._triton(endpoint), names))
        for name, generalist in self.settings.generalists.items():
            service = ServiceName.generalist(name)
            self._transports[service] = await self._replicas(service, generalist)

    async def keep_limits(self) -> None:
        """Keep how many calls each server was found to take: the next session begins there."""
        for replica in self.replicas:
            if learned := replica.learned:
                await self.replies.keep_fact(_limit_of(replica.url), learned)

    async def bind(self) -> None:
        """Ask every endpoint what it serves: what is new is taken up, what is gone is dropped.

        What is the same at the same endpoints stays the same object.
        """
        async with self._binding:
            problems: dict[str, str] = dict(self._refused)
            services = await self._served(problems)
            opened = await asyncio.gather(
                *(self._opened(name, problems) for name in self._transports)
            )
            generalists = {one.name: one for one in opened if one is not None}
            _become(self.services, services)
            _become(self.generalists, generalists)
            _become(self.problems, problems)

    async def altered(self) -> tuple[str, ...]:
        """Ask the servers in use what they are: a line for each that is not what was bound."""
        specialists = (self._altered(*triton) for triton in self._tritons)
        generalists = (
            one.altered(self.settings.probe_timeout) for one in self.generalists.values()
        )
        told = await asyncio.gather(*specialists, *generalists)
        return tuple(line for lines in told for line in lines)

    async def _altered(
        self, triton: Replica[TritonEndpoint], names: tuple[ServiceName, ...]
    ) -> list[str]:
        bound = {n: self.services[n] for n in names if n in self.services}
        used = {n: one.identity for n, one in bound.items() if triton in one.replicas}
        if not used or triton.gauge().open:
            return []
        now = await self._ready(triton, tuple(used), {})
        return [
            altered_line(name, triton.url, used[name], identity)
            for name, identity in now.items()
            if identity != used[name]
        ]

    async def _served(self, problems: dict[str, str]) -> dict[ServiceName, Service]:
        """The specialists that any Triton has ready."""
        answers = await asyncio.gather(
            *(self._ready(triton, names, problems) for triton, names in self._tritons)
        )
        serving: dict[ServiceName, list[Replica[TritonEndpoint]]] = {}
        identities: dict[ServiceName, ModelIdentity] = {}
        for (triton, _), ready in zip(self._tritons, answers, strict=True):
            for name, identity in ready.items():
                first = identities.setdefault(name, identity)
                if identity == first:
                    serving.setdefault(name, []).append(triton)
                else:
                    there = serving[name][0].url
                    what = f"{name} is not used: {_differs(identity, first)} at {there}"
                    _add(problems, triton.url, what)
        return {
            name: self._service(name, identities[name], serving[name])
            for name in dict.fromkeys((*SERVICES, *serving))
            if name in serving
        }

    def _service(
        self, name: ServiceName, identity: ModelIdentity, tritons: list[Replica[TritonEndpoint]]
    ) -> Service:
        """The service as it is bound already, where nothing of it has changed."""
        bound = self.services.get(name)
        if bound is not None and bound.identity == identity and bound.replicas == tuple(tritons):
            return bound
        return Service(name, identity, EndpointPool(tritons, self.policy))

    async def _opened(self, name: ServiceName, problems: dict[str, str]) -> Generalist | None:
        """A generalist with the replicas that have its model; None where none has."""
        if not (transports := self._transports[name]):
            return None
        endpoint = self.settings.generalists[name.variant]
        generalist = Generalist(name, endpoint, EndpointPool(transports, self.policy), self.replies)
        try:
            await generalist.open(self.settings.probe_timeout)
        except ServiceError:  # they are its problems
            return None
        finally:
            for url, problem in generalist.problems.items():
                _add(problems, url, problem)
        bound = self.generalists.get(name)
        return bound if bound is not None and bound.is_still(generalist) else generalist

    async def _triton(self, endpoint: Endpoint) -> Replica[TritonEndpoint]:
        return await self.replica(endpoint.url, lambda policy: TritonEndpoint(endpoint, policy))

    async def _replicas(
        self, name: ServiceName, endpoint: GeneralistEndpoint
    ) -> list[Replica[Transport]]:
        transports = []
        for url in (endpoint.url, *endpoint.replicas):
            replica = endpoint.model_copy(update={"url": url, "replicas": ()})
            try:
                check_consent(replica)
            except ConfigError as error:
                _add(self._refused, url, str(error))
                continue
            transports.append(await self._transport(replica, name))
        return transports

    async def _transport(self, endpoint: GeneralistEndpoint, name: str) -> Replica[Transport]:
        concurrency = self.settings.concurrency
        return await self.replica(
            endpoint.url, lambda policy: transport_for(endpoint, policy, name, concurrency)
        )

    async def replica(self, url: str, connect: Callable[[RetryPolicy], E]) -> Replica[E]:
        """A server with its client, both closed with the panel: first the server's queue."""
        policy = policy_of(self.settings)
        calls = Concurrency.parsed(self.settings.concurrency)
        start = start_of(calls, self.policy.start, await self.replies.fact(_limit_of(url)))
        pool = replace(self.policy, start=start, least=calls.least or self.policy.least)

        def connected(server: Replica[E]) -> E:
            return connect(replace(policy, observe=server.observe, pause=server.pause))

        replica = Replica(url, connected, int(calls), pool)
        await self.stack.enter_async_context(replica.target)
        self.stack.callback(replica.close)
        return replica

    async def _ready(
        self,
        triton: Replica[TritonEndpoint],
        names: tuple[ServiceName, ...],
        problems: dict[str, str],
    ) -> Identities:
        """The services among these that a Triton has ready."""
        timeout = self.settings.probe_timeout
        try:
            await triton.target.server(timeout)
            ready = await asyncio.gather(*(_identity(triton.target, n, timeout) for n in names))
        except ServiceError as error:
            _add(problems, triton.url, error.detail)
            return {}
        return {name: one for name, one in zip(names, ready, strict=True) if one is not None}


def policy_of(settings: Settings) -> RetryPolicy:
    """How often and how long is asked."""
    return RetryPolicy(
        attempts=settings.attempts, deadline=settings.deadline, first_wait=settings.retry_wait
    )


def _limit_of(url: str) -> str:
    """The name of a fact."""
    return f"limit of {url}"


def _become(held: dict[K, V], now: Mapping[K, V]) -> None:
    """Replace what a dictionary holds; others hold the dictionary."""
    held.clear()
    held.update(now)


def _add(problems: dict[str, str], url: str, text: str) -> None:
    before = problems.get(url)
    problems[url] = f"{before}; {text}" if before else text


async def _identity(
    triton: TritonEndpoint, name: ServiceName, timeout: float
) -> ModelIdentity | None:
    if not await triton.ready(model_name(name), timeout):
        return None
    return await triton.identity(model_name(name), timeout)


def _differs(identity: ModelIdentity, first: ModelIdentity) -> str:
    if str(identity) == str(first):
        return f"{identity} here, but its fingerprint is not that of the same"
    return f"{identity} here, {first}"


def check_prices(settings: Settings) -> None:
    """That a limit of the cost can be held.

    Raises:
        ConfigError: a generalist has no price.
    """
    for name, generalist in settings.generalists.items():
        if settings.max_cost is not None and generalist.price is None:
            raise ConfigError(
                f"max_cost is set, but {ServiceName.generalist(name)} has no price",
                f"write price = {{input = …, output = …}} in [generalists.{name}]",
            )


def transport_for(
    endpoint: GeneralistEndpoint, policy: RetryPolicy, service: str, concurrency: int
) -> Transport:
    """The transport that an address asks for."""
    if urlsplit(endpoint.url).scheme == "grpc":
        from .vllm import VllmTransport

        return VllmTransport(endpoint, policy, service=service)
    from .openai import OpenAiTransport

    return OpenAiTransport(endpoint, policy, service=service, concurrency=concurrency)


def check_consent(endpoint: GeneralistEndpoint) -> None:
    """Refuse to send images to a server outside one's own network, or by a proxy, without consent.

    Raises:
        ConfigError: naming the host or the proxy, and the setting.
    """
    host = urlsplit(endpoint.url).hostname or ""
    proxy = proxy_of(endpoint.url)
    if endpoint.send_images or (_own_network(host) and proxy is None):
        return
    to, mend = f"{host}, outside your own network", "set send_images = true for this generalist"
    if proxy is not None:
        to = f"{host} by the proxy {without_password(proxy)}, which counts as leaving your network"
        mend += f" (or no_proxy={host})"
    raise ConfigError(f"{endpoint.url}: images would be sent to {to}", f"if they may be, {mend}")


def _own_network(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot, or in a domain that public name servers do not have.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private
