"""A judge: a multimodal LLM, asked for probabilities of choices or for a reply in some form."""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from ..answers.contract import OutputContract
from ..answers.reply import Unparsable
from ..answers.texts import FirstWord, Option
from ..base.config import JudgeEndpoint
from ..base.errors import (
    Abstention,
    CostLimit,
    FieldRefused,
    LogprobsUnavailable,
    NoModel,
    ServiceError,
    StoreError,
    WrongModel,
)
from ..base.identity import BINDING, ModelIdentity, ServiceName, describe_change
from ..base.images import Image
from ..base.parse import parse_json
from .calls import NOT_STORED, Call, Reply, ReplyStore
from .choices import IN_WORDS, LABELS, ChoiceDistribution, Method, check_choices
from .coalesce import Coalescer, PrefixLeaders, gather_all
from .context import NO_CALLER, CallContext, SharedTerms
from .judge_identity import NO_SCHEMA, describe_call_identity, find_snapshot, make_judge_identity, make_model_identity
from .judge_probe import complete, make_request, probe_form, probe_logprobs, takes_all
from .pool import EndpointPool
from .prompt import Picture, PictureCache, Prompt
from .recent_replies import RecentReplies
from .replica import Replica
from .transport import MAX_TOKENS, JudgeModel, RequestForm, Transport
from .words import ask_again, read_reply

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A judge's answer to one question.

    Attributes:
        value: A `ChoiceDistribution`, or what the contract parses from the reply.
        calls: Keys of the calls whose replies it is read from, in the order of asking.
        evidence: What is not in the replies themselves: why a reply could not be parsed, and what
            several replies come to.
    """

    value: T
    calls: tuple[str, ...]
    evidence: dict[str, Any] = field(default_factory=dict)


def merge_calls(answers: Iterable[Answer[Any]]) -> tuple[str, ...]:
    """The calls that several answers rest on, each once."""
    return tuple(dict.fromkeys(key for answer in answers for key in answer.calls))


@dataclass(slots=True)
class _Findings:
    """What calls have shown of a judge, shared by all its copies for different contexts.

    Attributes:
        method: How choices are scored; empty before it is known.
        form: What its servers take of a request; None before it is known.
        snapshot: The dated name by which the model answered; empty while it gives the one asked.
        without_logprobs: Why choices are sampled although the settings ask for probabilities.
        wrong: The error of a reply by another model than the one asked for.
    """

    method: str = ""
    form: RequestForm | None = None
    snapshot: str = ""
    without_logprobs: str = ""
    wrong: WrongModel | None = None


class Judge:
    """One judge, bound as `generalist.<name>`.

    - Identical calls that run side by side are made once; a stored reply is never asked for again.
    - A reply is stored before its place at the server is released, and before anybody gets it. When
      a process is killed, no more paid replies are lost than calls were in flight.
    - After a reply by another model no further call is made. After a reply that could not be stored
      the calls that wait for a place are not made.
    - A cancelled caller does not cancel a call that others wait for.

    Args:
        name: `generalist.<name>`.
        endpoint: Its settings.
        pool: Its servers, one or several replicas; None where only a ledger answers.
        ledger: Where calls and replies are stored.
        prefix_first: Whether the first of several calls with a common prefix goes ahead of the
            others, so that they find it in the server's cache. By default not on a single vLLM,
            which counts a prefix as cached as soon as it is scheduled.
        identity: Identity at the time when the ledger's calls were made, where there is no server.

    Attributes:
        model: The model that `open` found.
        recent: Stores its replies.
        found_models: The models that `open` found, by address.
        problems: What is wrong with replicas that are not used, by address.
        context: On whose behalf it is called.
    """

    def __init__(
        self,
        name: ServiceName,
        endpoint: JudgeEndpoint,
        pool: EndpointPool[Transport] | None,
        ledger: ReplyStore,
        *,
        prefix_first: bool | None = None,
        identity: ModelIdentity | None = None,
    ) -> None:
        self.name = name
        self._settings = endpoint
        self.model = JudgeModel(identity.name if identity else endpoint.model)
        self.problems: dict[str, str] = {}
        self.context = NO_CALLER
        self.recent = RecentReplies(name)
        self.found_models: dict[str, ModelIdentity] = {}
        self._pictures = PictureCache(endpoint.max_pixels)
        self._ledger = ledger
        self._pool = pool
        self._leaders = PrefixLeaders(is_enabled=prefix_first is not False)
        self._prefix_first = prefix_first
        self._coalescer: Coalescer[Reply] = Coalescer()
        self._findings = _Findings()
        self._probing = asyncio.Lock()
        # By ledger, why its latest reply could not be stored.
        self._store_errors: WeakKeyDictionary[ReplyStore, StoreError] = WeakKeyDictionary()
        self._stored_identity = identity
        self._identities: dict[tuple[str, RequestForm | None, str], ModelIdentity] = {}
        if identity is not None:
            self._findings.method = "bound" if BINDING in identity.facts else identity.facts.get("choices", "")
            form = RequestForm()
            has_schema = identity.facts.get("schema") != NO_SCHEMA
            self._findings.form = form if has_schema else form.without("schema")

    async def open(self, timeout: float) -> None:
        """Ask the servers for their model; `problems` names the replicas that are not used.

        Args:
            timeout: Seconds for each server.

        Raises:
            ServiceError: no server can be reached, or none has the model.
        """
        replicas = self.replicas
        models = await asyncio.gather(
            *(replica.target.identify(timeout) for replica in replicas), return_exceptions=True
        )
        open_replicas: list[Replica[Transport]] = []
        for replica, model in zip(replicas, models, strict=True):
            if isinstance(model, JudgeModel):
                self.found_models[replica.url] = make_model_identity(model)
            if isinstance(model, ServiceError):
                self.problems[replica.url] = model.detail
            elif isinstance(model, BaseException):
                raise model
            elif open_replicas and make_model_identity(model) != make_model_identity(self.model):
                here, first = make_model_identity(model), make_model_identity(self.model)
                self.problems[replica.url] = f"not used: {here} is served here, not {first}"
            else:
                self.model = model
                self._identities.clear()
                open_replicas.append(replica)
        if not open_replicas:
            raise next(error for error in models if isinstance(error, ServiceError))
        self._get_pool.replicas = tuple(open_replicas)
        if self._takes_all:
            self._findings.form = RequestForm()
        is_vllm = self.model.server.startswith("vllm")
        if self._prefix_first is None and len(open_replicas) == 1 and is_vllm:
            self._leaders = PrefixLeaders(is_enabled=False)
        await self._load_method()

    @property
    def endpoint(self) -> JudgeEndpoint:
        """Its settings as they are sent: without what the server refuses."""
        return self._form.apply(self._settings)

    @property
    def _form(self) -> RequestForm:
        return self._findings.form or RequestForm()

    def with_context(self, context: CallContext) -> Self:
        """The same judge, called on somebody's behalf."""
        judge = copy.copy(self)
        judge.context = context
        return judge

    @property
    def without_logprobs(self) -> str:
        """Why choices are sampled although the settings ask for probabilities; may be empty."""
        return self._findings.without_logprobs

    @property
    def refused_settings(self) -> list[str]:
        """Settings that its server refuses; see `RequestForm`."""
        return sorted(self._form.left_out)

    def is_same_as(self, later: Self) -> bool:
        """Whether a judge that was opened later has the same model at the same servers.

        False too where another model than the one asked for has answered, so that the later one
        asks again.
        """
        same = make_model_identity(self.model) == make_model_identity(later.model)
        return same and self.replicas == later.replicas and self._findings.wrong is None

    async def list_model_changes(self, timeout: float) -> list[str]:
        """Ask the servers for their model again: a line for each whose model has changed.

        A server that cannot be asked is left out, because the calls to it have told that already.
        """

        async def check(replica: Replica[Transport]) -> str:
            if replica.measure_load().open:
                return ""
            try:
                now = make_model_identity(await replica.target.identify(timeout))
            except NoModel as error:
                return f"{self.name} at {replica.url} disappeared during this session: {error}"
            except ServiceError:
                return ""
            return "" if now == then else describe_change(self.name, replica.url, then, now)

        then = make_model_identity(self.model)
        return [line for line in await asyncio.gather(*map(check, self.replicas)) if line]

    @property
    def replicas(self) -> tuple[Replica[Transport], ...]:
        """The servers that are used."""
        return self._pool.replicas if self._pool else ()

    @property
    def identity(self) -> ModelIdentity:
        """Identity for signatures: which model it is and how it is asked."""
        if self._stored_identity is not None:
            return self._stored_identity
        findings = self._findings
        key = findings.method, findings.form, findings.snapshot
        if self._identities.get(key) is None:
            self._identities[key] = self._sign(*key)
        return self._identities[key]

    def _sign(self, method: str, form: RequestForm | None, snapshot: str) -> ModelIdentity:
        facts = {"choices": method, "images": self._pictures.rule, "snapshot": snapshot}
        return make_judge_identity(self.model, self._settings, form, facts)

    def prepare_picture(self, image: Image) -> Picture:
        """An image in the form in which it is sent."""
        return self._pictures.prepare(image)

    async def choose(self, prompt: Prompt, choices: tuple[str, ...], *, repeat: int = 0) -> Answer[ChoiceDistribution]:
        """How the answer spreads over choices.

        Where the server reports probabilities, they are those of the first token. Otherwise they
        are the shares of the choices among `samples` sampled replies. Each of these is asked for
        once more if it is no choice. One that cannot be read then is no share and is not left out
        either: there is no answer.

        Args:
            prompt: The question.
            choices: At least two; none may be the beginning of another.
            repeat: Index among calls that are otherwise equal and shall be made each.

        Raises:
            Abstention: `abstained` where more than `max_outside` of the probability fell on no
                choice, or none of the likeliest tokens is a choice, `unparsable` where a sampled
                reply is no choice, `refused` where the judge declined.
            ServiceError: see `editjudge.base.errors`.
        """
        choices = check_choices(choices)
        if await self.find_choice_method() in IN_WORDS:
            return await self._sample_choices(prompt, choices, repeat)
        try:
            form = {"choices": list(choices), "labels": LABELS}
            reply, key = await self._call(prompt, form, repeat)
        except LogprobsUnavailable:
            # The server was restarted with other options: it is asked again next time.
            await self._ledger.put_fact(self._fact, "")
            raise
        spread = ChoiceDistribution(**reply.require_answer(key))
        if spread.outside is not None and spread.outside > self._settings.max_outside:
            raise Abstention(
                "abstained",
                f"{spread.outside:.0%} of the probability fell on none of {', '.join(choices)}"
                f" (at most {self._settings.max_outside:.0%} may)",
                calls=(key,),
            )
        return Answer(spread, (key,))

    async def answer(
        self, prompt: Prompt, contract: OutputContract[T], *, repeat: int = 0, max_tokens: int = MAX_TOKENS
    ) -> Answer[T]:
        """A reply in the form of a contract. One that cannot be parsed is asked for once more.

        A reply that was cut at its token limit is not asked for again: it would be cut there again.
        A judge that declines in words is asked again too, and its second reply counts. Choices are
        asked for again in a firmer form; see `ask_again`.

        Args:
            prompt: The question, with the contract's instruction at its end.
            contract: Form and parser of the reply.
            repeat: Index among calls that are otherwise equal and shall be made each.
            max_tokens: Token limit of the reply where the settings have none.

        Raises:
            Abstention: `unparsable`, or `refused` where the last reply declines in words.
            ServiceError: see `editjudge.base.errors`.
        """
        calls: list[str] = []
        request, kind = prompt, Unparsable.kind
        reasons: list[str] = []
        limit = self._settings.max_tokens or max_tokens
        await self.settle()
        is_bound = isinstance(contract, Option) and await self.find_choice_method() == "bound"
        form = make_request(self._settings, self._form, contract.schema, repeat=repeat, limit=limit)
        if is_bound:
            form["bound"] = True
        for _ in range(2):
            reply, key = await self._call(request, form, repeat)
            calls.append(key)
            content = reply.require_answer(*calls)
            cut = content["finish"] == "length"
            try:
                value = read_reply(contract, content["text"], cut=cut, is_bound=is_bound)
            except Unparsable as error:
                kind = error.kind
                if is_bound:  # the server was restarted with other options
                    await self._ledger.put_fact(self._fact, "")
                if cut:
                    fix = f"set a higher one for {self.name}"
                    reasons.append(f"{error} (the reply was cut at max_tokens = {limit}; {fix})")
                    break
                reasons.append(str(error))
                request = ask_again(prompt, contract, error)
                continue
            return Answer(value, tuple(calls), _make_evidence(reasons, len(reasons)))
        raise Abstention(kind, reasons[-1], _make_evidence(reasons), tuple(calls))

    async def find_choice_method(self) -> str:
        """How choices are scored: a `Method` of `ChoiceDistribution`.

        The server is asked once; the answer is stored as a fact in the ledger. Callers that come
        meanwhile wait for the same answer.
        """
        async with self._probing:
            if self._findings.wrong is not None:
                raise self._findings.wrong
            if not self._findings.method:
                await self._load_method()
            if not self._findings.method:
                await self._probe()
        return self._findings.method

    async def settle(self) -> None:
        """Find out what the server refuses, if it may, before its identity or a reply is stored."""
        if not self._takes_all:
            await self.find_choice_method()

    async def probe(self) -> str:
        """Ask the server now how choices are scored; see `find_choice_method`."""
        async with self._probing:
            await self._probe()
        return self._findings.method

    async def _probe(self) -> None:
        findings, pool, method = self._findings, self._get_pool, ""
        if self._settings.logprobs != "never":
            try:
                method = await probe_logprobs(pool, self.context, self._fix_model)
            except LogprobsUnavailable as error:
                findings.without_logprobs = error.detail
        if not method or not self._takes_all:
            in_words, findings.form = await probe_form(pool, self._settings, self.context, self._fix_model)
            method = method or in_words
        findings.method = method
        fact = {
            "method": method,
            "without_logprobs": findings.without_logprobs,
            "left_out": self.refused_settings,
            "snapshot": findings.snapshot,
        }
        await self._ledger.put_fact(self._fact, json.dumps(fact))

    @property
    def _takes_all(self) -> bool:
        return takes_all(self.replicas)

    async def _load_method(self) -> None:
        """Load the method and the form of requests from the ledger, where they are known."""
        findings = self._findings
        if not findings.method and (fact := await self._ledger.get_fact(self._fact)):
            facts = parse_json(fact)
            findings.method, findings.snapshot = facts["method"], facts["snapshot"]
            findings.without_logprobs = facts["without_logprobs"]
            findings.form = RequestForm(frozenset(facts["left_out"]))

    @property
    def _fact(self) -> str:
        way = "words" if self._settings.logprobs == "never" else "method"
        return f"{way} and form of {describe_call_identity(self._sign('', RequestForm(), ''))}"

    async def _sample_choices(
        self, prompt: Prompt, choices: tuple[str, ...], repeat: int
    ) -> Answer[ChoiceDistribution]:
        method: Method = "bound" if self._findings.method == "bound" else "sampled"
        contract = FirstWord(choices)
        count = self._settings.samples
        each = range(repeat * count, (repeat + 1) * count)
        answers = await gather_all(*(self.answer(prompt, contract, repeat=i) for i in each))
        counts = Counter(answer.value for answer in answers)
        shares = {choice: counts[choice] / len(answers) for choice in choices}
        spread = ChoiceDistribution(shares, None, method, len(answers))
        evidence = {"method": method, "probabilities": shares, "samples": len(answers)}
        again = [reason for answer in answers for reason in answer.evidence.get("unreadable", ())]
        seconds = sum(answer.evidence.get("second_replies", 0) for answer in answers)
        return Answer(spread, merge_calls(answers), evidence | _make_evidence(again, seconds))

    async def _call(self, prompt: Prompt, form: Mapping[str, Any], repeat: int = 0) -> tuple[Reply, str]:
        """The reply to a call and the call's key, from the store or made now."""
        context = self.context
        call = Call(describe_call_identity(self.identity), prompt, form, repeat)
        await prompt.work(lambda: (call.key, prompt.prefix))
        for log in context.logs:
            log.judge_calls.add(call.key)
        ledger = context.calls or self._ledger
        before = self._store_errors.get(ledger)
        fresh = False

        async def get_or_make(terms: SharedTerms) -> Reply:
            nonlocal fresh
            async with ledger.claim(call) as stored_reply:
                if stored_reply is not None:
                    context.require_budget().stored_replies += 1
                    context.add_counts(stored_replies=1)
                    return stored_reply
                fresh = True
                return await self._make_in_turn(call, ledger, before, replace(context, terms=terms))

        while True:
            try:
                key = id(ledger), call.key
                reply = await self._coalescer(key, get_or_make, context.terms)
            except CostLimit:
                # The limit is that of another caller of the same call; this caller may still pay.
                if not fresh:
                    continue
                raise
            for log in context.logs:
                log.add_reply(call, reply, made_now=fresh)
            return reply, call.key

    @property
    def _get_pool(self) -> EndpointPool[Transport]:
        if self._pool is None:
            raise NoModel(NOT_STORED, service=self.name)
        return self._pool

    async def _make_in_turn(
        self, call: Call, ledger: ReplyStore, before: StoreError | None, context: CallContext
    ) -> Reply:
        # A call that waits for a price or a leader takes no place among the calls in flight.
        price = self._settings.price
        has_price = price is not None and any((price.input, price.cached, price.output))
        async with (
            context.require_budget(price).turn(has_price=has_price),
            self._leaders.turn(f"{id(ledger)} {call.prompt.prefix}"),
        ):
            return await self._get_pool.run(
                lambda server: self._make_and_store(server, call, ledger, before, context),
                call.prompt.source,
                context.terms,
            )

    async def _make_and_store(
        self, transport: Transport, call: Call, ledger: ReplyStore, before: StoreError | None, context: CallContext
    ) -> Reply:
        # If a reply could not be stored meanwhile, this one could not be either.
        store_error = self._store_errors.get(ledger)
        if store_error is not None and store_error is not before:
            raise StoreError(store_error.message, store_error.fix)
        # Its place is held until the reply is stored. So when a process is killed, no more paid
        # replies are lost than calls are in flight, however slow the disk is.
        reply = await self._make_call(transport, call, context)
        if reply.model or not reply.abstains:  # a filter may answer in place of the model
            self._check_model(reply.model)
        try:
            return await self.recent.put(ledger, call, reply)
        except StoreError as error:
            # Without its traceback, which holds pictures and replies.
            self._store_errors[ledger] = StoreError(error.message, error.fix)
            raise

    async def _make_call(self, transport: Transport, call: Call, context: CallContext) -> Reply:
        if self._findings.wrong is not None:
            raise self._findings.wrong
        price = self._settings.price
        with context.require_budget(price).reserve_call(price, self.name, call.most_tokens) as spend:
            try:
                reply = await self._ask(transport, call, context)
            except FieldRefused:
                # What it takes has changed: it is asked anew in the next session.
                await self._ledger.put_fact(self._fact, "")
                raise
            return replace(reply, cost=spend(reply.usage))

    async def _ask(self, transport: Transport, call: Call, context: CallContext) -> Reply:
        if choices := call.form.get("choices"):
            return await transport.choose(call.prompt, tuple(choices), context)
        request, schema = call.form, call.form["schema"]
        # A server that was found not to bind choices is not asked to: its replies are `sampled`.
        if schema is not None and "enum" in schema and self._findings.method == "sampled":
            request = {**request, "schema": None}
        return await complete(transport, call.prompt, request, context)

    def _fix_model(self, reply_model: str) -> None:
        """Fix the model to its dated name, if its first reply has one."""
        self._findings.snapshot = find_snapshot(self.model.name, reply_model)
        self._check_model(reply_model)

    def _check_model(self, reply_model: str) -> None:
        """Compare the model's name in a reply; after a wrong one no further call is made."""
        accepted_names = (self.model.name, self._findings.snapshot, *self._settings.accept)
        if reply_model and any(reply_model == one or fnmatchcase(reply_model, one) for one in accepted_names):
            return
        self._findings.wrong = WrongModel(
            f"asked {self.model.name!r}, {reply_model!r} answered; name that one as `model`, or"
            " list it under `accept`, if it is the judge you mean",
            service=self.name,
            endpoint=self._settings.url,
            model=self.model.name,
        )
        raise self._findings.wrong


def _make_evidence(reasons: list[str], second_replies: int = 0) -> dict[str, Any]:
    evidence: dict[str, Any] = {"unreadable": reasons} if reasons else {}
    return evidence | ({"second_replies": second_replies} if second_replies else {})
