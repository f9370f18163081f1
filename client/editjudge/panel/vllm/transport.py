"""The transport for vLLM's own gRPC protocol.

The server takes and returns token ids, so the chat template and the tokenizer run here; they come
from the server. It must run with `--mm-processor inprocess` for images, and with
`--logprobs-mode processed_logprobs --max-logprobs 128` for probabilities.
"""

import asyncio
import json
import math
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from ...base.config import JudgeEndpoint
from ...base.errors import BadReply, DeadlineExceeded, LogprobsUnavailable, NoModel, Rejection, ServiceError, WrongModel
from ...base.strict import list_fields
from ..calls import Reply, Usage
from ..choices import check_logprobs, list_labels, make_distribution, select_label_tokens
from ..context import DEFAULT_TERMS, NO_CALLER, AnyTerms, CallContext
from ..prompt import Prompt
from ..retry import RetryPolicy, call_with_retries
from ..transport import LONGEST_NAME, JudgeModel, Sampling, Transport, read_finish
from .engine import MEDIA_OFF, Engine
from .tokenizer import ChatTemplate, unpack

T = TypeVar("T")

BIAS = 100.0
"""Added to the logits of label tokens, the most that vLLM takes: they fill the top of the list."""
TOKEN_COUNT = 128
"""Tokens to be listed with their probabilities, labels included, where the server allows it."""
_ALLOWED_COUNT = re.compile(r"greater than max allowed: (\d+)")
_MODE = "start the server with --logprobs-mode processed_logprobs --max-logprobs 128"


@dataclass(frozen=True)
class _Model:
    """The model that the server has, as `identify` found it."""

    model: JudgeModel
    info: Any
    chat: ChatTemplate
    stops: frozenset[int]
    media: bool


