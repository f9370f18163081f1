"""What became of an edit's dimensions: what `score`, `show` and `export` tell of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict

from ..base.identity import format_identities
from ..base.item import Edit
from ..base.signature import versions
from ..base.strict import STRICT, Number, Strict
from ..base.verdict import Evidence, NoScore, NoScoreKind, Outcome, Score, Status, calls_of
from ..engine.judge import Judgement
from ..panel.calls import CallRecord
from .view import RunView, StoredEdit, StoredVerdict


class Row(Strict):
    """A dimension on an edit, as `show`, `score` and `export` have it.

    In an export a dimension that was not served has neither item nor model, and a missing output
    no dimension.

    Attributes:
        value: A number, or null.
        kind: Of an `unscored` one: why the judge gave no number.
        reason: One line for people; null where there is a number.
        imputed: Whether a rule of the benchmark put the number in; null where there is none.
        signature: What the number depends on.
        versions: Of the packages that it was made with; the signature has none of them.
        evidence: What the number rests on.
        calls: The replies that it rests on.
    """

    item: str | None = None
    model: str | None = None
    dimension: str | None = None
    status: Status
    value: float | None = None
    kind: NoScoreKind | None = None
    reason: str | None = None
    imputed: bool | None = None
    signature: str | None = None
    versions: str | None = None
    evidence: Evidence | None = None
    calls: tuple[CallRecord, ...] | None = None

    @classmethod
    def of(cls, item: str, model: str, dimension: str, outcome: Outcome, **more: Any) -> Self:
        """The row of an outcome.

        Args:
            more: Further fields.
        """
        return cls(
            item=item,
            model=model,
            dimension=dimension,
            status=outcome.status,
            value=outcome.value if isinstance(outcome, Score) else None,
            kind=outcome.kind if isinstance(outcome, NoScore) else None,
            reason=None if isinstance(outcome, Score) else outcome.reason,
            imputed=outcome.imputed if isinstance(outcome, Score) else None,
            evidence=getattr(outcome, "evidence", {}),
            **more,
        )


def make_row(stored: StoredVerdict) -> Row:
    """The row of a verdict of a run."""
    return Row.of(
        stored.item,
        stored.model,
        stored.dimension,
        stored.verdict,
        signature=stored.signature,
        versions=stored.versions,
        calls=stored.replies,
    )


class Picture(Strict):
    """A picture that was judged.

    Attributes:
        size: Width and height.
        digest: Of its encoded bytes.
        notes: What was converted on the way.
    """

    model_config = ConfigDict(**STRICT, frozen=True, from_attributes=True)
    name: str
    size: tuple[int, int]
    digest: str
    notes: tuple[Annotated[str, BeforeValidator(str)], ...]


class Sample(Strict):
    """The edit that was judged."""

    id: str
    model: str
    instruction: str
    target_text: str | None
    sources: tuple[Picture, ...]
    edited: Picture | None
    mask: Picture | None
    target: Picture | None

    @classmethod
    def of(cls, edit: Edit) -> Self:
        """An edit, without its pixels."""
        item = edit.item
        pictures = {
            "sources": item.sources,
            "edited": edit.image,
            "mask": item.mask,
            "target": item.target,
        }
        texts = {name: getattr(item, name) for name in ("id", "instruction", "target_text")}
        return cls.model_validate({"model": edit.model, **texts, **pictures})


class JudgedRow(Row):
    """A dimension on an edit that was judged just now.

    Attributes:
        range: Lowest and highest value.
        unit: Empty for a pure number.
        untrained: Random weights had a part in it: it is no result.
        prompts: Whose words the judge was asked in; null without a prompt.
    """

    range: tuple[float, float]
    higher_is_better: bool
    unit: str
    untrained: bool
    prompts: str | None


class ScoreReport(Strict):
    """`score --json`: one judged edit.

    Attributes:
        services: Identities of those that were at hand.
        usage: What generalists took for this edit.
    """

    sample: Sample
    verdicts: tuple[JudgedRow, ...]
    services: dict[str, str]
    usage: dict[str, Number]

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """What a judgement says."""
        return cls(
            sample=Sample.of(judgement.edit),
            verdicts=tuple(_judged(judgement, name) for name in judgement.outcomes),
            services=format_identities(judgement.services),
            usage=dict(judgement.usage),
        )


class ShownEdit(Strict):
    """An edit of a run.

    Attributes:
        output: Digest of the output; null where it is missing.
        missing: Why it is; empty where it is not.
    """

    model: str
    output: str | None
    missing: str
    verdicts: tuple[Row, ...]

    @classmethod
    def of(cls, view: RunView, edit: StoredEdit) -> Self:
        """With its verdicts."""
        return cls(
            model=edit.model,
            output=edit.digest,
            missing=str(edit.missing or ""),
            verdicts=tuple(map(make_row, view.verdicts(edit.model, item=edit.item))),
        )


class ShownItem(Strict):
    """`show --json`: the edits of one item.

    Attributes:
        instruction: As the data has it now; null where that is not there, or has no such item.
        files: The item's pictures, in the same case none.
        not_served: The dimensions that wait for a service, each with the reason.
        spoilt: The dimensions that the data of the item spoilt, each with the reason.
    """

    item: str
    instruction: str | None
    files: tuple[Path, ...]
    edits: tuple[ShownEdit, ...]
    not_served: dict[str, str]
    spoilt: dict[str, str]


def _judged(judgement: Judgement, name: str) -> JudgedRow:
    edit, dimension = judgement.edit, judgement.dimensions[name]
    outcome, said = judgement.outcomes[name], judgement.replies
    return JudgedRow.of(
        edit.item.id,
        edit.model,
        name,
        outcome,
        calls=tuple(said[key] for key in calls_of(outcome) if key in said),
        signature=str(judgement.signatures[name]),
        versions=versions(),
        range=dimension.range,
        higher_is_better=dimension.higher_is_better,
        unit=dimension.unit,
        untrained=name in judgement.untrained_ids,
        prompts=dimension.prompt_origins,
    )
