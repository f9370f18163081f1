"""A vLLM server's tokens, asked for by `POST /tokenize` and remembered."""

from __future__ import annotations

import asyncio

from ...base.errors import BadReply, LogprobsUnavailable, Refused
from ..choices import label_set, labels
from ..coalesce import Shared
from ..prompt import Prompt
from ..retry import RetryPolicy
from . import completions as chat
from .http import HttpServer

MAX_LABELS = 128  # what vLLM takes as `logprob_token_ids`
_MANY = 64


class Vocabulary:
    """What single tokens the model has.

    Args:
        url: Of the server, without `/v1`.
    """

    def __init__(self, server: HttpServer, url: str, policy: RetryPolicy) -> None:
        self._server = server
        self._url = f"{url}/tokenize"
        self._policy = policy
        self._tokens: Shared[str, tuple[int, ...] | None] = Shared()
        self._label_sets: Shared[tuple[str, ...], dict[int, str] | None] = Shared(256)

    async def close(self) -> None:
        """Cancel what is being asked."""
        await self._label_sets.close()
        await self._tokens.close()

    async def tokens(self, text: str, model: str) -> tuple[int, ...] | None:
        """The text as token ids, nothing added; None where the server does not answer that.

        Raises:
            ServiceError: it cannot be asked, or answers something else.
        """
        return await self._tokens.get(text, lambda: self._ask(text, model))

    async def label_set(self, choices: tuple[str, ...], model: str) -> dict[int, str] | None:
        """The choice that each label token stands for; None where the server does not answer that.

        Raises:
            LogprobsUnavailable: a choice begins with no token that is text.
            Refused: the choices have more tokens than a server takes.
            ServiceError: see `tokens`.
        """
        return await self._label_sets.get(choices, lambda: self._find_labels(choices, model))

    async def control_tokens(self, prompt: Prompt, model: str) -> set[str]:
        """What in the prompt's data is, alone, a single token though it looks like markup.

        All candidates where the server does not answer that, or where there are so many that they
        can only be an attack.
        """
        suspects = set().union(*map(chat.candidates, chat.data_runs(prompt)))
        if len(suspects) > _MANY:
            return suspects
        # Sorted, so that a failure is the same at every run.
        ids = await asyncio.gather(*(self.tokens(text, model) for text in sorted(suspects)))
        return {t for t, i in zip(sorted(suspects), ids, strict=True) if i is None or len(i) == 1}

    async def _find_labels(self, choices: tuple[str, ...], model: str) -> dict[int, str] | None:
        texts = list(labels(choices))
        asked = await asyncio.gather(*(self.tokens(text, model) for text in texts))
        known = {text: ids for text, ids in zip(texts, asked, strict=True) if ids is not None}
        if len(known) < len(texts):
            return None
        single = {text: ids[0] if len(ids) == 1 else None for text, ids in known.items()}
        speaks = label_set(choices, single)
        if missing := [choice for choice in choices if choice not in speaks.values()]:
            raise self._server.error(
                LogprobsUnavailable, f"no token of the model begins {missing[0]!r} only", model
            )
        if len(speaks) > MAX_LABELS:
            raise self._server.error(
                Refused,
                f"{len(choices)} choices have {len(speaks)} label tokens, "
                f"the limit is {MAX_LABELS}: give fewer or shorter choices",
                model,
            )
        return speaks

    async def _ask(self, text: str, model: str) -> tuple[int, ...] | None:
        body = chat.dumps({"model": model, "prompt": text, "add_special_tokens": False})
        reply = await self._server.ask(self._url, self._policy, [body], model=model)
        if reply.status in {404, 405}:
            return None
        if not reply.ok:
            raise self._server.failure(reply, model)
        ids = reply.data.get("tokens") if isinstance(reply.data, dict) else None
        if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
            raise self._server.error(BadReply, "/tokenize gives no list of token ids", model)
        return tuple(ids)