class VllmTransport(Transport):
    """A client of one vLLM server over gRPC.

    No reply says which model made it. The name in a result is the one that the server gave when it
    was last asked; it is asked again after every lost connection.

    Args:
        endpoint: Its address, `grpc://host:port`, and credentials.
        policy: How often and how long to try.
        service: The service in errors.

    Raises:
        ConfigError: a header's secret cannot be read.
        MissingExtra: the extra `vllm` is not installed.
    """

    def __init__(self, endpoint: JudgeEndpoint, policy: RetryPolicy, *, service: str = "generalist.judge") -> None:
        self.url = endpoint.url
        self._accepted_names = (endpoint.model, *endpoint.accept) if endpoint.model else ("*",)
        self._policy = policy
        self._engine = Engine(endpoint, service, policy)
        self.connections = self._engine.connections
        self._served_model: _Model | None = None
        self._lock = asyncio.Lock()
        self._may_have_changed = False
        self._includes_bias: bool | None = None
        self._probing = asyncio.Lock()
        self._max_logprobs = sys.maxsize
        self._label_sets: dict[tuple[str, ...], dict[int, str]] = {}

    @property
    def takes_all(self) -> bool:
        """Always, because its messages have these fields."""
        return True

    async def identify(self, timeout: float) -> JudgeModel:
        """Find the model, and fetch its tokenizer.

        Facts: `model_type`, `max_model_len` (tokens), `tokenizer` (digest of what decides how a
        prompt is encoded), and `media`, `off` where the server takes no images.

        Raises:
            NoModel: the server has another model, or is no such server.
            ServiceError: the server cannot be reached, or refuses.
        """

        async def once(end: float) -> JudgeModel:
            async with self._lock:
                self._served_model = await self._fetch_model(end)
            return self._served_model.model

        return await self._retry(once, DEFAULT_TERMS, replace(self._policy, deadline=timeout))

    async def choose(self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER) -> Reply:
        """The probability of each choice, from one generated token; see `Transport.choose`.

        The protocol cannot ask for given tokens. So 100 is added to the logit of every label token,
        which puts them at the top of the list and leaves their ratios unchanged. The tokens after
        them were not raised and give the mass outside: with r the sum of exp(lp + 100) over these,
        divided by the sum of exp(lp) over labels, it is r / (1 + r). That is a lower bound, because
        tokens beyond the list (128 by default) are missing. Logits of 100 and more are exact to
        1e-5 in the server's float32, and so are the probabilities.

        Raises:
            LogprobsUnavailable: the server reports no probabilities that include the bias, or not
                of enough tokens, or no single token stands for a choice.
            ServiceError: see `editjudge.base.errors`.
        """

        async def once(end: float) -> Reply:
            model = await self._get_served_model(end)
            ids = self._get_label_tokens(model, choices)
            await self._check_bias(model, end)
            request = await prompt.work(self._make_request, model, prompt)
            params = request.sampling_params
            params.max_tokens = 1
            params.logit_bias.update(dict.fromkeys(ids, BIAS))
            reply = await self._list_tokens(request, len(ids) + 1, model, end)
            with self._bad_replies():
                spread = _distribute(choices, ids, _read_first_tokens(reply))
            return Reply(list_fields(spread), model.model.name, _read_usage(reply))

        return await self._retry(once, context.terms)

    async def complete(self, prompt: Prompt, sampling: Sampling, context: CallContext = NO_CALLER) -> Reply:
        """Generate a reply; see `Transport.complete`.

        A schema applies from where the engine starts a grammar: the first token, or the end of the
        model's thinking where the server has a reasoning parser.

        Raises:
            ServiceError: see `editjudge.base.errors`.
        """

        async def once(end: float) -> Reply:
            model = await self._get_served_model(end)
            request = await prompt.work(self._make_request, model, prompt)
            params = request.sampling_params
            params.temperature = sampling.temperature
            params.top_p = sampling.top_p
            params.max_tokens = sampling.max_tokens
            params.stop_token_ids.extend(sorted(model.stops))
            if sampling.seed is not None:
                # 32 bits with a sign are what the protocol has.
                params.seed = sampling.seed & 0x7FFF_FFFF
            if (schema := sampling.schema) is not None and "enum" in schema:
                params.choice.choices.extend(schema["enum"])
            elif schema is not None:
                params.json_schema = json.dumps(schema, ensure_ascii=False)
            reply = await self._generate(request, end)
            ids = list(reply.output_ids)
            if ids and ids[-1] in model.stops:
                ids.pop()
            try:
                text = model.chat.tokens.decode(ids)
            except OverflowError as error:
                raise self._engine.make_error(BadReply, "a token id is out of range") from error
            text = self._engine.secrets.redact_json(text)
            content = {"text": text, "finish": read_finish(reply.finish_reason)}
            return Reply(content, model.model.name, _read_usage(reply))

        return await self._retry(once, context.terms)

    async def _retry(
        self, once: Callable[[float], Awaitable[T]], terms: AnyTerms, policy: RetryPolicy | None = None
    ) -> T:
        async def attempt(seconds: float) -> T:
            return await once(time.monotonic() + seconds)

        return await call_with_retries(attempt, policy or self._policy, terms)

    async def _get_served_model(self, end: float) -> _Model:
        async with self._lock:
            if self._served_model is None:
                self._served_model = await self._fetch_model(end)
            elif self._may_have_changed:
                # The server may have been started again, with another model.
                info = await self._engine.ask("GetModelInfo", end)
                before = self._served_model.info
                if info != before:
                    raise self._engine.make_error(
                        WrongModel,
                        f"{_read_name(info)!r} is served now, as {_describe_kind(info)}; it was"
                        f" {_read_name(before)!r}, as {_describe_kind(before)}",
                    )
                self._may_have_changed = False
            return self._served_model

    async def _fetch_model(self, end: float) -> _Model:
        engine = self._engine
        await engine.check_ready(end)
        info = await engine.ask("GetModelInfo", end)
        name = _read_name(info)
        if not any(name == each or fnmatchcase(name, each) for each in self._accepted_names):
            raise engine.make_error(NoModel, f"it serves {name!r}, not {self._accepted_names[0]!r}")
        if not info.is_generation:
            raise engine.make_error(NoModel, f"{name!r} does not generate text")
        engine.model = name
        server = await engine.ask("GetServerInfo", end)
        if self._served_model is not None and self._served_model.info == info:
            chat, stops = self._served_model.chat, self._served_model.stops
            digest = self._served_model.model.facts["tokenizer"]
        else:
            # Reading a vocabulary of 150,000 tokens takes a second.
            archive = await engine.tokenizer(end)
            chat, stops, digest = await asyncio.to_thread(_read_tokenizer, archive, engine)
            stops |= frozenset(info.eos_token_ids)
            self._label_sets.clear()
        schemes = server.mm_media_ref_schemes.split(",")
        media = bool(server.mm_processor) and "data" in schemes
        facts = {
            "model_type": info.model_type,
            "architectures": ",".join(info.architectures),
            "max_model_len": str(info.max_context_length or ""),
            "tokenizer": digest,
            "media": server.mm_processor if media else "off",
        }
        model = JudgeModel(name, f"vllm {await self._version(end)}".strip(), facts)
        return _Model(model, info, chat, stops, media)

    async def _version(self, end: float) -> str:
        try:
            return str((await self._engine.ask("GetLoads", end)).version)
        except ServiceError:
            return ""  # nothing depends on the version

    def _make_request(self, model: _Model, prompt: Prompt) -> Any:
        if prompt.pictures and not model.media:
            what = f"the server does not take images: {MEDIA_OFF}"
            raise self._engine.make_error(Rejection, what)
        try:
            ids = model.chat.ids(prompt)
        except ValueError as error:
            raise self._engine.make_error(Rejection, str(error)) from error
        return self._engine.request(ids, prompt.pictures)

    async def _generate(self, request: Any, end: float) -> Any:
        try:
            return await self._engine.generate(request, end)
        except ServiceError as error:
            self._may_have_changed |= isinstance(error, DeadlineExceeded) or error.retryable
            raise

    async def _list_tokens(self, request: Any, least: int, model: _Model, end: float) -> Any:
        """Generate, and list as many tokens as the server allows, `least` at least."""
        # Asking for more tokens than there are would stop the engine.
        there = min(n for n in (model.info.vocab_size, model.chat.tokens.size) if n)
        least = min(least, there)
        while True:
            count = min(max(least, TOKEN_COUNT), there, self._max_logprobs)
            if count < least:
                what = f"it lists {count} tokens, {least} are needed: {_MODE}"
                raise self._engine.make_error(LogprobsUnavailable, what)
            request.sampling_params.logprobs = count
            try:
                return await self._generate(request, end)
            except Rejection as error:
                limit = _ALLOWED_COUNT.search(error.detail)
                if limit is None or int(limit[1]) >= count:
                    raise
                self._max_logprobs = int(limit[1])

    async def _check_bias(self, model: _Model, end: float) -> None:
        """Find out once whether probabilities include the logit bias.

        Two tokens are raised, one after the other. Each must then have all the probability, which
        no distribution without the bias could give to both.

        Raises:
            LogprobsUnavailable: they do not.
        """
        async with self._probing:
            if self._includes_bias is None:
                self._includes_bias = True
                try:
                    tokens = [model.chat.tokens.ids(text)[0] for text in "ab"]
                    for token in tokens:
                        request = self._engine.request([tokens[0]])
                        params = request.sampling_params
                        params.max_tokens = 1
                        params.logit_bias[token] = BIAS
                        reply = await self._list_tokens(request, 1, model, end)
                        with self._bad_replies():
                            alone = _read_first_tokens(reply).get(token, -math.inf)
                        self._includes_bias &= abs(alone) < 1e-2
                except BaseException as error:  # also when cancelled: nothing is known then
                    self._includes_bias = None
                    if isinstance(error, Rejection) and "logit_bias" in error.detail:
                        # Speculative decoding takes none.
                        raise self._engine.make_error(LogprobsUnavailable, error.detail) from error
                    raise
        if not self._includes_bias:
            what = f"its probabilities leave out the logit bias: {_MODE}"
            raise self._engine.make_error(LogprobsUnavailable, what)

    @contextmanager
    def _bad_replies(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise self._engine.make_error(BadReply, str(error)) from error

    def _get_label_tokens(self, model: _Model, choices: tuple[str, ...]) -> dict[int, str]:
        """The label tokens, each with its choice."""
        if choices not in self._label_sets:
            tokens = {text: model.chat.tokens.single_token(text) for text in list_labels(choices)}
            self._label_sets[choices] = select_label_tokens(choices, tokens)
        speaks = self._label_sets[choices]
        if missing := [choice for choice in choices if choice not in speaks.values()]:
            what = f"no token of the model begins {missing[0]!r} only"
            raise self._engine.make_error(LogprobsUnavailable, what)
        return speaks


def _read_tokenizer(archive: bytes, engine: Engine) -> tuple[ChatTemplate, frozenset[int], str]:
    try:
        bundle = unpack(archive)
        return ChatTemplate.of(bundle), frozenset(bundle.stop_ids), bundle.digest
    except (ValueError, TypeError, AttributeError) as error:
        # The last two: JSON whose parts have other types than usual.
        raise engine.make_error(BadReply, f"the tokenizer cannot be used: {error}") from error


def _read_first_tokens(reply: Any) -> dict[int, float]:
    """Log-probabilities of the tokens listed for the first position.

    Raises:
        ValueError: saying what is wrong with the list.
    """
    logprobs = reply.output_logprobs
    shape = len(reply.output_ids), len(logprobs.token_ids), len(logprobs.token_logprobs)
    if shape != (1, 1, 1) or len(logprobs.top_logprobs) != 1:
        raise ValueError("the reply does not hold log-probabilities of one token")
    top = logprobs.top_logprobs[0]
    if len(top.token_ids) != len(top.values):
        raise ValueError(f"{len(top.token_ids)} tokens with {len(top.values)} log-probabilities")
    if len(set(top.token_ids)) < len(top.token_ids):
        raise ValueError("a token is listed twice")
    if any(math.isnan(value) for value in top.values):
        raise ValueError("a log-probability is NaN")
    # The sampled token is in its list, except where that is cut to its length.
    top_tokens = zip(top.token_ids, top.values, strict=True)
    return {logprobs.token_ids[0]: logprobs.token_logprobs[0], **dict(top_tokens)}


def _distribute(choices: tuple[str, ...], ids: Mapping[int, str], logprobs: Mapping[int, float]) -> Any:
    """The distribution over the choices, from log-probabilities that include the labels' bias.

    Raises:
        ValueError: a label is missing, or a value is no log-probability.
    """
    if missing := ids.keys() - logprobs.keys():
        raise ValueError(f"{len(missing)} of {len(ids)} labels are not listed")
    check_logprobs(logprobs.values())
    inside = math.fsum(math.exp(logprobs[token]) for token in ids)
    others = [value + BIAS for token, value in logprobs.items() if token not in ids]
    top = max(others, default=-math.inf)
    if inside <= 0:
        raise ValueError("no label has any probability")
    # Relative to the larger of both: exp(lp + 100) alone can be 1e43.
    scale = max(top, 0.0)
    beyond = math.fsum(math.exp(value - scale) for value in others)
    outside = beyond / (beyond + inside * math.exp(-scale))
    label_logprobs = [(choice, logprobs[token]) for token, choice in ids.items()]
    return make_distribution(choices, label_logprobs, "logprobs", outside)


def _read_name(info: Any) -> str:
    return str(info.served_model_name or info.model_path)[:LONGEST_NAME]


def _describe_kind(info: Any) -> str:
    kind = ",".join(info.architectures) or info.model_type or "unknown"
    return f"{kind} of {info.vocab_size} tokens"


def _read_usage(reply: Any) -> Usage:
    return Usage.from_counts(reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens)
