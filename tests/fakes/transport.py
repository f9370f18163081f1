"""A transport whose answers stand in a list, for tests of what is built on it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Self, TypeVar

from editjudge.base.config import JudgeEndpoint, Price
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.panel.calls import NO_USAGE, MemoryReplies, Reply, ReplyStore, Usage
from editjudge.panel.choices import ChoiceDistribution
from editjudge.panel.context import NO_CALLER, CallContext
from editjudge.panel.judge import Judge
from editjudge.panel.pool import EndpointPool
from editjudge.panel.prompt import Picture, Prompt
from editjudge.panel.replica import Replica
from editjudge.panel.transport import JudgeModel, Sampling, Transport

JUDGE = ServiceName.judge("judge")
USAGE = Usage(prompt_tokens=100, cached_tokens=60, completion_tokens=1)


def read_prompt(prompt: Prompt) -> str:
    """A prompt as one text, images as [name]."""
    parts = (f"[{p.name}]" if isinstance(p, Picture) else p.text for p in prompt.parts)
    return "".join(parts)


def spread(shares: Mapping[str, float], outside: float, model: str, usage: Usage = NO_USAGE) -> Reply:
    """A reply with probabilities of choices."""
    return Reply(asdict(ChoiceDistribution(shares, outside, "logprobs")), model, usage)


def distribution(reply: Reply) -> ChoiceDistribution:
    """The probabilities in a reply."""
    return ChoiceDistribution(**reply.content)


def text_reply(text: str, model: str, usage: Usage = NO_USAGE, finish: str = "stop") -> Reply:
    """A reply in words."""
    return Reply({"text": text, "finish": finish}, model, usage)


E = TypeVar("E")


class ScriptedTransport(Transport):
    """Takes answers from `script`; the last one stays.

    For `choose` an answer is a mapping of probabilities, for `complete` a text; both may be an
    exception, a whole `Reply`, or a function of the prompt that gives one. The
    probe is answered beside the script.

    Args:
        binds: Whether it holds replies to the choices that it is given.
    """

    url = "http://127.0.0.1:1/v1"

    def __init__(self, *script: Any, model: str = "judge", seconds: float = 0.0, binds: bool = False) -> None:
        self.script = list(script)
        self.binds = binds
        self.model = model
        self.seconds = seconds
        self.asked: list[Prompt] = []
        self.samplings: list[Sampling] = []
        self.schemas: list[Any] = []
        self.in_flight = self.most_in_flight = 0

    async def identify(self, timeout: float) -> JudgeModel:
        return JudgeModel(self.model, server="scripted 1")

    async def choose(self, prompt: Prompt, choices: tuple[str, ...], context: CallContext = NO_CALLER) -> Reply:
        if "frozen water" in read_prompt(prompt):  # the probe
            answer = self.script[0]
            if isinstance(answer, Exception):
                raise answer
            return spread({"Yes": 1.0, "No": 0.0}, 0.0, self.model)
        said = await self._next(prompt)
        if isinstance(said, Reply):
            return said
        outside = 1 - sum(said.values())
        total = sum(said.values())
        shares = {choice: said.get(choice, 0.0) / total for choice in choices}
        return spread(shares, outside, self.model, USAGE)

    async def complete(self, prompt: Prompt, sampling: Sampling, context: CallContext = NO_CALLER) -> Reply:
        if "frozen water" in read_prompt(prompt):
            return text_reply("north" if self.binds else "Yes", self.model)
        self.samplings.append(sampling)
        self.schemas.append(sampling.schema)
        said = await self._next(prompt)
        if isinstance(said, Reply):
            return said
        return text_reply(said, self.model, USAGE)

    async def close(self) -> None:
        pass

    async def _next(self, prompt: Prompt) -> Any:
        self.asked.append(prompt)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(prompt)
        if isinstance(answer, Exception):
            raise answer
        return answer


def pool_of(target: E, most: int) -> EndpointPool[E]:
    """A pool of one server, whose client exists already and observes no attempts."""
    return EndpointPool([Replica(str(getattr(target, "url", "")), lambda _: target, most)])


def scripted_judge(
    transport: ScriptedTransport, *, ledger: ReplyStore | None = None, concurrency: int = 32, **settings: Any
) -> Judge:
    """A judge over a scripted transport, not opened."""
    endpoint = JudgeEndpoint(url=transport.url, model=transport.model, **settings)
    return Judge(JUDGE, endpoint, pool_of(transport, concurrency), ledger or MemoryReplies())


PRICE = Price(input=1000.0, cached=100.0, output=5000.0)
"""With `USAGE` a call costs 40 * 1000 + 60 * 100 + 1 * 5000 millionths: 0.051."""


class PanelStandIn:
    """What stands in for a panel, as far as whoever calls it is concerned."""

    context = NO_CALLER

    def with_context(self, context: CallContext) -> Self:
        """The same, called on somebody's behalf."""
        bound = copy.copy(self)
        bound.context = context
        return bound


class OneJudge(PanelStandIn):
    """Has one judge, whose answers are scripted, and specialists that a subclass answers for."""

    def __init__(self, *script: Any, specialists: Iterable[str] = (), **settings: Any) -> None:
        self.transport = ScriptedTransport(*script)
        self.scripted = scripted_judge(self.transport, **settings)
        self.specialists = tuple(map(ServiceName.parse, specialists))
        self.service_names = frozenset({JUDGE, *self.specialists})

    def judge(self, service: str) -> Any:
        assert service == JUDGE
        return self.scripted.with_context(self.context)

    def identities(self) -> dict[ServiceName, ModelIdentity]:
        theirs = {name: ModelIdentity(f"{name}/1") for name in self.specialists}
        return {JUDGE: self.scripted.identity, **theirs}
