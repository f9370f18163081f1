"""A multimodal LLM as judge: probabilities of choices, and answers with a contract.

What a transport does not know is here: no call is made twice, calls with a common prefix
follow each other, replies are read by their contract and asked for once more where they
cannot be, the model that answers is the one asked for, and costs stay below their limit.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from ..answers import Option, OutputContract, Unparsable
from ..errors import Abstained, LogprobsUnavailable, ServiceError, WrongModel
from .choices import ChoiceDistribution, check_choices
from .coalesce import Coalesced, Leaders
from .lanes import Lane, Lanes
from .pictures import Picture, Pictures
from .prompt import Prompt, Text
from .transport import Completion, JudgeModel, Sampling, Transport, Usage

if TYPE_CHECKING:
    from ..config import GeneralistEndpoint
    from ..images import Image
    from ..run.ledger import Call, Ledger, Reply
    from .budget import Budget

T = TypeVar("T")
_METHOD = re.compile(r"(?<=[(,])choices=(\w+),?")
_READS = re.compile(r"(?<=[(,])reads=[\w.]+,?")
_REPEATS = re.compile(r"(?<=[(,])repeats=\d+,?")
_PROBE = Prompt("", (Text("Is ice frozen water? Answer with one word, Yes or No."),))


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a judge said.

    Attributes:
        value: A `ChoiceDistribution`, or what the contract reads.
        evidence: Enough to check it by hand: raw replies, model, tokens, repetitions.
    """

    value: T
    evidence: dict[str, Any]


def merged(said: Sequence[Answer[Any]]) -> dict[str, Any]:
    """What several answers took together, and the calls that they rest on."""
    each = [one.evidence["usage"] for one in said]
    costs = [usage["cost"] for usage in each if usage["cost"] is not None]
    counted = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")
    usage = {name: sum(one[name] for one in each) for name in counted}
    calls = [key for one in said for key in one.evidence.get("calls", [one.evidence.get("call")])]
    return {
        "usage": usage | {"cost": math.fsum(costs) if costs else None},
        "calls": [key for key in dict.fromkeys(calls) if key],
    }


