"""The specialists that editjudge comes with, and calls to a specialist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from ..base.contracts import CONTRACTS, Contract, Tensors
from ..base.errors import ConfigError, NoModel
from ..base.identity import ModelIdentity, ServiceName
from ..base.parse import package_tables
from .calls import NOT_STORED
from .context import DEFAULT_TERMS, AnyTerms
from .recent_replies import RecentReplies

if TYPE_CHECKING:
    from ..base.config import Settings
    from .pool import EndpointPool
    from .replica import Replica
    from .triton import TritonEndpoint

SPECIALISTS: Mapping[ServiceName, Contract] = {
    ServiceName(role, variant): CONTRACTS[role]
    for role, variants in package_tables(__package__, "specialists.toml").items()
    for variant in variants
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
        recent: Stores its replies.
    """

    name: ServiceName
    identity: ModelIdentity
    pool: EndpointPool[TritonEndpoint] | None = None
    recent: RecentReplies = field(default_factory=lambda: RecentReplies(""), compare=False)

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
        return await self.pool.run(
            lambda endpoint: endpoint.infer(self.name, inputs, parameters or {}, terms), terms=terms
        )


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
