"""Calls to judges and specialists, their replies, and the stores that save making a call twice."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import add, attrgetter
from typing import Any, Protocol, Self, TypeAlias

from pydantic import JsonValue

from ..base.contracts import Tensors
from ..base.digest import content_digest
from ..base.errors import Abstention
from ..base.identity import ServiceName
from ..base.strict import Strict, list_fields
from .prompt import PIXELS_PER_TOKEN, Prompt, Text

NOT_STORED = "not in the ledger"
_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=dict)
_MOST_TOKENS = 10**9
"""The most tokens that one call can take; a server that reports more is not believed."""


def _tokens(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that calls took, as the server counts them.

    Attributes:
        prompt_tokens: Tokens of the prompts, images included.
        cached_tokens: Those of them that the server found in its prefix cache; 0 if it reports
            none.
        completion_tokens: Tokens of the replies.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    @classmethod
    def from_counts(cls, prompt: object, cache_hits: object, completion: object) -> Self:
        """Usage as a server reports it; anything that is no plausible count of tokens becomes 0."""
        tokens = _tokens(prompt)
        return cls(tokens, min(_tokens(cache_hits), tokens), _tokens(completion))

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, _read_counts(self), _read_counts(other)))


_read_counts = attrgetter(*(each.name for each in fields(Usage)))
NO_USAGE = Usage()


@dataclass(frozen=True)
class Call:
    """One question to one judge.

    Attributes:
        judge: Identity of the judge, as in signatures.
        form: The form of the answer and all that shapes it: choices or schema, and sampling.
        repeat: Index among sampled calls that are otherwise equal.
    """

    judge: str
    prompt: Prompt
    form: Mapping[str, Any]
    repeat: int = 0

    @cached_property
    def key(self) -> str:
        """Digest of the call: `sha256:` and 64 hex digits. Equal calls have equal keys."""
        return _make_key([self.judge, self.prompt.digest, self.form, self.repeat])

    @property
    def most_tokens(self) -> int:
        """About the most tokens that it takes: of text no token is less than a byte."""
        prompt = self.prompt
        texts = [prompt.system, *(part.text for part in prompt.parts if isinstance(part, Text))]
        pixels = sum(math.prod(picture.size) for picture in prompt.pictures)
        tokens = len("".join(texts).encode()) + pixels // PIXELS_PER_TOKEN
        return tokens + int(self.form.get("max_tokens", 1))


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a call.

    Attributes:
        content: Of a judge a JSON object with the text or the probabilities, of a specialist its
            tensors by name. `kind` and `reason` where there is no answer.
        model: The model's name as the reply states it; empty for specialists.
        usage: Tokens that the call took.
        cost: Cost in the currency of the judge's price; None without a price.
    """

    content: Mapping[str, Any]
    model: str = ""
    usage: Usage = NO_USAGE
    cost: float | None = None

    @property
    def abstains(self) -> bool:
        """Whether a specialist has no value for the input, or a judge gave no answer."""
        return "kind" in self.content

    def require_answer(self, *calls: str) -> Mapping[str, Any]:
        """The content.

        Args:
            calls: Keys of the calls that an abstention names.

        Raises:
            Abstention: the reply abstains.
        """
        if self.abstains:
            raise Abstention(self.content["kind"], self.content["reason"], calls=calls)
        return self.content


