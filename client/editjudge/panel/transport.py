"""What every way to a multimodal LLM can do: `OpenAiTransport` and `VllmTransport` are two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from .choices import ChoiceDistribution
from .prompt import Prompt

Finish: TypeAlias = Literal["stop", "length", "other"]
MAX_TOKENS = 1024
"""Of a reply, where neither a prompt nor the settings ask for another limit."""
LONGEST_NAME = 256
"""Characters of a model's name."""
_MOST_TOKENS = 10**9
"""Of one call; what says more does not count."""


def _tokens(value: object) -> int:
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
        attempts: Requests made, those that failed included.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1

    @classmethod
    def counted(cls, prompt: object, cached: object, completion: object, attempts: int = 1) -> Self:
        """What a server says that a call took; 0 for what is no count of tokens."""
        tokens = _tokens(prompt)
        return cls(tokens, min(_tokens(cached), tokens), _tokens(completion), attempts)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.attempts + other.attempts,
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is generated. Every value is sent: servers' own defaults differ.

    Attributes:
        temperature: 0 is greedy.
        top_p: Of the nucleus; 1 is all.
        max_tokens: A reply that reaches it is cut, and marked as cut.
        seed: None sends none.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = MAX_TOKENS
    seed: int | None = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply.

    Attributes:
        model: The name that came back with it.
        finish: `stop` ended by itself, `length` cut at `max_tokens`.
    """

    text: str
    finish: Finish
    model: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer as probabilities, from the model that came back with it."""

    distribution: ChoiceDistribution
    model: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class GeneralistModel:
    """Which model a server has.

    Attributes:
        name: As the server calls it; what requests ask for.
        server: Kind and version where the server reports them, for example `vllm 0.32.0`.
        logprobs: Whether the server reports probabilities; None where only a call can show it.
        facts: What else the server reports of the model (context length, root, media).
    """

    name: str
    server: str = ""
    logprobs: bool | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class Transport(ABC):
    """One server; use as an async context manager.

    Every method makes its calls with retries inside the policy's deadline, and raises
    `ServiceError`s that name the server. What a method costs is in its answer's usage.

    Attributes:
        url: As configured.
    """

    url: str

    @abstractmethod
    async def identify(self, timeout: float) -> GeneralistModel:
        """Find the model, and what the server can do.

        Raises:
            NotServed: it serves another model, or several and none is named.
            ServiceError: it cannot be reached or asked.
        """

    @abstractmethod
    async def choose(self, prompt: Prompt, choices: tuple[str, ...]) -> Choice:
        """The probability of each choice as the beginning of the reply.

        Args:
            choices: As `check_choices` lets through.

        Raises:
            LogprobsUnavailable: the server reports no token probabilities.
            Abstained: `refused`, its provider blocked the call.
            ServiceError: see `editjudge.base.errors`.
        """

    @abstractmethod
    async def complete(
        self, prompt: Prompt, sampling: Sampling, schema: Mapping[str, Any] | None = None
    ) -> Completion:
        """Generate a reply.

        Args:
            schema: JSON schema that the reply is made to follow, where the server can.

        Raises:
            Abstained: `refused`, its provider blocked the call or the model declined.
            ServiceError: see `editjudge.base.errors`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close connections; calls in flight are cancelled."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
