"""Calls to services and what came back: what a ledger keeps, so that none is made twice."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from ..base.contracts import Tensors
from ..base.digest import content_digest
from ..base.errors import Abstained
from ..base.identity import ServiceName
from .prompt import Prompt

_MOST_TOKENS = 10**9
"""Of one call; what says more does not count."""


def _count_tokens(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls took, as the server counts it.

    Attributes:
        prompt_tokens: Images included.
        cached_tokens: Of these, found in the cache of prefixes; 0 where the server reports none.
        completion_tokens: Generated.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    @classmethod
    def from_counts(
        cls, prompt_tokens: object, cached_tokens: object, completion_tokens: object
    ) -> Self:
        """What a server says that a call took; 0 for what is no count of tokens."""
        tokens = _count_tokens(prompt_tokens)
        return cls(
            tokens, min(_count_tokens(cached_tokens), tokens), _count_tokens(completion_tokens)
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )


NO_USAGE = Usage()


@dataclass(frozen=True)
class Call:
    """One question to one judge.

    Attributes:
        judge: Identity of the judge, as in signatures.
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
        return _make_key([self.judge, self.prompt.digest, self.form, self.repeat])


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from a call.

    Attributes:
        content: Of a judge a JSON object: the text, or the probabilities. Of a specialist its
            tensors by name; or `kind` and `reason`, where it has no value for the input.
        model: The name that came back with it; empty of specialists.
        usage: What it took.
        cost: In the currency of the judge's price; None where it has none.
    """

    content: Mapping[str, Any]
    model: str = ""
    usage: Usage = NO_USAGE
    cost: float | None = None

    @property
    def abstains(self) -> bool:
        """Whether a specialist says that it has no value for the input."""
        return "kind" in self.content


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
        return _make_key(["specialist", self.service, self.identity, self.inputs, self.parameters])

    def outputs(self, reply: Reply) -> Tensors:
        """What the specialist returned.

        Raises:
            Abstained: it said that there is no value for this input.
        """
        if reply.abstains:
            why = reply.content
            raise Abstained(why["kind"], why["reason"], calls=(self.key,))
        return dict(reply.content)


AnyCall: TypeAlias = Call | SpecialistCall


class CallRecord(BaseModel):
    """One call, and what came back.

    Attributes:
        call: Its key.
        judge: Identity of the judge or specialist, as in signatures.
        model: The name that came back with the reply; None of specialists.
        prompt: Digest of the prompt; None of specialists.
        reply: The text, or the probabilities; why a specialist abstained.
        prompt_tokens: Of the prompt.
        cached_tokens: Of these, found in the server's prefix cache.
        completion_tokens: Of the reply.
        cost: In the currency of the judge's price; None where it has none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    call: str
    judge: str
    model: str | None
    prompt: str | None
    reply: JsonValue
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None


def dump_records(records: Iterable[CallRecord]) -> list[dict[str, Any]]:
    """Calls as JSON shows them beside the evidence of a verdict."""
    return [one.model_dump() for one in records]


def make_record(call: Call, reply: Reply) -> CallRecord:
    """A judge's reply, without the pictures that the call holds."""
    return CallRecord(
        call=call.key,
        judge=call.judge,
        model=reply.model,
        prompt=call.prompt.digest,
        reply=dict(reply.content),
        **asdict(reply.usage),
        cost=reply.cost,
    )


class ReplyStore(Protocol):
    """Where replies are kept, so that no call is made twice.

    What a method has returned from is kept. All of them raise `StoreError` where it cannot be.
    """

    async def get(self, call: AnyCall) -> Reply | None:
        """The reply to a call that was made before, or None."""

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Keep a reply, and return it as it will come back from now on: the first one stays."""

    async def get_records(self, keys: Iterable[str]) -> Mapping[str, CallRecord]:
        """What came back from calls, by key; those that are not known are left out."""

    async def get_fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""

    async def put_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""


class CallStore(ReplyStore, Protocol):
    """Where a run's calls are kept."""

    async def drop(self, keys: Iterable[str]) -> int:
        """Forget replies, so that the calls are made again; returns how many there were."""

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Keep what judges said to others who asked for us; what specialists did is too brief.

        It cost nothing here: whoever asked tells what was paid.
        """


class MemoryReplies:
    """The replies of judges, gone with their panel. A `ReplyStore`.

    Args:
        most: How many are remembered, the latest; None for all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        # Of a call no more is kept than is shown of it: a prompt holds its pictures.
        self._entries: OrderedDict[str, tuple[Reply, CallRecord]] = OrderedDict()
        self._facts: dict[str, str] = {}

    async def get(self, call: AnyCall) -> Reply | None:
        """The reply to a call that was made before, or None."""
        entry = self._entries.get(call.key)
        return entry[0] if entry else None

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Keep a judge's reply; the first one for a call stays."""
        if isinstance(call, SpecialistCall):
            return reply
        first_reply, _ = self._entries.setdefault(call.key, (reply, make_record(call, reply)))
        if self._most is not None and len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return first_reply

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """What came back from calls, by key; those that are not known are left out."""
        return {key: self._entries[key][1] for key in keys if key in self._entries}

    async def get_fact(self, name: str) -> str | None:
        """Something found out about a service before, or None."""
        return self._facts.get(name)

    async def put_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        self._facts[name] = value


def _make_key(depends: list[object]) -> str:
    text = to_canonical_json(depends)
    return content_digest(text.encode("utf-8", "surrogatepass"))


def to_canonical_json(value: object) -> str:
    """JSON text with sorted keys: equal values are equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
