"""What the generalist writes: instructions for editors, and questions about results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..answers import ChoiceQuestion
from ..answers.json_object import plain
from ..base.digest import content_digest
from ..base.identity import ServiceName
from ..base.item import Edit, Item
from ..benchmarks.comparing import compares
from ..benchmarks.items import Line
from ..benchmarks.texts import blank
from ..panel import Panel
from ..panel.generalist import Answer, Generalist
from ..prompts import Template, template
from ..scorers.asking import Question
from .items import JUDGE, Entry, What

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
    plain(name): f"prepare/choice_{task.replace(' ', '_')}"
    for name, task in [*((task, task) for task in _TASKS), *_ALIASES.items()]
}
"""Templates by an item's task, in the form of `plain`: the nine edit types of GIE-Bench
(section 3.1), with the names that its official data and its appendix give them."""
FACTS = "omni_iie/facts"
"""The template of pairs: the one by which a run writes those that an item lacks, so that what is
reviewed is what would be asked."""


@dataclass(frozen=True)
class QuestionWriter:
    """Writes the questions of items that have none.

    `choice`: one multiple-choice question, from the sources and the instruction, by a template
    for its edit type (GIE-Bench, section 3.2); what `MultipleChoice` reads. It carries whether it
    compares with the source (`compares`), by its words, for reviewers to look over. `facts`: 1 to
    3 questions with their answers, from the instruction alone (Omni IIE Bench, section 5.1); what
    `FactCheck` reads.

    Attributes:
        custom: Templates of one's own, which replace ours.
    """

    what: Literal["choice", "facts"]
    custom: tuple[Template, ...] = ()
    roles: ClassVar[tuple[ServiceName, ...]] = (JUDGE,)

    def needless(self, line: Line) -> Entry | None:
        """Items that come with questions keep them."""
        return Entry("had") if line.questions else None

    async def make(self, item: Item, panel: Panel) -> Entry:
        """Ask once; see `Maker.make`."""
        judge = panel.generalist(JUDGE)
        name = TASKS.get(plain(item.task), "prepare/choice") if self.what == "choice" else FACTS
        value = (await answered(item, judge, template(name, self.custom))).value
        if not isinstance(value, ChoiceQuestion):
            return Entry("made", questions=tuple(value))
        by_words = compares(value.question, value.options)
        question = _shuffled(item.id, value)._replace(compares=by_words)
        notes = (("the edited image is shown", "with its source" if by_words else "alone"),)
        return Entry("made", questions=(question,), notes=notes)


async def answered(item: Item, judge: Generalist, prompt: Template, **texts: str) -> Answer[Any]:
    """Ask the generalist about an item that nobody has edited.

    Args:
        texts: Fields of the template that the item does not have itself.

    Raises:
        Abstained: the reply cannot be read, or the generalist refused.
        ServiceError: see `editjudge.base.errors`.
    """
    shown = list(item.sources) if "sources" in prompt.fields else []
    if "target" in prompt.fields and item.target is not None:
        shown.append(item.target)
    # Here, because resizing would hold up all other calls.
    await asyncio.to_thread(lambda: [judge.picture(image).digest for image in shown])
    return await Question(prompt, prompt.form).ask(Edit(item, "", None), judge, repeat=0, **texts)


def _shuffled(item_id: str, question: ChoiceQuestion) -> ChoiceQuestion:
    """Put the options in an order that does not show which is right.

    Judges prefer places in a list, and a right answer that always stands first is a gift to
    them. The order depends on the texts alone; "cannot be told" stays last.
    """
    *answers, cannot_tell = question.options
    answers.sort(key=lambda answer: content_digest(f"{item_id}\n{answer}".encode()))
    return question._replace(options=(*answers, cannot_tell))


TEMPLATE = "prepare/instruction"
KINDS: Mapping[str, str] = {
    "add_object": "Something new is put into the picture, at a place that is told.",
    "attribute_change": "A property of a thing or a person changes, but for its colour and size:"
    " an expression, a material, a state.",
    "color_change": "A thing gets another colour, which is told.",
    "layout_modification": "A thing moves to another place in the picture, which is told.",
    "object_replacement": "Another thing takes the place of one.",
    "remove_object": "A thing is taken out of the picture.",
    "scene_or_background_change": "The scene changes: the season, the weather, the time of day,"
    " or what lies behind the things in front.",
    "size_change": "A thing becomes much larger or smaller, measured by something beside it.",
    "textual_edit": "Writing in the picture changes: what it says, or how it is written.",
}
"""What an edit of each type of GIE-Bench is (section 3.1), by the names of `TASKS`."""
_ANY = "Any that suits the picture."


@dataclass(frozen=True)
class InstructionWriter:
    """Writes the instructions of items that have none: of one picture, by its edit type.

    The paper has one prompt for instruction and question (figure 8). Here the question is written
    next (`QuestionWriter`), from what a person accepted.
    """

    what: ClassVar[What] = "instructions"
    roles: ClassVar[tuple[ServiceName, ...]] = (JUDGE,)

    def needless(self, line: Line) -> Entry | None:
        """Items that come with an instruction keep it."""
        if not blank(line.instruction):
            return Entry("had")
        if len(line.images) != 1:
            return Entry("unsuited", "it has several sources")
        return None

    async def make(self, item: Item, panel: Panel) -> Entry:
        """Ask once; see `Maker.make`."""
        judge = panel.generalist(JUDGE)
        name = TASKS.get(plain(item.task), "").removeprefix("prepare/choice_")
        kind = KINDS.get(name, _ANY)
        said = await answered(item, judge, template(TEMPLATE), kind=kind)
        return Entry("made", instruction=said.value)
