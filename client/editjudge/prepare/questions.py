"""Questions about the result of an edit, written by the generalist."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..answers import ChoiceQuestion, OutputContract, QuestionAnswer
from ..answers.found import plain
from ..benchmarks.items import Line
from ..digest import content_digest
from ..item import Edit, Item
from ..panel.generalist import Answer, Generalist
from ..prompts import Template, template
from ..scorers.asking import ask
from .entry import JUDGE, Entry, sources_of
from .pictures import thumbnail

if TYPE_CHECKING:
    from ..panel import Panel

_TASKS = (
    "add object",
    "attribute change",
    "color change",
    "layout modification",
    "object replacement",
    "remove object",
    "scene or background change",
    "size change",
    "textual edit",
)
_ALIASES = {
    "background change": "scene or background change",
    "colour change": "color change",
    "scene change": "scene or background change",
    "scene/background change": "scene or background change",
    "textual change": "textual edit",
}
TASKS: Mapping[str, str] = {
    plain(said): f"prepare/choice_{task.replace(' ', '_')}"
    for said, task in [*((task, task) for task in _TASKS), *_ALIASES.items()]
}
"""Templates by an item's task, in the form of `plain`: the nine edit types of GIE-Bench
(section 3.1), with the names that its released data and its appendix give them."""
FACTS = "omni_iie/facts"
"""The template of pairs: the one by which a run writes those that an item lacks, so that what is
reviewed is what would be asked."""


@dataclass(frozen=True)
class QuestionWriter:
    """Writes the questions of items that have none.

    `choice`: one multiple-choice question, from the sources and the instruction, by a template
    for its edit type (GIE-Bench, section 3.2); what `MultipleChoice` reads. `facts`: 1 to 3
    questions with their answers, from the instruction alone (Omni IIE Bench, section 5.1); what
    `FactCheck` reads.
    """

    what: Literal["choice", "facts"]
    roles: ClassVar[tuple[str, ...]] = (JUDGE,)

    def needless(self, line: Line) -> Entry | None:
        """Items that come with questions keep them."""
        return Entry("had") if line.questions else None

    async def make(self, item: Item, panel: Panel) -> Entry:
        """Ask once; see `Maker.make`."""
        judge = panel.generalist(JUDGE)
        asking = template(TASKS.get(plain(item.task), "prepare/choice"))
        if self.what == "facts":
            asking = template(FACTS)
        said = await answered(item, judge, asking)
        pictures = [(name, await asyncio.to_thread(thumbnail, s)) for name, s in sources_of(item)]
        questions = (
            (_spread(item.id, said.value),)
            if isinstance(said.value, ChoiceQuestion)
            else tuple(_pair(one) for one in said.value)
        )
        return Entry("made", questions=questions, pictures=tuple(pictures))


async def answered(item: Item, judge: Generalist, asking: Template) -> Answer[Any]:
    """What the judge says of an item that nobody has edited.

    Raises:
        Abstained: its reply cannot be read, or it refused.
        ServiceError: see `editjudge.errors`.
        ValueError: the template has no contract.
    """
    contract: OutputContract[Any] | None = asking.contract
    if contract is None:
        raise ValueError(f"prompt {asking.name} has choices where a contract is due")
    if "sources" in asking.fields:
        # Here, because resizing would hold up all other calls.
        await asyncio.to_thread(lambda: [judge.picture(one).digest for one in item.sources])
    return await judge.answer(ask(asking, Edit(item, "", None), judge), contract)


def _spread(item_id: str, written: ChoiceQuestion) -> dict[str, Any]:
    """The question with its options in an order that says nothing of which is right.

    Judges prefer places in a list, and a right answer that always stands first is a gift to
    them. The order is the same whenever it is made; that it cannot be told stays last.
    """
    *answers, cannot_tell = written.options
    answers.sort(key=lambda one: content_digest(f"{item_id}\n{one}".encode()))
    return {
        "question": written.question,
        "options": [*answers, cannot_tell],
        "answer": written.answer,
    }


def _pair(one: QuestionAnswer) -> dict[str, Any]:
    return {"question": one.question, "answer": one.answer}
