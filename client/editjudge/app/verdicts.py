"""The JSON of an item of a run (`show --json`), and the rows of stored verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ..base.strict import Strict
from ..engine.score_report import Row
from .view import RunView, StoredEdit, StoredVerdict

__all__ = ["Row", "ShownEdit", "ShownItem", "make_row"]


def make_row(stored_verdict: StoredVerdict) -> Row:
    """Make the row of a stored verdict."""
    return Row.of(
        stored_verdict.item,
        stored_verdict.model,
        stored_verdict.dimension,
        stored_verdict.verdict,
        signature=stored_verdict.signature,
        versions=stored_verdict.versions,
        calls=stored_verdict.replies,
    )


class ShownEdit(Strict):
    """An edit of a run with its verdicts.

    Attributes:
        output: Digest of the output; null where it is missing.
        missing: Why the output is missing; empty where it is not.
    """

    model: str
    output: str | None
    missing: str
    verdicts: tuple[Row, ...]

    @classmethod
    def of(cls, view: RunView, edit: StoredEdit) -> Self:
        """Read an edit with its verdicts."""
        return cls(
            model=edit.model,
            output=edit.digest,
            missing=str(edit.missing or ""),
            verdicts=tuple(map(make_row, view.verdicts(edit.model, item=edit.item))),
        )


class ShownItem(Strict):
    """The edits of one item of a run (`show --json`).

    Attributes:
        instruction: The instruction in today's data; null where the data is gone or has no such
            item.
        files: The pictures of the item; empty in the same case.
        not_served: The dimensions that wait for a service, each with the reason.
        spoilt: The dimensions that a flaw of the item's data rules out, each with the reason.
    """

    item: str
    instruction: str | None
    files: tuple[Path, ...]
    edits: tuple[ShownEdit, ...]
    not_served: dict[str, str]
    spoilt: dict[str, str]
