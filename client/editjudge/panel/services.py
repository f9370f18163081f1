"""The specialists that editjudge knows, and a bound specialist."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..base.contracts import CONTRACTS, Contract, Tensors
from ..base.errors import ConfigError, NotServed
from ..base.identity import ModelIdentity, ServiceName
from .pool import EndpointPool
from .replica import Replica
from .triton import TritonEndpoint

SERVICES: Mapping[ServiceName, Contract] = {
    name: CONTRACTS[name.role]
    for name in map(
        ServiceName.parsed,
        (
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
        ),
    )
}
"""Every service editjudge knows, as `role.variant`; the model is named `role_variant`."""

NOT_KEPT = "not in the ledger"


@dataclass(frozen=True, slots=True)
class Service:
    """A bound specialist.

    Attributes:
        name: `role.variant`.
        identity: Which model it is, the same at every endpoint.
        pool: Of the servers that have it; None where only the ledger answers.
    """

    name: ServiceName
    identity: ModelIdentity
    pool: EndpointPool[TritonEndpoint] | None = None

    @property
    def replicas(self) -> tuple[Replica[TritonEndpoint], ...]:
        """The servers that have it, in the order of the settings."""
        return self.pool.replicas if self.pool else ()

    @property
    def endpoints(self) -> tuple[TritonEndpoint, ...]:
        """The clients of its servers, in the order of the settings."""
        return tuple(replica.target for replica in self.replicas)

    async def __call__(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> Tensors:
        """Call it on one request; see `TritonEndpoint.infer`."""
        return (await self.timed(inputs, parameters))[0]

    async def timed(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> tuple[Tensors, float]:
        """Call it; also returns the seconds that the call took once it had its place."""
        if self.pool is None:
            raise NotServed(NOT_KEPT, service=self.name)

        async def call(endpoint: TritonEndpoint) -> tuple[Tensors, float]:
            start = time.monotonic()
            reply = await self.at(endpoint, inputs, parameters)
            return reply, time.monotonic() - start

        return await self.pool.run(call)

    async def at(
        self,
        endpoint: TritonEndpoint,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
    ) -> Tensors:
        """Call it at one of its endpoints, whatever that has to do."""
        return await endpoint.infer(
            SERVICES[self.name], model_name(self.name), inputs, parameters, service=self.name
        )


def model_name(service: str) -> str:
    """The model that serves `role.variant`: `role_variant`."""
    return service.replace(".", "_")


def known(services: Iterable[str], url: str) -> tuple[ServiceName, ...]:
    """The services asked for at an endpoint.

    Raises:
        ConfigError: a name is not in `SERVICES`.
    """
    unknown = sorted(set(services) - set(SERVICES))
    if unknown:
        raise ConfigError(
            f"endpoint {url}: no service is named {', '.join(unknown)}",
            f"known services: {', '.join(SERVICES)}",
        )
    return tuple(map(ServiceName.parsed, services))
