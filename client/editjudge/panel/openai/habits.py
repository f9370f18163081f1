"""What a server takes of a chat completion: OpenAI's API has dialects, found out by asking."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .replies import HttpReply

_UNSUPPORTED = re.compile(
    r"unsupported|(not|n't) (support|available|enabled|allowed|recogni[sz]ed)|unavailable|"
    r"unrecogni[sz]ed|unknown|unexpected|extra_forbidden|extra (inputs|fields)",
    re.IGNORECASE,
)
_FEWER = 5  # likeliest tokens; what servers with a low limit allow
_SURE = 32  # replies in a row without probabilities; one edit may have a dozen of them


_REJECTED = frozenset({400, 403, 422})


@dataclass(slots=True)
class Habits:
    """What the server was found to take; every rejection is met once.

    Attributes:
        limit: Name of the field that limits a reply's tokens.
        schemas: Whether `response_format` may hold a JSON schema.
        by_ids: Whether `logprob_token_ids` may be sent.
        priority: Whether `priority` may be sent; some of vLLM's versions refuse it where they were
            started without priorities.
        top_logprobs: How many of the likeliest tokens may be asked for.
    """

    limit: str = "max_tokens"
    schemas: bool = True
    by_ids: bool = True
    priority: bool = True
    top_logprobs: int = 20
    _lacking: int = 0
    _why: str = ""

    @property
    def no_logprobs(self) -> str:
        """Why there are no probabilities; empty while there may be."""
        return self._why if self._lacking >= _SURE else ""

    def with_logprobs(self) -> None:
        """Note a reply that has probabilities."""
        self._lacking = 0

    def without_logprobs(self, why: str) -> None:
        """Note a reply that has none: the call's own failure, until several in a row have none."""
        self._lacking += 1
        self._why = why

    def denies_logprobs(self, reply: HttpReply, sent: Mapping[str, Any]) -> bool:
        """Whether a rejection that nothing was learnt from says that there are no probabilities."""
        about = f"{reply.param} {reply.words}".lower()
        return reply.status in _REJECTED and "logprobs" in sent and "logprobs" in about

    def learn(self, reply: HttpReply, sent: Mapping[str, Any]) -> bool:
        """Whether a request that was rejected is worth sending in another form.

        Args:
            sent: Its fields; not what is sent now, for calls overlap.
        """
        if reply.status not in _REJECTED:
            return False
        about = f"{reply.param} {reply.words}".lower()
        if "priority" in sent and "priority" in about:
            self.priority = False
            return True
        unsupported = _UNSUPPORTED.search(f"{about} {reply.codes}") is not None
        if unsupported and "logprob_token_ids" in sent and "logprob_token_ids" in about:
            self.by_ids = False
            return True
        if "logprobs" in sent and "logprobs" in about:
            if unsupported or sent["top_logprobs"] <= _FEWER:
                return False
            self.top_logprobs = _FEWER
            return True
        if unsupported and "max_tokens" in sent and "max_tokens" in about:
            self.limit = "max_completion_tokens"
            return True
        return unsupported and self._without_schema(about, sent)

    def _without_schema(self, about: str, sent: Mapping[str, Any]) -> bool:
        named = "response_format" in about or "json_schema" in about
        if "response_format" not in sent or not named or "invalid schema" in about:
            return False
        self.schemas = False
        return True