@dataclass(frozen=True)
class SpecialistCall:
    """One request to one specialist.

    Attributes:
        service: `role.variant`.
        identity: Identity of the specialist, as in signatures.
        inputs: Digest of each input tensor's bytes, by name.
        parameters: Parameters of the request.
    """

    service: ServiceName
    identity: str
    inputs: Mapping[str, str]
    parameters: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Digest of the call: `sha256:` and 64 hex digits. Equal calls have equal keys."""
        return _make_key(["specialist", self.service, self.identity, self.inputs, self.parameters])

    def outputs(self, reply: Reply) -> Tensors:
        """The output tensors in a reply.

        Raises:
            Abstention: the specialist has no value for this input.
        """
        return dict(reply.require_answer(self.key))


AnyCall: TypeAlias = Call | SpecialistCall
Account: TypeAlias = Callable[[float, float], Awaitable[tuple[float, float]]]
"""Stores what this process has spent of a budget so far, and its dearest call; returns the sum of
what all other processes have spent, and their dearest call."""


class CallRecord(Strict):
    """One call with its reply, as it is stored and shown: without the pictures of the prompt.

    Attributes:
        call: Key of the call.
        judge: Identity of the judge or specialist, as in signatures.
        model: The model's name as the reply states it; None for specialists.
        prompt: Digest of the prompt; None for specialists.
        reply: The text or the probabilities; for a specialist the reason of its abstention.
        prompt_tokens: Tokens of the prompt.
        cached_tokens: Those of them that the server found in its prefix cache.
        completion_tokens: Tokens of the reply.
        cost: Cost in the currency of the judge's price; None without a price.
    """

    call: str
    judge: str
    model: str | None
    prompt: str | None
    reply: JsonValue
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost: float | None


def make_record(call: Call, reply: Reply) -> CallRecord:
    """The record of a call to a judge, without the pictures that the call holds."""
    return CallRecord(
        call=call.key,
        judge=call.judge,
        model=reply.model,
        prompt=call.prompt.digest,
        reply=dict(reply.content),
        **list_fields(reply.usage),
        cost=reply.cost,
    )


class ReplyStore(Protocol):
    """A store of replies, so that no call is made twice.

    A reply or fact is stored when the method that takes it has returned. Every method raises
    `StoreError` where the store cannot be read or written.
    """

    async def get(self, call: AnyCall) -> Reply | None:
        """The stored reply to a call, or None."""

    @asynccontextmanager
    async def claim(self, call: AnyCall) -> AsyncIterator[Reply | None]:
        """Get the stored reply, or None for who is to make the call, inside the block.

        Until the block ends no other process that uses the store makes the call. A store of one
        process has nothing to hold back.
        """
        yield await self.get(call)

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Store a reply and return the stored one: the first reply to a call is never replaced."""

    async def drop(self, keys: Iterable[str]) -> int:
        """Remove replies, so that their calls are made again; returns how many were removed."""

    async def get_records(self, keys: Iterable[str]) -> Mapping[str, CallRecord]:
        """Records of stored calls by key; unknown keys are left out."""

    async def get_fact(self, name: str) -> str | None:
        """A stored fact about a service, or None."""

    async def put_fact(self, name: str, value: str) -> None:
        """Store a fact about a service; it replaces an earlier one."""

    def open_account(self, budget: str) -> Account | None:
        """Open the account of a budget that processes share; None where the store has none."""
        return None


class CallStore(ReplyStore, Protocol):
    """The store of a run's calls.

    Attributes:
        repeated_count: How many replies came when the call had one, so that it was made twice.
    """

    repeated_count: int

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Store calls to judges that a Judge service made for this run.

        Their cost is booked elsewhere, from the service's reply. Calls to specialists are not among
        them.
        """


class MemoryReplies(ReplyStore):
    """A `ReplyStore` in memory, for the replies of judges; it is gone with its panel.

    Args:
        most: How many replies are stored; beyond that the oldest are dropped. None for all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        # A record and not the call is stored, because the call's prompt holds pictures.
        self._entries: OrderedDict[str, tuple[Reply, CallRecord]] = OrderedDict()
        self._facts: dict[str, str] = {}

    async def get(self, call: AnyCall) -> Reply | None:
        """The stored reply to a call, or None."""
        entry = self._entries.get(call.key)
        return entry[0] if entry else None

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Store a judge's reply and return the stored one: the first reply is never replaced.

        A specialist's reply is returned and not stored.
        """
        if isinstance(call, SpecialistCall):
            return reply
        first_reply, _ = self._entries.setdefault(call.key, (reply, make_record(call, reply)))
        if self._most is not None and len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return first_reply

    async def drop(self, keys: Iterable[str]) -> int:
        """Remove replies; returns how many were removed."""
        return sum(self._entries.pop(key, None) is not None for key in keys)

    async def get_records(self, keys: Iterable[str]) -> dict[str, CallRecord]:
        """Records of stored calls by key; unknown keys are left out."""
        return {key: self._entries[key][1] for key in keys if key in self._entries}

    async def get_fact(self, name: str) -> str | None:
        """A stored fact about a service, or None."""
        return self._facts.get(name)

    async def put_fact(self, name: str, value: str) -> None:
        """Store a fact about a service; it replaces an earlier one."""
        self._facts[name] = value


def _make_key(depends: list[object]) -> str:
    text = to_canonical_json(depends)
    return content_digest(text.encode("utf-8", "surrogatepass"))


def to_canonical_json(value: object) -> str:
    """JSON text with sorted keys, so that equal values have equal texts."""
    return _CANONICAL.encode(value)
