"""A generalist that answers from the ledger alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ..config import GeneralistEndpoint
from ..errors import NotServed
from .budget import Budget
from .generalist import Generalist
from .lanes import Lanes
from .prompt import Prompt
from .services import NOT_KEPT
from .transport import JudgeModel, Sampling, Transport

if TYPE_CHECKING:
    from ..run.ledger import Ledger

_NOWHERE = "http://ledger/v1"
_FACT = re.compile(r"(?<=[(,])(temperature|max_tokens|seed|repeats|images|choices)=([^,)]*)")


class NoTransport(Transport):
    """Reaches nobody.

    Args:
        service: For errors.
    """

    url = _NOWHERE

    def __init__(self, service: str) -> None:
        self._service = service

    async def identify(self, timeout: float) -> JudgeModel:
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
    name: str, identity: str, ledger: Ledger, endpoint: GeneralistEndpoint | None = None
) -> Generalist:
    """A generalist as it was, whose calls are all in the ledger or fail.

    Args:
        name: `generalist.<name>`.
        identity: As it was told when the calls were made.
        endpoint: For settings that the identity does not hold.
    """
    told = dict(_FACT.findall(identity))
    known: dict[str, Any] = {
        kind: convert(told[kind])
        for kind, convert in (("temperature", float), ("max_tokens", int), ("repeats", int))
        if kind in told
    }
    if "seed" in told:
        known["seed"] = None if told["seed"] == "None" else int(told["seed"])
    if "images" in told:
        known["max_pixels"] = int(told["images"].rpartition(".")[2])
    endpoint = (endpoint or GeneralistEndpoint(url=_NOWHERE)).model_copy(update=known)
    lanes: Lanes[Transport] = Lanes.of(NoTransport(name), 1)
    return Generalist(name, endpoint, lanes, ledger, Budget(), identity=identity)
