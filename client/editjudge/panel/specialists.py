"""The specialists that editjudge comes with, and calls to a specialist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.contracts import CONTRACTS, Contract, Tensors
from ..base.digest import content_digest
from ..base.errors import Abstention, ConfigError, NoModel
from ..base.identity import ModelIdentity, ServiceName
from .calls import NOT_STORED, Reply, ReplyStore, SpecialistCall
from .coalesce import Coalescer
from .context import DEFAULT_TERMS, AnyTerms, CallContext, SharedTerms

if TYPE_CHECKING:
    from ..base.config import Settings
    from .pool import EndpointPool
    from .replica import Replica
    from .triton import TritonEndpoint

SPECIALISTS: Mapping[ServiceName, Contract] = {
    name: CONTRACTS[name.role]
    for name in map(
        ServiceName.parse,
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
"""Every specialist that editjudge comes with, as `role.variant`, and the contract of its role."""

_OWN = re.compile(rf"({'|'.join(CONTRACTS)})\.[a-z][a-z0-9_]{{0,39}}")


@dataclass(frozen=True, slots=True)
class Specialist:
    """A specialist that can be called.

    Attributes:
        name: `role.variant`.
        identity: Identity of the model, the same at every endpoint.
        pool: The servers that have it; None where only a ledger answers.
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

    async def call(
        self, inputs: Mapping[str, bytes], parameters: Mapping[str, str] | None = None, terms: AnyTerms = DEFAULT_TERMS
    ) -> Tensors:
        """Call it at one of its endpoints, chosen by its pool.

        Raises:
            NoModel: it has no servers, because only a ledger answers.
            Abstention: it has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        if self.pool is None:
            raise NoModel(NOT_STORED, service=self.name)
        return await self.pool.run(lambda endpoint: self.call_at(endpoint, inputs, parameters, terms), terms=terms)

    async def call_at(
        self,
        endpoint: TritonEndpoint,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
        terms: AnyTerms = DEFAULT_TERMS,
    ) -> Tensors:
        """Call it at the given endpoint, past its pool and its limits."""
        return await endpoint.infer(
            CONTRACTS[self.name.role], model_name(self.name), inputs, parameters, service=self.name, terms=terms
        )


class SpecialistCache:
    """Answers calls to specialists from a store, and stores the answers of those that are made.

    Identical calls that run side by side are made once (`Coalescer`). Outputs are returned as they
    come back from the store, so that a resumed run and an uninterrupted one give the same numbers.
    Abstentions are stored too, failures never.
    """

    def __init__(self) -> None:
        self._coalescer: Coalescer[Reply] = Coalescer()

    async def __call__(
        self,
        calls: ReplyStore,
        service: Specialist,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None,
        context: CallContext,
    ) -> Tensors:
        """The outputs of a call, from the store or made now.

        Raises:
            Abstention: the specialist has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        digests = {name: content_digest(data) for name, data in inputs.items()}
        call = SpecialistCall(service.name, str(service.identity), digests, parameters or {})
        for log in context.logs:
            log.specialist_calls.add(call.key)

        async def get_or_make(terms: SharedTerms) -> Reply:
            async with calls.claim(call) as stored_reply:
                if stored_reply is not None:
                    context.add_counts(stored_replies=1)
                    return stored_reply
                context.add_counts(requests=1)
                content: Mapping[str, Any]
                try:
                    content = await service.call(inputs, parameters, terms)
                except Abstention as error:
                    content = {"kind": error.kind, "reason": error.reason}
                context.add_counts(answers=1)
                return await calls.put(call, Reply(content))

        reply = await self._coalescer((id(calls), call.key), get_or_make, context.terms)
        return call.outputs(reply)


def model_name(service: str) -> str:
    """The name at Triton of the model that serves `role.variant`: `role_variant`."""
    return service.replace(".", "_")


def parse_services(services: Iterable[str], url: str) -> tuple[ServiceName, ...]:
    """The names of the services of an endpoint: ours, or custom ones of a role that has a contract.

    Raises:
        ConfigError: a name is no `role.variant`, or there is no such role.
    """
    names = tuple(services)
    unknown = [name for name in names if name not in SPECIALISTS and not _OWN.fullmatch(name)]
    if unknown:
        raise ConfigError(
            f"endpoint {url}: no service is named {', '.join(unknown)}",
            f"known services: {', '.join(SPECIALISTS)}; one of your own is role.variant, variant"
            f" in small letters, digits and _, role one of {', '.join(CONTRACTS)}",
        )
    return tuple(map(ServiceName.parse, names))


def list_custom_services(settings: Settings) -> tuple[ServiceName, ...]:
    """The services that endpoints of the settings name and editjudge does not come with.

    Raises:
        ConfigError: see `parse_services`.
    """
    names = (parse_services(each.services, each.url) for each in settings.endpoints.values())
    return filter_custom(chain.from_iterable(names))


def filter_custom(names: Iterable[ServiceName]) -> tuple[ServiceName, ...]:
    """The specialists among these that editjudge does not come with, each once."""
    each = dict.fromkeys(name for name in names if name.role in CONTRACTS)
    return tuple(name for name in each if name not in SPECIALISTS)
