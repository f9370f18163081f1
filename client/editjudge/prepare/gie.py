"""Converts GIE-Bench's data, and has a judge decide which questions compare with the source."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from ..app.client import work_on_all
from ..app.ledger import open_ledger
from ..base.config import Settings
from ..base.errors import Abstention
from ..base.item import Edit, Item
from ..base.strict import Number, Strict
from ..benchmarks.comparison_words import refers_to_source
from ..benchmarks.gie.dataset import GieData
from ..benchmarks.gie.release import ComparisonDecision, convert, read_decisions, write_decisions
from ..engine.progress import Progress, summarise_usage
from ..panel.budget import Budget
from ..panel.judge import Judge
from ..prompts import get_template
from ..scorers.judge_scorer import Question
from .folder import CALLS
from .items import JUDGE
from .preparation import open_panel

_TEMPLATE = "prepare/compares"


class ConversionResult(Strict):
    """The result of a conversion, printed by `prepare gie --json`.

    Attributes:
        data: The folder or file of the converted data.
        items: Number of items in it.
        bytes: Size of what was written, in bytes.
        data_digest: Digest of the converted data.
        notes: What people should know of the data, one line each.
        compares: How many questions compare with the source, by the judge; null without a judge.
        otherwise: For how many the wording says otherwise; they come first in the file.
        unread: For how many the judge's reply could not be parsed: the wording decides.
        usage: What the judge used: calls, tokens, cost.
    """

    data: Path
    items: int
    bytes: int
    data_digest: str
    notes: tuple[str, ...]
    compares: int | None = None
    otherwise: int = 0
    unread: int = 0
    usage: dict[str, Number] = Field(default_factory=dict)


def convert_gie(source: Path, out: Path, settings: Settings) -> ConversionResult:
    """Convert the official file, and have the judge decide which questions compare.

    What was decided before is not asked about again: people may have changed it. Where no judge is
    configured, the words decide.

    Raises:
        ConfigError: the judge cannot be used.
        ServiceError: it is not there.
        InputError: the data cannot be read, what was decided before is about other questions, or
            nothing can be written.
    """
    size = convert(source, out)
    decision_fields: dict[str, Any] = {}
    if JUDGE.variant in settings.judges:
        decision_fields = _decide(GieData(out), settings)
    data = GieData(out)
    return ConversionResult(
        data=out,
        items=sum(1 for _ in data.items()),
        bytes=size,
        data_digest=data.digest,
        notes=data.notes(),
        **decision_fields,
    )


def _decide(data: GieData, settings: Settings) -> dict[str, Any]:
    """Store the judge's decisions beside the data; returns the fields of the result about them."""
    decisions = {each.position: each for each in read_decisions(data.path)}
    left = [
        (item, question)
        for item in map(data.outline, data.items())
        for question in item.questions
        if int(item.id) not in decisions
    ]
    answers, usage = asyncio.run(_answers(left, data, settings)) if left else ([], {})
    for (item, question), answer in zip(left, answers, strict=True):
        if answer is not None:
            words = refers_to_source(question["question"], question["options"])
            position = int(item.id)
            decisions[position] = ComparisonDecision(position, question["question"], answer, words)
    write_decisions(data.path, decisions.values())
    return {
        "compares": sum(each.compares for each in decisions.values()),
        "otherwise": sum(each.compares != each.words for each in decisions.values()),
        "unread": sum(answer is None for answer in answers),
        "usage": usage,
    }


async def _answers(
    left: Sequence[tuple[Item, Mapping[str, Any]]], data: GieData, settings: Settings
) -> tuple[list[bool | None], dict[str, float]]:
    """Get the judge's answers, None where a reply could not be parsed, and the usage."""
    answers: list[bool | None] = [None] * len(left)
    with open_ledger(settings.ledger or data.path / CALLS, settings.patience) as ledger:
        budget = Budget.of(settings, ledger)
        async with open_panel(settings, ledger, (JUDGE,), budget) as panel:

            async def answer(place: int, pair: tuple[Item, Mapping[str, Any]]) -> None:
                with suppress(Abstention):
                    answers[place] = await _needs_source(*pair, panel.judge(JUDGE))

            await work_on_all(left, answer, max(1, settings.concurrency))
            return answers, summarise_usage(panel, Progress(budget=budget))


async def _needs_source(item: Item, question: Mapping[str, Any], judge: Judge) -> bool:
    """Ask the judge whether a question cannot be answered without the source.

    Args:
        question: Its `question` and `options`.

    Raises:
        Abstention: the reply cannot be read, or the judge refused.
        ServiceError: see `editjudge.base.errors`.
    """
    prompt = get_template(_TEMPLATE)
    answer = await Question(prompt, prompt.form).ask(
        Edit(item, "", None), judge, question=question["question"], options="\n".join(question["options"])
    )
    shares: Mapping[str, float] = answer.value.probabilities
    return shares["Yes"] > shares["No"]
