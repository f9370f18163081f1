"""The transport for OpenAI's chat completions: vLLM over HTTP, a provider's API, an LLM gateway."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ...base.config import JudgeEndpoint
from ...base.contracts import SOURCE_HEADER
from ...base.errors import (
    Abstention,
    BadReply,
    DeadlineExceeded,
    FieldRefused,
    LogprobsUnavailable,
    NoModel,
    Rejection,
    ServiceError,
)
from ...base.providers import find_provider
from ...base.strict import list_fields
from ...base.text import shorten_list
from ..calls import Reply
from ..choices import ChoiceDistribution, list_labels, make_distribution, select_label_tokens
from ..context import DEFAULT_TERMS, NO_CALLER, AnyTerms, CallContext
from ..prompt import Prompt
from ..retry import RetryPolicy, call_with_retries
from ..transport import LONGEST_NAME, JudgeModel, Sampling, Transport, read_finish
from . import completions as chat
from .completions import Capabilities
from .http import HttpReply, HttpServer

MAX_LABELS = 128  # what vLLM takes as `logprob_token_ids`
_MANY = 64
_NO_LIST = frozenset({400, 404, 405, 501})
"""What servers without a list of models answer to the question for it."""
_CACHE_SIZE = 4096


class Vocabulary:
    """The token ids of texts, asked of the server once per connection.

    Args:
        server: The server.
        url: Its address without `/v1`.
    """

    def __init__(self, server: HttpServer, url: str) -> None:
        self._server = server
        self._url = f"{url}/tokenize"
        self._lock = asyncio.Lock()
        self._tokens: dict[str, tuple[int, ...] | None] = {}

    async def tokens(self, texts: Iterable[str], model: str) -> list[tuple[int, ...] | None]:
        """Token ids of texts, nothing added; None where the server has no tokenizer endpoint.

        Args:
            texts: The texts.
            model: Name of the model.

        Raises:
            ServiceError: the server cannot be reached, or replies with something else.
        """
        texts = tuple(texts)
        async with self._lock:
            if len(self._tokens) > _CACHE_SIZE:
                self._tokens.clear()
            new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
            answers = await asyncio.gather(*(self._tokenize(text, model) for text in new))
            self._tokens.update(zip(new, answers, strict=True))
            return [self._tokens[text] for text in texts]

    async def label_set(self, choices: tuple[str, ...], model: str) -> dict[int, str] | None:
        """The label tokens, each with its choice; None where the server has no tokenizer endpoint.

        Raises:
            LogprobsUnavailable: a choice begins with no token that is text.
            Rejection: the choices have more tokens than a server takes.
            ServiceError: see `tokens`.
        """
        texts = list_labels(choices)
        answers = await self.tokens(texts, model)
        if None in answers:
            return None
        single = {text: ids[0] if ids and len(ids) == 1 else None for text, ids in zip(texts, answers, strict=True)}
        choice_of = select_label_tokens(choices, single)
        if missing := [choice for choice in choices if choice not in choice_of.values()]:
            raise self._server.make_error(
                LogprobsUnavailable, f"no token of the model begins {missing[0]!r} only", model
            )
        if len(choice_of) > MAX_LABELS:
            raise self._server.make_error(
                Rejection,
                f"{len(choices)} choices have {len(choice_of)} label tokens, "
                f"the limit is {MAX_LABELS}: give fewer or shorter choices",
                model,
            )
        return choice_of

    async def control_tokens(self, prompt: Prompt, model: str) -> set[str]:
        """The texts in the prompt's data that look like markup and are a single token of the model.

        All texts that look like markup, where the server has no tokenizer endpoint, or where there
        are so many that they can only be an attack.
        """
        suspects = await prompt.work(chat.find_token_candidates, prompt)
        if not suspects or len(suspects) > _MANY:
            return suspects
        # Sorted, so that a failure is the same at every run.
        ids = await self.tokens(sorted(suspects), model)
        return {t for t, i in zip(sorted(suspects), ids, strict=True) if i is None or len(i) == 1}

    async def _tokenize(self, text: str, model: str) -> tuple[int, ...] | None:
        body = chat.dump_json({"model": model, "prompt": text, "add_special_tokens": False})
        reply = await self._server.ask(self._url, [body], model=model)
        if reply.status in {404, 405}:
            return None
        if not reply.ok:
            raise self._server.to_error(reply, model)
        ids = reply.data.get("tokens") if isinstance(reply.data, dict) else None
        if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
            raise self._server.make_error(BadReply, "/tokenize gives no list of token ids", model)
        return tuple(ids)


T = TypeVar("T")
_FIRST = -1
"""Priority of an urgent call for vLLM, where lower goes first and 0 is that of all others."""

_DEFAULTS = {"temperature": 1.0, "top_p": 1.0}
"""What an API takes these fields for that it does not get. They are not sent then, because some
models refuse the fields."""


class OpenAiTransport(Transport):
    """A judge behind an OpenAI-compatible API.

    Choices are scored by the exact probabilities of the label set where the server is vLLM
    (`logprob_token_ids`, in 0.32), otherwise by the 20 likeliest first tokens.

    Text from data cannot pose as the chat's structure. vLLM encodes a user's `<|im_end|>` or
    `<|image_pad|>` as the control token, so there whatever looks like one and is a single token of
    the model gets a zero-width space (U+200B) after its first character. Providers' APIs encode
    users' text without control tokens, and get it unchanged.

    Usage counts chat completions. Questions about tokens are asked once per connection and not
    counted.

    Args:
        endpoint: Its address and credentials.
        policy: How often and how long to try.
        service: The service in errors.
        concurrency: Connections at most.

    Raises:
        ConfigError: the address, the key, a header or a certificate cannot be used.
    """

    def __init__(
        self, endpoint: JudgeEndpoint, policy: RetryPolicy, *, service: str = "generalist.judge", concurrency: int = 32
    ) -> None:
        self.url = endpoint.url
        self._policy = policy
        self._endpoint = endpoint
        self._model_name = endpoint.model
        self._base = endpoint.url.removesuffix("/v1")
        self._server = HttpServer(endpoint, service, concurrency, policy)
        self.connections = self._server.connections
        self._vocabulary = Vocabulary(self._server, self._base)
        self._capabilities = Capabilities()
        self._model: JudgeModel | None = None
        self._listed_names: tuple[str, ...] = ()
        self._identifying = asyncio.Lock()

    @property
    def takes_all(self) -> bool:
        """Whether it is vLLM, which takes more fields than are ever sent."""
        return self._model is not None and _is_vllm(self._model)

    async def identify(self, timeout: float) -> JudgeModel:
        """Find the model by `GET /models`; without that endpoint the settings' model is taken.

        Raises:
            NoModel: the server has another model, or several and the settings name none.
            ServiceError: the server cannot be reached, or refuses.
        """

        async def once() -> JudgeModel:
            async with self._identifying:
                self._model = await self._fetch_model()
            return self._model

        return await self._retry(once, DEFAULT_TERMS, replace(self._policy, deadline=timeout))

    async def _fetch_model(self) -> JudgeModel:
        reply = await self._server.ask(f"{self.url}/models", model=self._model_name)
        if reply.status in _NO_LIST and self._model_name:
            return JudgeModel(self._model_name)
        if not reply.ok:
            raise self._server.to_error(reply, self._model_name)
        card = self._select_card(reply.data)
        server = card.get("owned_by")
        vllm = server == "vllm"
        facts = {n: str(card[n]) for n in ("root", "max_model_len", "owned_by") if card.get(n)}
        software = f"vllm {await self._version()}".strip() if vllm else str(server or "")
        return JudgeModel(card["id"], software, facts)

    async def choose(self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER) -> Reply:
        """The probability of each choice, from one generated token; see `Transport.choose`.

        Raises:
            LogprobsUnavailable: the server reports no token probabilities.
            Abstention: `refused`, the provider blocked the call and made no reply.
            ServiceError: see `editjudge.base.errors`.
        """

        async def once() -> Reply:
            model, ids = await self._get_model(), None
            if _is_vllm(model) and not self._capabilities.no_logprobs:
                ids = await self._vocabulary.label_set(choices, model.name)

            def fields() -> dict[str, Any]:
                if self._capabilities.no_logprobs:
                    raise self._error(LogprobsUnavailable, self._capabilities.no_logprobs)
                body_fields: dict[str, Any] = {
                    self._capabilities.limit: 1,
                    "logprobs": True,
                    "top_logprobs": self._capabilities.top_logprobs,
                }
                if ids:
                    body_fields["return_tokens_as_token_ids"] = True
                if ids and self._capabilities.by_ids:
                    # An older vLLM ignores the ids and lists the likeliest tokens, a newer one
                    # ignores how many of these are asked for: one call is enough for both.
                    body_fields["logprob_token_ids"] = list(ids)
                return body_fields

            def read(choice: Mapping[str, Any]) -> Mapping[str, Any]:
                top = chat.read_first_logprobs(choice)
                if top is None:
                    raise self._without_logprobs("its reply holds no logprobs")
                self._capabilities.add_logprobs()
                return list_fields(_distribute(choices, top, ids or {}))

            return self._read(await self._chat(prompt, fields, model, context), read)

        return await self._retry(once, context.terms)

    async def complete(self, prompt: Prompt, sampling: Sampling, context: CallContext = NO_CALLER) -> Reply:
        """Generate a reply; see `Transport.complete`.

        Raises:
            Abstention: `refused`, the provider blocked the call and made no reply.
            ServiceError: see `editjudge.base.errors`.
        """
        schema = sampling.schema

        async def once() -> Reply:
            model = await self._get_model()
            constraint = {} if schema is None else chat.make_constraint(schema, is_vllm=_is_vllm(model))

            def fields() -> dict[str, Any]:
                return {
                    "temperature": sampling.temperature,
                    "top_p": sampling.top_p,
                    self._capabilities.limit: sampling.max_tokens,
                    "seed": sampling.seed,
                    **constraint,
                }

            def read(choice: Mapping[str, Any]) -> Mapping[str, Any]:
                text = chat.unwrap_choice(chat.read_text(choice), schema)
                return {"text": text, "finish": read_finish(choice.get("finish_reason"))}

            return self._read(await self._chat(prompt, fields, model, context), read)

        return await self._retry(once, context.terms)

    async def _retry(self, once: Callable[[], Awaitable[T]], terms: AnyTerms, policy: RetryPolicy | None = None) -> T:
        async def attempt(seconds: float) -> T:
            try:
                async with asyncio.timeout(seconds):
                    return await once()
            except TimeoutError as error:
                raise self._error(DeadlineExceeded, f"no reply within {seconds:.3g} s") from error

        return await call_with_retries(attempt, policy or self._policy, terms=terms)

    async def _chat(
        self, prompt: Prompt, fields: Callable[[], dict[str, Any]], model: JudgeModel, context: CallContext
    ) -> HttpReply:
        """A chat completion; a rejected request is sent again in another form.

        Args:
            prompt: The question.
            fields: Makes the fields beside model and messages, anew for each form.
            model: The server's model.
            context: On whose behalf the call is made.
        """
        provider = find_provider(self._endpoint.provider, model.facts.get("owned_by", ""))
        fixed_fields: dict[str, Any] = {"model": model.name, **provider.neutral}
        fixed_fields |= self._endpoint.extra
        control: set[str] = set()
        headers: dict[str, str] = {}
        if _is_vllm(model):
            if prompt.source:
                headers[SOURCE_HEADER] = prompt.source
            if context.salt:
                fixed_fields["cache_salt"] = context.salt
            control = await self._vocabulary.control_tokens(prompt, model.name)
        parts = await prompt.work(chat.join_parts, prompt, control)
        while True:
            body_fields = {
                name: value
                for name, value in (fixed_fields | fields()).items()
                if value is not None and (value != _DEFAULTS.get(name) or name in provider.neutral)
            }
            if _is_vllm(model) and context.terms.urgent and self._capabilities.priority:
                body_fields["priority"] = _FIRST
            detail = self._endpoint.image_detail
            body = await prompt.work(chat.make_chat_body, body_fields, prompt.system, parts, detail)
            url = f"{self.url}/chat/completions"
            reply = await self._server.ask(url, body, model=model.name, headers=headers)
            if reply.ok:
                return reply
            if not self._capabilities.learn(reply, body_fields):
                if self._capabilities.denies_logprobs(reply, body_fields):
                    raise self._without_logprobs(reply.words)
                raise self._to_error(reply, body_fields, model)

    def _to_error(
        self, reply: HttpReply, body_fields: Mapping[str, Any], model: JudgeModel
    ) -> ServiceError | Abstention:
        error = self._server.to_error(reply, model.name)
        if isinstance(error, Rejection) and (setting := chat.find_refused_setting(reply, body_fields)):
            refusal = self._error(FieldRefused, error.detail)
            refusal.field = setting  # type: ignore[attr-defined]
            return refusal
        if isinstance(error, NoModel) and self._listed_names:
            return self._error(NoModel, f"{error.detail}; it lists {shorten_list(self._listed_names, 10)}")
        return error

    def _without_logprobs(self, why: str) -> ServiceError:
        self._capabilities.add_missing_logprobs(why)
        return self._error(LogprobsUnavailable, why)

    async def _get_model(self) -> JudgeModel:
        async with self._identifying:
            if self._model is None:
                self._model = await self._fetch_model()
            return self._model

    def _select_card(self, data: Any) -> dict[str, Any]:
        """The entry of the model asked for, or of the only one."""
        cards = data.get("data") if isinstance(data, dict) else None
        if not isinstance(cards, list):
            raise self._error(BadReply, "/models gives no list")
        objects = [card for card in cards if isinstance(card, dict)]
        by_name = {card["id"]: card for card in objects if isinstance(card.get("id"), str)}
        if not self._model_name and len(by_name) == 1:
            return next(iter(by_name.values()))
        self._listed_names = tuple(sorted(by_name))
        there = shorten_list(self._listed_names, 10) or "none"
        name = self._model_name
        if not name:
            raise self._error(NoModel, f"name the `model` (--judge-model); there is {there}")
        card = next((by_name[one] for one in (name, f"models/{name}") if one in by_name), None)
        if card is None and {each.get("owned_by") for each in objects} == {"vllm"}:
            raise self._error(NoModel, f"no model {name}; there is {there}")
        # Lists have pages, leave models out, or name none of one's own: a call will tell.
        return {**(card or {}), "id": name}

    async def _version(self) -> str:
        """Version of vLLM; empty where the server reports none, which is no failure."""
        try:
            reply = await self._server.ask(f"{self._base}/version")
        except ServiceError:
            return ""
        version = reply.data.get("version") if reply.ok and isinstance(reply.data, dict) else ""
        return version if isinstance(version, str) else ""

    def _read_name(self, reply: HttpReply) -> str:
        name = reply.data.get("model")
        if isinstance(name, str) and len(name) > LONGEST_NAME:
            raise ValueError(f"the model's name has {len(name):,} characters")
        return name if isinstance(name, str) else ""

    def _read(self, reply: HttpReply, read: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Reply:
        """Read the only choice in a reply; that it declines is an answer too, and was paid for."""
        try:
            try:
                content = read(chat.read_choice(reply.data))
            except Abstention as none:
                content = {"kind": none.kind, "reason": none.reason}
            return Reply(content, self._read_name(reply), chat.read_usage(reply.data))
        except ValueError as error:
            raise self._error(BadReply, str(error)) from error

    def _error(self, kind: type[ServiceError], detail: str) -> ServiceError:
        model = self._model.name if self._model else self._model_name
        return self._server.make_error(kind, detail, model)


def _is_vllm(model: JudgeModel) -> bool:
    return model.facts.get("owned_by") == "vllm"


def _distribute(choices: tuple[str, ...], top: list[tuple[str, float]], ids: Mapping[int, str]) -> ChoiceDistribution:
    """The distribution over the choices, from the first token's list.

    Args:
        choices: The choices.
        top: Tokens with their log-probabilities.
        ids: The label tokens, where they are known.

    Raises:
        ValueError: a label token is listed twice.
        Abstention: `abstained`, no choice is listed.
    """
    choice_of: Mapping[str, str] = {f"token_id:{token}": choice for token, choice in ids.items()}
    counts = Counter(token for token, _ in top)
    exact = bool(choice_of) and choice_of.keys() <= counts.keys()
    if not exact and not choice_of.keys() & counts.keys():
        # By their texts, for servers that do not write tokens as ids.
        choice_of = list_labels(choices)
    # Others may have the same text: pieces of characters are all written as one.
    if repeats := [token for token, count in counts.items() if count > 1 and token in choice_of]:
        raise ValueError(f"the token {repeats[0]!r} is listed {counts[repeats[0]]} times")
    logprobs = [(choice_of[token], value) for token, value in top if token in choice_of]
    if not logprobs:
        raise Abstention("abstained", f"no choice is among the {len(top)} likeliest first tokens")
    return make_distribution(choices, logprobs, "logprobs" if exact else "top_logprobs")
