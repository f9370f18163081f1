"""The JSON of an item of a run (`show --json`), and the rows of stored verdicts."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from ..base.strict import Strict
from ..engine.score_report import Row
from ..panel.calls import CallRecord
from .view import RunView, StoredEdit, StoredVerdict

__all__ = ["Question", "Row", "ShownEdit", "ShownItem", "make_row"]


def make_row(of: StoredVerdict) -> Row:
    """Make the row of a stored verdict."""
    more = {"signature": of.signature, "versions": of.versions, "calls": of.replies}
    return Row.of(of.item, of.model, of.dimension, of.verdict, **more)


class ShownEdit(Strict):
    """An edit of a run with its verdicts.

    Attributes:
        verdicts: One row for each dimension.
        output: Digest of the output; null where it is missing.
        missing: Why the output is missing; empty where it is not.
    """

    model: str
    output: str | None
    missing: str
    verdicts: tuple[Row, ...]

    @classmethod
    def of(cls, view: RunView, edit: StoredEdit, shows: Callable[[str], bool]) -> Self:
        """Read an edit with its verdicts on the dimensions that are shown."""
        verdicts = view.verdicts(edit.model, item=edit.item)
        return cls(
            model=edit.model,
            output=edit.digest,
            missing=str(edit.missing or ""),
            verdicts=tuple(make_row(one) for one in verdicts if shows(one.dimension)),
        )


class Question(Strict):
    """A question to a judge as it was asked.

    Attributes:
        judge: The judge, with its settings, as in signatures.
        system: The system text; empty for none.
        parts: The user turn in order: `{text, data}` for a text, with whether the item or a model
            said it, and `{image, size, name}` for a picture, with the digest of what was sent.
        form: The form that the reply was to have, and how it was sampled.
    """

    judge: str
    system: str
    parts: tuple[Mapping[str, JsonValue], ...]
    form: Mapping[str, JsonValue]

    @classmethod
    def of(cls, view: RunView, call: CallRecord) -> Self | None:
        """Read the question behind a reply; None where it is not stored."""
        prompt = view.prompt(call.prompt) if call.prompt else None
        if prompt is None or not prompt.parts:
            return None
        form = view.form(call.call)
        return cls(judge=call.judge, system=prompt.system, parts=prompt.parts, form=form)


class ShownItem(Strict):
    """The edits of one item of a run (`show --json`).

    Attributes:
        edits: One for each model and output.
        instruction: The instruction; null where the run has no such item any more.
        files: The pictures of the item, as far as they are there.
        not_served: The dimensions that wait for a service, each with the reason.
        spoilt: The dimensions that a flaw of the item's data rules out, each with the reason.
        questions: What was asked, by the key of the call.
    """

    item: str
    instruction: str | None
    files: tuple[Path, ...]
    edits: tuple[ShownEdit, ...]
    not_served: dict[str, str]
    spoilt: dict[str, str]
    questions: dict[str, Question]
