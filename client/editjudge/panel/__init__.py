"""The services at hand, found and bound as `role.variant`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..config import Endpoint, GeneralistEndpoint, Settings
from ..errors import ConfigError, NotServed, ServiceError
from .budget import Budget
from .contracts import CONTRACTS, Contract
from .generalist import Generalist, check_consent, transport_for
from .retry import RetryPolicy
from .triton import Identity, Reply, TritonEndpoint

if TYPE_CHECKING:
    from ..run.ledger import Ledger

__all__ = ["SERVICES", "Panel", "Service"]

SERVICES: Mapping[str, Contract] = {
    name: CONTRACTS[name.partition(".")[0]]
    for name in (
        "quality.piqe",
        "quality.qinsight",
        "aesthetics.artimuse",
        "ocr.ppocr",
        "ocr.got",
        "features.dinov3",
        "features.dinov2",
        "clip.vit_b_32",
        "lpips.vgg",
        "lpips.alex",
        "segmenter.grounded_sam",
        "segmenter.grounded_sam_huge",
        "segmenter.sa2va",
    )
}
"""Every service editjudge knows, as `role.variant`; the model is named `role_variant`."""


@dataclass(frozen=True, slots=True)
class Service:
    """One bound service.

    Attributes:
        name: `role.variant`.
        endpoint: Where it answers.
        identity: Which model it is.
    """

    name: str
    endpoint: TritonEndpoint
    identity: Identity

    async def __call__(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> Reply:
        """Call it on one request; see `TritonEndpoint.infer`."""
        return await self.endpoint.infer(
            SERVICES[self.name], self.identity.model, inputs, parameters, service=self.name
        )


class Panel:
    """The judges of a run; use as an async context manager.

    On entry every endpoint is asked which of the known services it has ready. One that
    cannot be reached does not stop the others: `problems` says what is missing and why.

    Attributes:
        services: Bound specialists by `role.variant`.
        generalists: Bound multimodal LLMs by `generalist.<name>`.
        problems: Endpoint URL to what is wrong with it.
        budget: What generalists have cost.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._limits: dict[str, asyncio.Semaphore] = {}
        self.services: dict[str, Service] = {}
        self.generalists: dict[str, Generalist] = {}
        self.budget = Budget(settings.max_cost)
        self.problems: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        try:
            for endpoint in self._settings.endpoints.values():
                await self._bind(endpoint)
            await self._bind_generalists()
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
        """Call a service on one request, within its endpoint's limit.

        Raises:
            NotServed: no endpoint has the service.
            Abstained: it says there is no value for this input.
            ServiceError: see `editjudge.errors`.
        """
        bound = self.services.get(service)
        if bound is None:
            raise NotServed(self.why_not(service), service=service)
        async with self._limits[bound.endpoint.url]:
            return await bound(inputs, parameters)

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
        if role == "generalist":
            endpoint = self._settings.generalists.get(name)
            if endpoint is None:
                return "no generalist is configured (--generalist URL, or docs/configuration.md)"
            return f"{endpoint.url}: {self.problems.get(endpoint.url, 'not bound')}"
        urls = [endpoint.url for endpoint in self._settings.endpoints.values()]
        if problems := [f"{url}: {self.problems[url]}" for url in urls if url in self.problems]:
            return "; ".join(problems)
        if not self._settings.endpoints:
            return "no endpoint is configured and no local stack runs (editjudge up)"
        return f"not among the models ready at {', '.join(urls)}"

    def identities(self) -> dict[str, str]:
        """Identity of every bound service, for signatures."""
        return {
            **{name: str(service.identity) for name, service in self.services.items()},
            **{name: generalist.identity for name, generalist in self.generalists.items()},
        }

    @property
    def _policy(self) -> RetryPolicy:
        return RetryPolicy(
            attempts=self._settings.attempts,
            deadline=self._settings.deadline,
            first_wait=self._settings.retry_wait,
        )

    async def _bind_generalists(self) -> None:
        from ..run.ledger import Ledger

        if not self._settings.generalists:
            return
        ledger = self._stack.enter_context(Ledger(self._settings.ledger))
        for name, endpoint in self._settings.generalists.items():
            await self._bind_generalist(f"generalist.{name}", endpoint, ledger)

    async def _bind_generalist(
        self, name: str, endpoint: GeneralistEndpoint, ledger: Ledger
    ) -> None:
        settings = self._settings
        if settings.max_cost is not None and endpoint.price is None:
            raise ConfigError(f"max_cost is set, but {name} has no price", "give it one")
        try:
            check_consent(endpoint)
        except ConfigError as error:
            self.problems[endpoint.url] = str(error)
            return
        transport = transport_for(endpoint, self._policy, name, settings.concurrency)
        await self._stack.enter_async_context(transport)
        generalist = Generalist(
            name, endpoint, transport, ledger, self.budget, concurrency=settings.concurrency
        )
        try:
            await generalist.open(settings.probe_timeout)
        except ServiceError as error:
            self.problems[endpoint.url] = error.detail
            return
        self.generalists[name] = generalist

    async def _bind(self, endpoint: Endpoint) -> None:
        wanted = _known(endpoint.services or SERVICES, endpoint.url)
        triton = TritonEndpoint(endpoint, self._policy)
        await self._stack.enter_async_context(triton)
        self._limits[triton.url] = asyncio.Semaphore(self._settings.concurrency)
        timeout = self._settings.probe_timeout
        try:
            await triton.server(timeout)
            found = await asyncio.gather(*(_find(triton, name, timeout) for name in wanted))
        except ServiceError as error:
            self.problems[triton.url] = error.detail
            return
        for service in found:
            if service is not None:
                self.services.setdefault(service.name, service)


def model_name(service: str) -> str:
    """The model that serves `role.variant`: `role_variant`."""
    return service.replace(".", "_")


async def _find(triton: TritonEndpoint, name: str, timeout: float) -> Service | None:
    if not await triton.ready(model_name(name), timeout):
        return None
    return Service(name, triton, await triton.identity(model_name(name), timeout))


def _known(services: Iterable[str], url: str) -> tuple[str, ...]:
    unknown = sorted(set(services) - set(SERVICES))
    if unknown:
        raise ConfigError(
            f"endpoint {url}: no service is named {', '.join(unknown)}",
            f"known services: {', '.join(SERVICES)}",
        )
    return tuple(services)
