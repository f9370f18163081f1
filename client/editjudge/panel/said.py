"""What came back from the calls that a verdict rests on, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue


class Said(BaseModel):
    """One call, and what came back.

    Attributes:
        call: Its key.
        judge: Identity of the generalist or specialist, as in signatures.
        model: The name that came back with the reply; None of specialists.
        prompt: Digest of the prompt; None of specialists.
        reply: The text, or the probabilities; why a specialist abstained.
        prompt_tokens: Of the prompt.
        cached_tokens: Of these, found in the server's prefix cache.
        completion_tokens: Of the reply.
        cost: In the currency of the generalist's price; None where it has none.
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


def shown(said: Iterable[Said]) -> list[dict[str, Any]]:
    """Calls as JSON shows them beside the evidence of a verdict."""
    return [one.model_dump() for one in said]
