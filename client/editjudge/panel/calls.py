"""Calls to services and what came back: what a ledger keeps, so that none is made twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.contracts import Tensors
from ..base.digest import content_digest
from ..base.errors import Abstained
from ..base.identity import ServiceName
from .prompt import Prompt
from .said import Said


@dataclass(frozen=True)
class Call:
    """One question to one generalist.

    Attributes:
        judge: Identity of the generalist, as in signatures.
        form: What sort of answer is asked for, with all that shapes it: choices or schema,
            sampling.
        repeat: Index among non-deterministic calls that are otherwise the same.
    """

    judge: str
    prompt: Prompt
    form: Mapping[str, Any]
    repeat: int = 0

    @cached_property
    def key(self) -> str:
        """`sha256:` and 64 hex digits."""
        return _key([self.judge, self.prompt.digest, self.form, self.repeat])


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        content: JSON object: the text, or the probabilities.
        model: The name that came back with it.
        cost: In the currency of the generalist's price; None where it has none.
        seconds: From the first attempt to the reply.
    """

    content: Mapping[str, Any]
    model: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    attempts: int
    cost: float | None
    seconds: float


@dataclass(frozen=True)
class SpecialistCall:
    """One request to one specialist.

    Attributes:
        service: `role.variant`.
        identity: Which model it is, as in signatures.
        inputs: Digest of each tensor's bytes, by its name.
        parameters: What travels beside them.
    """

    service: ServiceName
    identity: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """`sha256:` and 64 hex digits."""
        return _key(["specialist", self.service, self.identity, self.inputs, self.parameters])

    @property
    def role(self) -> str:
        """The role whose contract it follows."""
        return self.service.role


class ReplyStore(Protocol):
    """Where generalists' replies are kept, so that no call is made twice.

    What a method has returned from is kept. All of them raise `StoreError` where it cannot be.
    """

    async def get(self, call: Call) -> Reply | None:
        """The reply to a call that was made before, or None."""

    async def put(self, call: Call, reply: Reply) -> None:
        """Keep a reply; the first one for a call stays."""

    async def said(self, keys: Iterable[str]) -> Mapping[str, Said]:
        """What came back from calls, by key; those that are not known are left out."""

    async def fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""

    async def keep_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""


class CallStore(ReplyStore, Protocol):
    """Where all calls are kept, specialists' too."""

    async def outputs(self, call: SpecialistCall) -> Tensors | None:
        """What a specialist returned before, or None; raises what it abstained with."""

    async def keep_outputs(
        self,
        call: SpecialistCall,
        outputs: Mapping[str, NDArray[np.float32] | bytes],
        seconds: float,
    ) -> Tensors:
        """Keep what a specialist returned, and return it as it will come back from now on."""

    async def keep_abstention(self, call: SpecialistCall, kind: str, reason: str) -> Abstained:
        """Keep that a specialist abstained, and return what `outputs` raises from now on."""

    async def drop(self, keys: Iterable[str]) -> int:
        """Forget replies, so that the calls are made again; returns how many there were."""


class OthersCallStore(CallStore, Protocol):
    """A store that also keeps what was said to others who asked for us."""

    async def keep_said(self, said: Iterable[Said]) -> None:
        """Keep what generalists said to others who asked for us; what specialists did is too brief.

        It cost nothing here: whoever asked tells what was paid.
        """


def _key(depends: list[object]) -> str:
    text = call_json(depends)
    return content_digest(text.encode("utf-8", "surrogatepass"))


def call_json(value: object) -> str:
    """JSON text with sorted keys: equal values are equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
