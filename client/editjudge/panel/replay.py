"""A generalist that answers from the ledger alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ..base.config import GeneralistEndpoint
from ..base.errors import NotServed
from ..base.identity import ModelIdentity, ServiceName
from .calls import ReplyStore
from .generalist import Generalist, limit_of
from .pictures import max_pixels_of
from .pool import EndpointPool
from .prompt import Prompt
from .services import NOT_KEPT
from .transport import GeneralistModel, Sampling, Transport

_NOWHERE = "http://ledger/v1"


class NoTransport(Transport):
    """Reaches no server.

    Args:
        service: For errors.
    """

    url = _NOWHERE

    def __init__(self, service: str) -> None:
        self._service = service

    async def identify(self, timeout: float) -> GeneralistModel:
        """Raises `NotServed`."""
        self._refuse()

    async def choose(self, prompt: Prompt, choices: tuple[str, ...]) -> NoReturn:
        """Raises `NotServed`."""
        self._refuse()

    async def complete(
        self, prompt: Prompt, sampling: Sampling, schema: Mapping[str, Any] | None = None
    ) -> NoReturn:
        """Raises `NotServed`."""
        self._refuse()

    async def close(self) -> None:
        """Nothing is open."""

    def _refuse(self) -> NoReturn:
        raise NotServed(NOT_KEPT, service=self._service)


def replaying(
    name: ServiceName,
    identity: ModelIdentity,
    ledger: ReplyStore,
    endpoint: GeneralistEndpoint | None = None,
) -> Generalist:
    """A generalist as it was, whose calls are all in the ledger or fail.

    Args:
        name: `generalist.<name>`.
        identity: As it was when the calls were made.
        endpoint: For settings that the identity does not hold.
    """
    facts = identity.facts
    known: dict[str, Any] = {
        kind: convert(facts[kind])
        for kind, convert in (("temperature", float), ("max_tokens", limit_of))
        if kind in facts
    }
    if "repeats" in facts:
        known["samples"] = int(facts["repeats"])
    # What is only looked up costs nothing, so nobody need pay.
    known["price"] = None
    if "seed" in facts:
        known["seed"] = None if facts["seed"] == "None" else int(facts["seed"])
    if "images" in facts:
        known["max_pixels"] = max_pixels_of(facts["images"])
    endpoint = (endpoint or GeneralistEndpoint(url=_NOWHERE)).model_copy(update=known)
    pool: EndpointPool[Transport] = EndpointPool.of(NoTransport(name), 1)
    return Generalist(name, endpoint, pool, ledger, identity=identity)
