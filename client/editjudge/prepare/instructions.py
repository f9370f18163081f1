"""What editors are to be told, written by the generalist from the pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..answers.json_object import plain
from ..base.identity import ServiceName
from ..base.item import Item
from ..benchmarks.items import Line
from ..benchmarks.texts import blank
from ..panel import Panel
from ..prompts import template
from .entry import JUDGE, Entry, What
from .questions import TASKS, answered

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
