"""A multimodal LLM as judge: probabilities of choices, and answers with a contract.

What a transport does not know is here: no call is made twice, calls with a common prefix
follow each other, replies are read by their contract and asked for once more where they
cannot be, the model that answers is the one asked for, and costs stay below their limit.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from ..answers import Option, OutputContract, Unparsable
from ..errors import Abstained, ConfigError, LogprobsUnavailable, WrongModel
from .choices import ChoiceDistribution, check_choices
from .coalesce import Coalesced, Leaders
from .pictures import Picture, Pictures
from .prompt import Prompt, Text
from .transport import Completion, JudgeModel, Sampling, Transport, Usage

if TYPE_CHECKING:
    from ..config import GeneralistEndpoint
    from ..images import Image
    from ..run.ledger import Call, Ledger, Reply
    from .budget import Budget
    from .retry import RetryPolicy

T = TypeVar("T")
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


class Generalist:
    """One multimodal LLM, bound as `generalist.<name>`.

    Args:
        name: `generalist.<name>`.
        endpoint: Its settings.
        transport: The way to it.
        ledger: Where calls and replies are kept.
        budget: What the run may still spend.
        concurrency: Calls in flight.
        prefix_first: Whether the first of the calls with a common prefix goes ahead of the
            others, so that they find it in the server's cache.

    Attributes:
        model: What `open` found.
        calls: Calls made so far.
        usage: What they took together.
        without_logprobs: Why choices are sampled although probabilities were wanted.
    """

    def __init__(
        self,
        name: str,
        endpoint: GeneralistEndpoint,
        transport: Transport,
        ledger: Ledger,
        budget: Budget,
        *,
        concurrency: int = 32,
        prefix_first: bool = True,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.transport = transport
        self.model = JudgeModel(endpoint.model)
        self.calls = 0
        self.usage = Usage(attempts=0)
        self.without_logprobs = ""
        self._pictures = Pictures(endpoint.max_pixels)
        self._ledger = ledger
        self._budget = budget
        self._limit = asyncio.Semaphore(concurrency)
        self._leaders = Leaders(enabled=prefix_first)
        self._coalesced: Coalesced[Reply] = Coalesced()
        self._method = "sampled" if endpoint.logprobs == "never" else ""
        self._probing = asyncio.Lock()
        self._wrong: WrongModel | None = None

    async def open(self, timeout: float) -> None:
        """Find out which model this is.

        Raises:
            ServiceError: the server cannot be reached, or has another model.
        """
        self.model = await self.transport.identify(timeout)

    @property
    def identity(self) -> str:
        """Which model this is and how it is asked, for signatures."""
        facts = {
            # Where the server keeps its files says nothing of the model.
            **{name: fact for name, fact in self.model.facts.items() if not fact.startswith("/")},
            "server": self.model.server,
            "transport": urlsplit(self.endpoint.url).scheme.removesuffix("s"),
            "images": self._pictures.rule,
            "choices": self._method,
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

    async def choose(self, prompt: Prompt, choices: tuple[str, ...]) -> Answer[ChoiceDistribution]:
        """How the judge's answer spreads over choices.

        From probabilities of the first token where the server tells them; otherwise the share
        of each choice among `repeats` sampled replies.

        Raises:
            Abstained: `abstained` where more than `max_outside` of the probability fell on no
                choice, `unparsable` where a sampled reply is no choice, `refused`.
            ServiceError: see `editjudge.errors`.
        """
        choices = check_choices(choices)
        if await self.method() == "sampled":
            return await self._sampled(prompt, choices)
        reply, fresh = await self._call(prompt, {"choices": list(choices)})
        found = ChoiceDistribution(**reply.content)
        evidence = self._evidence([(reply, fresh)], prompt) | {
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

        Args:
            prompt: Ends with the contract's instruction.
            repeat: Index among calls that are to differ.

        Raises:
            Abstained: `unparsable` with the raw replies, or `refused`.
            ServiceError: see `editjudge.errors`.
        """
        made: list[tuple[Reply, bool]] = []
        asked = prompt
        reasons: list[str] = []
        for _ in range(2):
            made.append(await self._call(asked, self._form(contract.schema, repeat), repeat))
            reply = made[-1][0]
            try:
                value = contract.parse(
                    reply.content["text"], cut=reply.content["finish"] == "length"
                )
            except Unparsable as error:
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

    async def method(self) -> str:
        """How choices are judged: `logprobs`, `top_logprobs` or `sampled`; asked of it once."""
        async with self._probing:
            if not self._method:
                try:
                    choice = await self.transport.choose(_PROBE, ("Yes", "No"))
                except LogprobsUnavailable as error:
                    self._method, self.without_logprobs = "sampled", error.detail
                except Abstained:
                    # It lists tokens, and none of them is an answer.
                    self._method = "top_logprobs"
                else:
                    self._method = choice.distribution.method
                    self._spent(choice.usage)
        return self._method

    async def _sampled(
        self, prompt: Prompt, choices: tuple[str, ...]
    ) -> Answer[ChoiceDistribution]:
        contract = Option(choices)
        said = await asyncio.gather(
            *(self.answer(prompt, contract, repeat=i) for i in range(self.endpoint.repeats))
        )
        counts = Counter(one.value for one in said)
        shares = {choice: counts[choice] / len(said) for choice in choices}
        found = ChoiceDistribution(shares, None, "sampled", len(said))
        evidence = {"method": "sampled", "probabilities": shares, "samples": len(said)}
        if len(said) == 1:
            return Answer(found, said[0].evidence | evidence)
        return Answer(found, evidence | {"replies": [one.evidence for one in said]})

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
    ) -> tuple[Reply, bool]:
        """The reply to a call, and whether it was made just now."""
        from ..run.ledger import Call

        call = Call(self.identity, prompt, form, repeat)
        if (known := self._ledger.get(call)) is not None:
            return known, False
        fresh = False

        async def make() -> Reply:
            nonlocal fresh
            fresh = True
            return await self._make(call)

        return await self._coalesced(call.key, make), fresh

    async def _make(self, call: Call) -> Reply:
        from ..run.ledger import Reply

        # Whoever waits for a leader holds no place among the calls in flight.
        async with self._leaders.turn(call.prompt.prefix), self._limit:
            if self._wrong is not None:
                raise self._wrong
            start = time.monotonic()
            with self._budget.one_call(self.endpoint.price, self.name) as spend:
                content, model, usage = await self._ask(call)
                cost = spend(usage)
            seconds = time.monotonic() - start
        self._spent(usage)
        self._check_model(model)
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
        self._ledger.put(call, reply)
        return reply

    async def _ask(self, call: Call) -> tuple[dict[str, Any], str, Usage]:
        if choices := call.form.get("choices"):
            choice = await self.transport.choose(call.prompt, tuple(choices))
            return asdict(choice.distribution), choice.model, choice.usage
        sampling = Sampling(**call.form["sampling"])
        said: Completion = await self.transport.complete(call.prompt, sampling, call.form["schema"])
        return {"text": said.text, "finish": said.finish}, said.model, said.usage

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

    def _evidence(self, made: list[tuple[Reply, bool]], prompt: Prompt) -> dict[str, Any]:
        last = made[-1][0]
        usage = {
            "calls": sum(fresh for _, fresh in made),
            "prompt_tokens": sum(reply.prompt_tokens for reply, _ in made),
            "cached_tokens": sum(reply.cached_tokens for reply, _ in made),
            "completion_tokens": sum(reply.completion_tokens for reply, _ in made),
            "cost": _total([reply.cost for reply, _ in made]),
        }
        said = {"reply": last.content["text"]} if "text" in last.content else {}
        return said | {"judge": last.model, "prompt": prompt.digest, "usage": usage}


def transport_for(
    endpoint: GeneralistEndpoint, policy: RetryPolicy, service: str, concurrency: int
) -> Transport:
    """The transport that an address asks for."""
    if urlsplit(endpoint.url).scheme == "grpc":
        from .vllm import VllmTransport

        return VllmTransport(endpoint, policy, service=service)
    from .openai import OpenAiTransport

    return OpenAiTransport(endpoint, policy, service=service, concurrency=concurrency)


def check_consent(endpoint: GeneralistEndpoint) -> None:
    """Refuse to send images to a server outside one's own network without consent.

    Raises:
        ConfigError: naming the host and the setting.
    """
    host = urlsplit(endpoint.url).hostname or ""
    if endpoint.send_images or _own_network(host):
        return
    raise ConfigError(
        f"{endpoint.url}: images would be sent to {host}, outside your own network",
        "if they may be, set send_images = true for this generalist",
    )


def _own_network(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot, or in a domain that public name servers do not have.
        return "." not in host or host.endswith((".local", ".internal", ".localhost", ".svc"))
    return address.is_private or address.is_loopback


def _retried(reasons: list[str]) -> dict[str, Any]:
    return {"unreadable": reasons} if reasons else {}


def _total(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
