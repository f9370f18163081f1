"""The JSON form of one judged edit: what `score --json` prints and `Judgement.to_dict` returns."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict

from ..base.identity import format_identities
from ..base.item import Edit
from ..base.signature import versions
from ..base.strict import STRICT, Number, Strict
from ..base.verdict import Evidence, NoScoreKind, Outcome, Status, calls_of
from ..panel.calls import CallRecord
from .judge import Judgement


class Row(Strict):
    """The outcome of one dimension on one edit, as `show`, `score` and `export` write it.

    In an export, the row of a dimension that was not served has neither item nor model, and the row
    of a missing output has no dimension.

    Attributes:
        value: The number, or null.
        kind: Why the judge gave no number; null unless the status is `unscored`.
        reason: One line for people; null where there is a number.
        imputed: Whether a rule of the benchmark set the number; null where there is none.
        signature: What the number depends on.
        versions: Versions of the packages that made the number; the signature holds none of them.
        evidence: What the number rests on.
        calls: The replies that the number rests on.
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
        """Make the row of an outcome.

        Args:
            more: Values of further fields.
        """
        names = ("status", "value", "kind", "reason", "imputed")
        own: dict[str, Any] = {name: getattr(outcome, name, None) for name in names}
        evidence = getattr(outcome, "evidence", {})
        return cls(item=item, model=model, dimension=dimension, evidence=evidence, **own, **more)


class Picture(Strict):
    """A picture of the judged edit.

    Attributes:
        name: Path or name that the picture was given by.
        size: Width and height in pixels.
        digest: Digest of the encoded bytes.
        notes: What was converted when the picture was read.
    """

    model_config = ConfigDict(**STRICT, frozen=True, from_attributes=True)
    name: str
    size: tuple[int, int]
    digest: str
    notes: tuple[Annotated[str, BeforeValidator(str)], ...]


class Sample(Strict):
    """The edit that was judged.

    Attributes:
        id: Id of the edit.
        target_text: The text that the edit should show; null if there is none.
        sources: The source pictures.
        edited: The output of the model; null where it is missing.
        mask: The region that may change; null without a mask.
        target: The picture that the edit should be like; null without one.
    """

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
        """Describe an edit without its pixels."""
        names = cls.model_fields.keys() - {"model", "edited"}
        fields = {name: getattr(edit.item, name) for name in names}
        return cls.model_validate({"model": edit.model, "edited": edit.image, **fields})


class JudgedRow(Row):
    """The outcome of one dimension on an edit, with facts about the dimension.

    Attributes:
        range: The lowest and the highest value.
        unit: Empty for a pure number.
        untrained: A model with random weights had a part in the value: it is no result.
        prompts: Whose words the prompts are in; null without a prompt.
    """

    range: tuple[float, float]
    higher_is_better: bool
    unit: str
    untrained: bool
    prompts: str | None


class ScoreReport(Strict):
    """One judged edit as JSON (`score --json`).

    Attributes:
        sample: The edit that was judged.
        verdicts: One row for each dimension.
        services: Identities of the available services.
        usage: Calls, tokens and cost of the judges for this edit.
    """

    sample: Sample
    verdicts: tuple[JudgedRow, ...]
    services: dict[str, str]
    usage: dict[str, Number]

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """Make the report of a judgement."""
        return cls(
            sample=Sample.of(judgement.edit),
            verdicts=tuple(_make_row(judgement, name) for name in judgement.outcomes),
            services=format_identities(judgement.services),
            usage=dict(judgement.usage),
        )


def _make_row(judgement: Judgement, name: str) -> JudgedRow:
    edit, dimension = judgement.edit, judgement.dimensions[name]
    outcome, replies = judgement.outcomes[name], judgement.replies
    return JudgedRow.of(
        edit.item.id,
        edit.model,
        name,
        outcome,
        calls=tuple(replies[key] for key in calls_of(outcome) if key in replies),
        signature=str(judgement.signatures[name]),
        versions=versions(),
        range=dimension.range,
        higher_is_better=dimension.higher_is_better,
        unit=dimension.unit,
        untrained=name in judgement.untrained_ids,
        prompts=dimension.prompt_origins,
    )
