"""What every way to a multimodal LLM can do: `OpenAiTransport` and `VllmTransport` are two."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .calls import NO_USAGE, Usage
from .choices import ChoiceDistribution
from .context import NO_CALLER, CallContext
from .grpc_channel import Connection
from .prompt import Prompt

Finish: TypeAlias = Literal["stop", "length", "other"]
MAX_TOKENS = 1024
"""Of a reply, where neither a prompt nor the settings ask for another limit."""
LONGEST_NAME = 256
"""Characters of a model's name."""


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
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer as probabilities, from the model that came back with it."""

    distribution: ChoiceDistribution
    model: str
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """Which model a server has.

    Attributes:
        name: As the server calls it; what requests ask for.
        server: Kind and version where the server reports them, for example `vllm 0.32.0`.
        facts: What else the server reports of the model (context length, root, media).
    """

    name: str
    server: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


class Transport(Connection):
    """One server of a multimodal LLM; use as an async context manager.

    Every method makes its calls with retries inside the policy's deadline, and raises
    `ServiceError`s that name the server. What a method costs is in its answer's usage.
    """

    @abstractmethod
    async def identify(self, timeout: float) -> JudgeModel:
        """Find the model, and what the server can do.

        Raises:
            NotServed: it serves another model, or several and none is named.
            ServiceError: it cannot be reached or asked.
        """

    @abstractmethod
    async def choose(
        self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER
    ) -> Choice:
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
        self,
        prompt: Prompt,
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
        context: CallContext = NO_CALLER,
    ) -> Completion:
        """Generate a reply.

        Args:
            schema: JSON schema that the reply is made to follow, where the server can.

        Raises:
            Abstained: `refused`, its provider blocked the call or the model declined.
            ServiceError: see `editjudge.base.errors`.
        """
