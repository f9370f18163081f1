"""The specialists that editjudge knows, and one of them as it is bound."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import ConfigError, NotServed
from .contracts import CONTRACTS, Contract
from .lanes import Lanes
from .triton import Identity, Reply, TritonEndpoint

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

NOT_KEPT = "not in the ledger"


@dataclass(frozen=True, slots=True)
class Service:
    """One bound service.

    Attributes:
        name: `role.variant`.
        identity: Which model it is, the same at every endpoint.
        lanes: Where it answers; None where only the ledger does.
    """

    name: str
    identity: Identity
    lanes: Lanes[TritonEndpoint] | None = None

    @property
    def endpoints(self) -> tuple[TritonEndpoint, ...]:
        """Where it answers, in the order of the settings."""
        return tuple(lane.target for lane in self.lanes.lanes) if self.lanes else ()

    async def __call__(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> Reply:
        """Call it on one request; see `TritonEndpoint.infer`."""
        return (await self.timed(inputs, parameters))[0]

    async def timed(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None
    ) -> tuple[Reply, float]:
        """Call it, and tell the seconds that the call took once it had its place."""
        if self.lanes is None:
            raise NotServed(NOT_KEPT, service=self.name)

        async def call(endpoint: TritonEndpoint) -> tuple[Reply, float]:
            start = time.monotonic()
            reply = await self.at(endpoint, inputs, parameters)
            return reply, time.monotonic() - start

        return await self.lanes.run(call)

    async def at(
        self,
        endpoint: TritonEndpoint,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
    ) -> Reply:
        """Call it at one of its endpoints, whatever that has to do."""
        return await endpoint.infer(
            SERVICES[self.name], self.identity.model, inputs, parameters, service=self.name
        )


def model_name(service: str) -> str:
    """The model that serves `role.variant`: `role_variant`."""
    return service.replace(".", "_")


def known(services: Iterable[str], url: str) -> tuple[str, ...]:
    """The services asked for at an endpoint.

    Raises:
        ConfigError: one is none of ours.
    """
    unknown = sorted(set(services) - set(SERVICES))
    if unknown:
        raise ConfigError(
            f"endpoint {url}: no service is named {', '.join(unknown)}",
            f"known services: {', '.join(SERVICES)}",
        )
    return tuple(services)
