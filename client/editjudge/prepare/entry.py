"""Entries, which say what became of an item, and the protocol of what makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from ..answers import ChoiceQuestion, QuestionAnswer
from ..base.identity import ServiceName
from ..base.item import Item
from ..benchmarks.items import Line
from ..panel import Panel

JUDGE = ServiceName.generalist("judge")
What: TypeAlias = Literal["instructions", "choice", "facts", "masks"]
Status: TypeAlias = Literal["made", "not_found", "had", "unsuited", "failed", "left"]
STATUSES: Mapping[Status, str] = {
    "made": "made",
    "not_found": "without an object that was found",
    "had": "had them before",
    "unsuited": "without a use for them",
    "failed": "failed",
    "left": "left for later",
}
"""Statuses in words, in the order of a summary."""
TO_REVIEW = frozenset[Status]({"made", "not_found"})
"""What somebody must accept or reject."""
FIELDS: Mapping[What, tuple[str, ...]] = {
    "instructions": ("instruction",),
    "choice": ("questions",),
    "facts": ("questions",),
    "masks": ("mask", "mask_shows"),
}
"""The fields of `items.jsonl` that are filled; the first is what is made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one item.

    Attributes:
        status: `made`; `not_found` (no target object in the image, so there is no mask); `had`
            (it came with them); `unsuited` (no mask is defined for several sources, and none is
            needed for an edit of the whole image); `failed` (asked again by the next call);
            `left` (beyond `--limit`).
        reason: Why nothing was made, in one line.
        instruction: That was written.
        questions: That were written.
        mask: A PNG at the source's size, white on what the generalist named.
        mask_shows: Whether that is what is `edited`, or what is `kept`.
        named: What is white in the mask, as the generalist named it; several things may be.
        notes: What reviewers should know, as (label, text).
    """

    status: Status
    reason: str = ""
    instruction: str = ""
    questions: tuple[ChoiceQuestion | QuestionAnswer, ...] = ()
    mask: bytes | None = None
    mask_shows: Literal["edited", "kept"] = "edited"
    named: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class Maker(Protocol):
    """Fills one field of items."""

    @property
    def what(self) -> What:
        """What is made."""

    @property
    def roles(self) -> tuple[ServiceName, ...]:
        """The services that are asked."""

    def needless(self, line: Line) -> Entry | None:
        """The entry of an item that needs nothing; None where something is to be made."""

    async def make(self, item: Item, panel: Panel) -> Entry:
        """Make an entry.

        Raises:
            Abstained: the generalist's reply cannot be read, or it refused.
            ServiceError: see `editjudge.base.errors`.
        """
