"""Which questions compare with the source: decided by the judge, once for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..app.client import Ledger
from ..base.config import Settings
from ..base.errors import Abstained, ConfigError
from ..base.item import Edit, Item
from ..benchmarks.comparing import compares
from ..benchmarks.gie.compact import Compares, decided_by, keep_compares
from ..benchmarks.gie.dataset import GieData
from ..engine.progress import Progress, took
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.context import CallContext
from ..panel.generalist import Generalist
from ..prompts import template
from ..scorers.asking import Question
from .folder import CALLS
from .items import JUDGE

TEMPLATE = "prepare/compares"


class Decided(NamedTuple):
    """What came of it.

    Attributes:
        asked: Questions that the judge was asked about now.
        unread: Of these, how many got no answer that can be read: their words decide.
        compares: How many questions compare now.
        otherwise: Of how many their words say otherwise; they stand first in the file.
    """

    asked: int
    unread: int
    compares: int
    otherwise: int
    usage: Mapping[str, float]


async def needs_the_source(item: Item, question: Mapping[str, Any], judge: Generalist) -> bool:
    """Whether the judge says that a question cannot be answered without the source.

    Args:
        question: Its `question` and `options`.

    Raises:
        Abstained: the reply cannot be read, or the generalist refused.
        ServiceError: see `editjudge.base.errors`.
    """
    prompt = template(TEMPLATE)
    said = await Question(prompt, prompt.form).ask(
        Edit(item, "", None),
        judge,
        question=question["question"],
        options="\n".join(question["options"]),
    )
    shares: Mapping[str, float] = said.value.probabilities
    return shares["Yes"] > shares["No"]


def decide(data: GieData, settings: Settings) -> Decided:
    """Have the judge decide which questions compare, and keep it beside the converted data.

    What stands in the file is not asked about again: people may have changed it.

    Args:
        data: As `compact.convert` wrote it.

    Raises:
        ConfigError: the generalist cannot be used.
        ServiceError: it is not there.
        InputError: what was decided before is about other questions, or cannot be written.
    """
    known = {one.position: one for one in decided_by(data.path)}
    left = [
        (item, question)
        for item in map(data.outline, data.items())
        for question in item.questions
        if int(item.id) not in known
    ]
    with Ledger(settings.ledger or data.path / CALLS) as ledger:
        answers, usage = asyncio.run(_asked(left, settings, ledger)) if left else ([], {})
    for (item, question), answer in zip(left, answers, strict=True):
        if answer is not None:
            words = compares(question["question"], question["options"])
            position = int(item.id)
            known[position] = Compares(position, question["question"], answer, words)
    keep_compares(data.path, known.values())
    return Decided(
        asked=len(left),
        unread=sum(answer is None for answer in answers),
        compares=sum(one.compares for one in known.values()),
        otherwise=sum(one.compares != one.words for one in known.values()),
        usage=usage,
    )


async def _asked(
    left: Sequence[tuple[Item, Mapping[str, Any]]], settings: Settings, ledger: Ledger
) -> tuple[list[bool | None], dict[str, float]]:
    """The judge's answers, None where it gave none that can be read; and what they took."""
    budget = Budget(settings.max_cost)
    policy = PoolPolicy(patience=settings.patience)
    panel = Panel(settings, ledger=ledger, policy=policy).within(CallContext(budget))
    room = asyncio.Semaphore(max(1, settings.concurrency))

    async def answer(item: Item, question: Mapping[str, Any]) -> bool | None:
        async with room:
            try:
                return await needs_the_source(item, question, panel.generalist(JUDGE))
            except Abstained:
                return None

    async with panel:
        if JUDGE not in panel.served:
            raise ConfigError(
                f"{JUDGE} cannot be used: {panel.why_not(JUDGE)}",
                "mend that; editjudge doctor checks it",
            )
        answers = await asyncio.gather(*(answer(*each) for each in left))
        return list(answers), took(panel, Progress(budget=budget))
