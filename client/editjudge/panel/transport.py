"""The interface of a transport: the calls that a judge's server takes, over HTTP or gRPC."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..base.config import JudgeEndpoint
from .calls import Reply
from .context import NO_CALLER, CallContext
from .grpc_channel import Connection
from .prompt import Prompt

Finish: TypeAlias = Literal["stop", "length", "other"]
"""How a reply ended: by itself, cut at `max_tokens`, or otherwise."""
_FINISHES: Mapping[str, Finish] = {"stop": "stop", "length": "length"}
MAX_TOKENS = 1024
"""Of a reply, where neither a prompt nor the settings ask for another limit."""
LONGEST_NAME = 256
"""Characters of a model's name."""


def read_finish(reason: object) -> Finish:
    """How a reply ended, by its server's word for it."""
    return _FINISHES.get(str(reason), "other")


def format_limit(limit: int | None) -> str:
    """The token limit of replies as a fact of the identity.

    Without a limit in the settings it is written as the default limit always was, so that earlier
    verdicts stay valid.
    """
    if limit is None:
        return str(MAX_TOKENS)
    return f"{limit} at most" if limit == MAX_TOKENS else str(limit)


def parse_limit(fact: str) -> int | None:
    """The token limit of the settings, from the fact that `format_limit` makes."""
    return None if fact == str(MAX_TOKENS) else int(fact.removesuffix(" at most"))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is generated.

    Attributes:
        temperature: 0 is greedy; None leaves it to the server.
        top_p: Probability mass of nucleus sampling; 1 is all.
        max_tokens: Limit of the reply's tokens; a reply that reaches it is cut, and marked as cut.
        seed: None sends none.
        schema: JSON schema that the reply has to follow, where the server can enforce it.
    """

    temperature: float | None = 0.0
    top_p: float = 1.0
    max_tokens: int = MAX_TOKENS
    seed: int | None = 0
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RequestForm:
    """What a server takes of a request; it is found out by a call before any reply is stored.

    Attributes:
        left_out: Settings that it refuses, of `temperature`, `seed` and `schema`. They are not
            sent: its own temperature and seed hold, and no reply is held to a schema.
    """

    left_out: frozenset[str] = frozenset()

    def without(self, setting: str) -> RequestForm:
        """The form that leaves out one setting more."""
        return RequestForm(self.left_out | {setting})

    def apply(self, endpoint: JudgeEndpoint) -> JudgeEndpoint:
        """The settings of a judge as they are sent."""
        values = {"temperature": "default", "seed": None}
        changes = {name: value for name, value in values.items() if name in self.left_out}
        return endpoint.model_copy(update=changes) if changes else endpoint


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """The model of a judge's server.

    Attributes:
        name: Its name at the server, which requests ask for.
        server: Kind and version of the server where it reports them, for example `vllm 0.32.0`.
        facts: What else the server reports of the model (context length, root, media).
    """

    name: str
    server: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


class Transport(Connection):
    """A client of one judge's server; use as an async context manager.

    `OpenAiTransport` and `VllmTransport` implement it. Every method retries within the policy's
    deadline and raises `ServiceError`s that name the server. Methods may run side by side, and a
    cancelled one leaves the connection usable. Replies have no cost yet.
    """

    @property
    def takes_all(self) -> bool:
        """Whether the server takes every field that is sent, so that nothing has to be found out.

        It holds once the model is identified.
        """
        return False

    @abstractmethod
    async def identify(self, timeout: float) -> JudgeModel:
        """Find the model, and what the server can do.

        Args:
            timeout: Seconds for all attempts.

        Raises:
            NoModel: the server has another model, or several and the settings name none.
            ServiceError: the server cannot be reached, or cannot be used.
        """

    @abstractmethod
    async def choose(self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER) -> Reply:
        """The probability of each choice as the beginning of the reply.

        Args:
            choices: Checked by `check_choices`.

        Returns:
            The fields of a `ChoiceDistribution`. Or `kind` and `reason`: `refused`, the reply
            declines; `abstained`, it has none of the choices.

        Raises:
            LogprobsUnavailable: the server reports no token probabilities.
            Abstention: `refused`, the provider blocked the call and made no reply.
            ServiceError: see `editjudge.base.errors`.
        """

    @abstractmethod
    async def complete(self, prompt: Prompt, sampling: Sampling, context: CallContext = NO_CALLER) -> Reply:
        """Generate a reply.

        Returns:
            `text`, and `finish` (see `Finish`). Or `kind` and `reason`: `refused`, the reply
            declines.

        Raises:
            FieldRefused: the server does not take a field that can be left out.
            Abstention: `refused`, the provider blocked the call and made no reply.
            ServiceError: see `editjudge.base.errors`.
        """
