"""The specialists that editjudge knows, and a bound specialist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.contracts import CONTRACTS, Contract, Tensors
from ..base.digest import content_digest
from ..base.errors import Abstained, ConfigError, NotServed
from ..base.identity import ModelIdentity, ServiceName
from .calls import Reply, ReplyStore, SpecialistCall
from .coalesce import Coalescer
from .context import DEFAULT_TERMS, AnyTerms, CallContext, SharedTerms
from .judge import NOT_STORED
from .pool import EndpointPool
from .replica import Replica
from .triton import TritonEndpoint

if TYPE_CHECKING:
    from ..base.config import Settings

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
"""Every service editjudge knows, as `role.variant`; the model is named `role_variant`."""

_OWN = re.compile(rf"({'|'.join(CONTRACTS)})\.[a-z][a-z0-9_]{{0,39}}")


@dataclass(frozen=True, slots=True)
class Specialist:
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

    async def call(
        self,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
        terms: AnyTerms = DEFAULT_TERMS,
    ) -> Tensors:
        """Call it at the endpoint that has room."""
        if self.pool is None:
            raise NotServed(NOT_STORED, service=self.name)
        return await self.pool.run(
            lambda endpoint: self.call_at(endpoint, inputs, parameters, terms), terms=terms
        )

    async def call_at(
        self,
        endpoint: TritonEndpoint,
        inputs: Mapping[str, bytes],
        parameters: Mapping[str, str] | None = None,
        terms: AnyTerms = DEFAULT_TERMS,
    ) -> Tensors:
        """Call it at one of its endpoints, whatever that has to do."""
        return await endpoint.infer(
            CONTRACTS[self.name.role],
            model_name(self.name),
            inputs,
            parameters,
            service=self.name,
            terms=terms,
        )


class SpecialistCache:
    """Asks the store of calls first, and keeps there what services answer.

    Outputs are returned as they come back from the store, so that a run that was resumed and
    one that was not give the same numbers. Abstentions are kept too, failures never.
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
        """The outputs of a call, made now or before.

        Raises:
            Abstained: the service has no value for this input.
            ServiceError: see `editjudge.base.errors`.
        """
        digests = {name: content_digest(data) for name, data in inputs.items()}
        call = SpecialistCall(service.name, str(service.identity), digests, parameters or {})
        for log in context.logs:
            log.specialist_calls.add(call.key)

        async def get_or_make(terms: SharedTerms) -> Reply:
            if (stored_reply := await calls.get(call)) is not None:
                context.add_counts(stored_replies=1)
                return stored_reply
            context.add_counts(requests=1)
            content: Mapping[str, Any]
            try:
                content = await service.call(inputs, parameters, terms)
            except Abstained as error:
                content = {"kind": error.kind, "reason": error.reason}
            context.add_counts(answers=1)
            return await calls.put(call, Reply(content))

        reply = await self._coalescer((id(calls), call.key), get_or_make, context.terms)
        return call.outputs(reply)


def model_name(service: str) -> str:
    """The model that serves `role.variant`: `role_variant`."""
    return service.replace(".", "_")


def parse_services(services: Iterable[str], url: str) -> tuple[ServiceName, ...]:
    """The services asked for at an endpoint: ours, or others of a role that has a contract.

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
    """The services that endpoints of the settings name and that are none of ours.

    Raises:
        ConfigError: see `known`.
    """
    names = (parse_services(each.services, each.url) for each in settings.endpoints.values())
    return filter_custom(chain.from_iterable(names))


def filter_custom(names: Iterable[ServiceName]) -> tuple[ServiceName, ...]:
    """Those of specialists that are none of ours, each once."""
    each = dict.fromkeys(name for name in names if name.role in CONTRACTS)
    return tuple(name for name in each if name not in SPECIALISTS)