class Generalist:
    """One multimodal LLM, bound as `generalist.<name>`.

    Args:
        name: `generalist.<name>`.
        endpoint: Its settings.
        lanes: The ways to it: one, or several replicas.
        ledger: Where calls and replies are kept.
        budget: What the run may still spend.
        prefix_first: Whether the first of the calls with a common prefix goes ahead of the
            others, so that they find it in the server's cache. By default not on a single vLLM,
            which counts a prefix as cached as soon as it is scheduled.
        identity: Of the time when the ledger's calls were made, where there is no server.

    Attributes:
        model: What `open` found.
        calls: Calls made so far.
        usage: What they took together.
        problems: Address to what is wrong with it, of replicas that are not used.
        without_logprobs: Why choices are sampled although probabilities were wanted.
    """

    def __init__(
        self,
        name: str,
        endpoint: GeneralistEndpoint,
        lanes: Lanes[Transport],
        ledger: Ledger,
        budget: Budget,
        *,
        prefix_first: bool | None = None,
        identity: str = "",
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.model = JudgeModel(identity.partition("(")[0] or endpoint.model)
        self.calls = 0
        self.usage = Usage(attempts=0)
        self.problems: dict[str, str] = {}
        self.without_logprobs = ""
        self._pictures = Pictures(endpoint.max_pixels)
        self._ledger = ledger
        self._budget = budget
        self._lanes = lanes
        self._leaders = Leaders(enabled=prefix_first is not False)
        self._prefix_first = prefix_first
        self._coalesced: Coalesced[Reply] = Coalesced()
        self._method = "sampled" if endpoint.logprobs == "never" else ""
        self._probing = asyncio.Lock()
        self._wrong: WrongModel | None = None
        self._stated = identity
        if told := _METHOD.search(identity):
            self._method = told[1]

    async def open(self, timeout: float) -> None:
        """Find out which model this is; `problems` says which replicas are not used.

        Raises:
            ServiceError: no server can be reached, or none has the model.
        """
        lanes = self._lanes.lanes
        found = await asyncio.gather(
            *(lane.target.identify(timeout) for lane in lanes), return_exceptions=True
        )
        used: list[Lane[Transport]] = []
        for lane, one in zip(lanes, found, strict=True):
            if isinstance(one, ServiceError):
                self.problems[lane.url] = one.detail
            elif isinstance(one, BaseException):
                raise one
            elif used and _shown(one) != _shown(self.model):
                here, first = _shown(one), _shown(self.model)
                self.problems[lane.url] = f"not used: {here} is served here, not {first}"
            else:
                self.model = one
                used.append(lane)
        if not used:
            raise next(one for one in found if isinstance(one, ServiceError))
        self._lanes = self._lanes.only(used)
        if self._prefix_first is None and len(used) == 1 and self.model.server.startswith("vllm"):
            self._leaders = Leaders(enabled=False)
        self._recall()

    @property
    def replicas(self) -> tuple[Lane[Transport], ...]:
        """The servers that are used."""
        return self._lanes.lanes

    @property
    def identity(self) -> str:
        """Which model this is and how it is asked, for signatures."""
        if self._stated:
            return self._stated
        facts = {
            **_facts(self.model),
            "transport": urlsplit(self.endpoint.url).scheme.removesuffix("s"),
            "images": self._pictures.rule,
            "choices": self._method,
            # Sampled choices are replies in words.
            "reads": f"{Option.name}.{Option.parser}" if self._method == "sampled" else "",
            "temperature": f"{self.endpoint.temperature:g}",
            "max_tokens": str(self.endpoint.max_tokens),
            "seed": str(self.endpoint.seed),
            "repeats": str(self.endpoint.repeats),
            "untrained": "yes" if "untrained" in self.model.name else "",
        }
        shown = ",".join(f"{k}={v}" for k, v in sorted(facts.items()) if v)
        return f"{self.model.name}({shown})"

    def picture(self, image: Image) -> Picture:
        """An image as this judge gets it."""
        return self._pictures.prepared(image)

    async def choose(
        self, prompt: Prompt, choices: tuple[str, ...], *, repeat: int = 0
    ) -> Answer[ChoiceDistribution]:
        """How the judge's answer spreads over choices.

        From probabilities of the first token where the server tells them; otherwise the share
        of each choice among `repeats` sampled replies.

        Args:
            repeat: Index among calls that are to differ.

        Raises:
            Abstained: `abstained` where more than `max_outside` of the probability fell on no
                choice, `unparsable` where a sampled reply is no choice, `refused`.
            ServiceError: see `editjudge.errors`.
        """
        choices = check_choices(choices)
        if await self.method() == "sampled":
            return await self._sampled(prompt, choices, repeat)
        made = await self._call(prompt, {"choices": list(choices)}, repeat)
        found = ChoiceDistribution(**made[0].content)
        evidence = self._evidence([made], prompt) | {
            "method": found.method,
            "probabilities": dict(found.probabilities),
            "outside": found.outside,
        }
        if found.outside is not None and found.outside > self.endpoint.max_outside:
            raise Abstained(
                "abstained",
                f"{found.outside:.0%} of the probability fell on none of {', '.join(choices)}"
                f" (at most {self.endpoint.max_outside:.0%} may)",
                evidence,
            )
        return Answer(found, evidence)

    async def answer(
        self, prompt: Prompt, contract: OutputContract[T], *, repeat: int = 0
    ) -> Answer[T]:
        """A reply in the form of a contract, asked for once more where it cannot be read.

        One that was cut at `max_tokens` is not asked for again: it would be cut there again.

        Args:
            prompt: Ends with the contract's instruction.
            repeat: Index among calls that are to differ.

        Raises:
            Abstained: `unparsable` with the raw replies, or `refused`.
            ServiceError: see `editjudge.errors`.
        """
        made: list[tuple[Reply, bool, str]] = []
        asked = prompt
        reasons: list[str] = []
        for _ in range(2):
            made.append(await self._call(asked, self._form(contract.schema, repeat), repeat))
            reply = made[-1][0].content
            cut = reply["finish"] == "length"
            try:
                value = contract.parse(reply["text"], cut=cut)
            except Unparsable as error:
                if cut:
                    reasons.append(f"{error} ({self._too_short})")
                    break
                reasons.append(str(error))
                asked = prompt.followed_by(
                    Text(
                        "\nYour previous reply could not be read. Reply again, and only in the"
                        f" form asked for. What was wrong with it: {error}"
                    )
                )
                continue
            return Answer(value, self._evidence(made, prompt) | _retried(reasons))
        raise Abstained("unparsable", reasons[-1], self._evidence(made, prompt) | _retried(reasons))

    @property
    def _too_short(self) -> str:
        limit = self.endpoint.max_tokens
        return f"the reply was cut at max_tokens = {limit}; set a higher one for {self.name}"

    async def method(self) -> str:
        """How choices are judged: `logprobs`, `top_logprobs` or `sampled`.

        Asked of it once; the answer is a fact in the ledger.
        """
        async with self._probing:
            if not self._method:
                self._recall()
            if not self._method:
                await self._probe()
        return self._method

    async def probe(self) -> str:
        """What `method` tells, asked of it now."""
        async with self._probing:
            if self.endpoint.logprobs != "never":
                await self._probe()
        return self._method

    async def _probe(self) -> None:
        try:
            choice = await self._lanes.run(lambda one: one.choose(_PROBE, ("Yes", "No")))
        except LogprobsUnavailable as error:
            self._method, self.without_logprobs = "sampled", error.detail
        except Abstained:
            # It lists tokens, and none of them is an answer.
            self._method = "top_logprobs"
        else:
            self._method = choice.distribution.method
            self._spent(choice.usage)
        self._ledger.keep_fact(self._fact, f"{self._method} {self.without_logprobs}".strip())

    def _recall(self) -> None:
        """Take the method from the ledger, where it is known."""
        if not self._method and (known := self._ledger.fact(self._fact)):
            self._method, _, self.without_logprobs = known.partition(" ")

    @property
    def _fact(self) -> str:
        return f"choices of {self._asked}"

    @property
    def _asked(self) -> str:
        """The identity as far as a single reply depends on it.

        Not how choices are judged, which is found out by asking, nor how a sampled one is read,
        and not how many replies are averaged: each of them is a call of its own.
        """
        return _READS.sub("", _REPEATS.sub("", _METHOD.sub("", self.identity)))

    async def _sampled(
        self, prompt: Prompt, choices: tuple[str, ...], repeat: int
    ) -> Answer[ChoiceDistribution]:
        contract = Option(choices)
        count = self.endpoint.repeats
        each = range(repeat * count, (repeat + 1) * count)
        said = await asyncio.gather(*(self.answer(prompt, contract, repeat=i) for i in each))
        counts = Counter(one.value for one in said)
        shares = {choice: counts[choice] / len(said) for choice in choices}
        found = ChoiceDistribution(shares, None, "sampled", len(said))
        evidence = {"method": "sampled", "probabilities": shares, "samples": len(said)}
        first = said[0].evidence
        if len(said) == 1:
            return Answer(found, first | evidence)
        told = {name: first[name] for name in ("judge", "prompt")}
        replies = [one.evidence["reply"] for one in said]
        return Answer(found, evidence | {"replies": replies} | told | merged(said))

    def _form(self, schema: Mapping[str, Any] | None, repeat: int) -> dict[str, Any]:
        seed = self.endpoint.seed
        sampling = Sampling(
            temperature=self.endpoint.temperature,
            max_tokens=self.endpoint.max_tokens,
            seed=None if seed is None else seed + repeat,
        )
        return {"schema": schema, "sampling": asdict(sampling)}

    async def _call(
        self, prompt: Prompt, form: Mapping[str, Any], repeat: int = 0
    ) -> tuple[Reply, bool, str]:
        """The reply to a call, whether it was made just now, and the call's key."""
        from ..run.ledger import Call

        call = Call(self._asked, prompt, form, repeat)
        if (known := self._ledger.get(call)) is not None:
            return known, False, call.key
        fresh = False

        async def make() -> Reply:
            nonlocal fresh
            fresh = True
            return await self._make(call)

        return await self._coalesced(call.key, make), fresh, call.key

    async def _make(self, call: Call) -> Reply:
        # Whoever waits for a leader holds no place among the calls in flight.
        async with self._leaders.turn(call.prompt.prefix):
            prefix = call.prompt.prefix if call.prompt.pictures else ""
            reply, usage = await self._lanes.run(lambda one: self._make_at(one, call), prefix)
        self._spent(usage)
        self._check_model(reply.model)
        self._ledger.put(call, reply)
        return reply

    async def _make_at(self, transport: Transport, call: Call) -> tuple[Reply, Usage]:
        from ..run.ledger import Reply

        if self._wrong is not None:
            raise self._wrong
        start = time.monotonic()
        with self._budget.one_call(self.endpoint.price, self.name) as spend:
            content, model, usage = await _ask(transport, call)
            cost = spend(usage)
        seconds = time.monotonic() - start
        reply = Reply(
            content,
            model,
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens,
            usage.attempts,
            cost,
            seconds,
        )
        return reply, usage

    def _check_model(self, answered: str) -> None:
        """Compare the name that came back; once it was wrong, nothing more is asked."""
        accepted = (self.model.name, *self.endpoint.accept)
        if any(answered == one or fnmatchcase(answered, one) for one in accepted):
            return
        self._wrong = WrongModel(
            f"asked {self.model.name!r}, {answered!r} answered; name that one as `model`, or list"
            " it under `accept`, if it is the judge you mean",
            service=self.name,
            endpoint=self.endpoint.url,
            model=self.model.name,
        )
        raise self._wrong

    def _spent(self, usage: Usage) -> None:
        self.calls += 1
        self.usage += usage

    def _evidence(self, made: list[tuple[Reply, bool, str]], prompt: Prompt) -> dict[str, Any]:
        last, _, key = made[-1]
        usage = {
            "calls": sum(fresh for _, fresh, _ in made),
            "prompt_tokens": sum(reply.prompt_tokens for reply, *_ in made),
            "cached_tokens": sum(reply.cached_tokens for reply, *_ in made),
            "completion_tokens": sum(reply.completion_tokens for reply, *_ in made),
            "cost": _total([reply.cost for reply, *_ in made]),
        }
        said = {"reply": last.content["text"]} if "text" in last.content else {}
        # What the verdict rests on: the run's store finds the replies by these keys.
        said |= {"call": key}
        if len(made) > 1:
            said |= {"calls": [one for *_, one in made]}
        return said | {"judge": last.model, "prompt": prompt.digest, "usage": usage}


async def _ask(transport: Transport, call: Call) -> tuple[dict[str, Any], str, Usage]:
    if choices := call.form.get("choices"):
        choice = await transport.choose(call.prompt, tuple(choices))
        return asdict(choice.distribution), choice.model, choice.usage
    sampling = Sampling(**call.form["sampling"])
    said: Completion = await transport.complete(call.prompt, sampling, call.form["schema"])
    return {"text": said.text, "finish": said.finish}, said.model, said.usage


def _facts(model: JudgeModel) -> dict[str, str]:
    """What identifies a model; where the server keeps its files says nothing of it."""
    told = {name: fact for name, fact in model.facts.items() if not fact.startswith("/")}
    return told | {"server": model.server}


def _shown(model: JudgeModel) -> str:
    facts = ",".join(f"{name}={fact}" for name, fact in sorted(_facts(model).items()) if fact)
    return f"{model.name}({facts})"


def _retried(reasons: list[str]) -> dict[str, Any]:
    return {"unreadable": reasons} if reasons else {}


def _total(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
