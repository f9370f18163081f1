"""What became of an edit's dimensions as JSON: `score`, `show` and `export`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from ...base import images
from ...base.identity import printed
from ...base.item import Edit
from ...base.signature import versions
from ...base.strict import Number, Strict
from ...base.verdict import Evidence, Outcome, Scored, Status, Unscored, UnscoredKind, calls_of
from ...engine.items import Known
from ...engine.judge import Judgement
from ...panel.calls import Said
from ...storage.earlier import Why
from ..view import EarlierVerdict, RunView, StoredEdit, StoredVerdict


def _outcome(outcome: Outcome, said: Iterable[Said]) -> dict[str, Any]:
    """The fields that every model of an outcome has."""
    return {
        "status": outcome.status,
        "value": outcome.value if isinstance(outcome, Scored) else None,
        "kind": outcome.kind if isinstance(outcome, Unscored) else None,
        "reason": None if isinstance(outcome, Scored) else outcome.reason,
        "imputed": outcome.imputed if isinstance(outcome, Scored) else None,
        "evidence": getattr(outcome, "evidence", {}),
        "calls": tuple(said),
    }


class Outcomes(Strict):
    """A dimension on an edit.

    Attributes:
        dimension: Its id.
        value: A number, or null.
        kind: Of an `unscored` one: why the judge gave no number.
        reason: One line for people; null where there is a number.
        imputed: Whether a rule of the benchmark put the number in; null where there is none.
        evidence: What the number rests on.
        calls: The replies that it rests on.
        signature: What the number depends on.
        versions: Of the packages that it was made with; the signature has none of them.
    """

    dimension: str
    status: Status
    value: float | None
    kind: UnscoredKind | None
    reason: str | None
    imputed: bool | None
    evidence: Evidence
    calls: tuple[Said, ...]
    signature: str
    versions: str


class Picture(Strict):
    """A picture that was judged.

    Attributes:
        size: Width and height.
        digest: Of its encoded bytes.
        notes: What was converted on the way.
    """

    name: str
    size: tuple[int, int]
    digest: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, picture: images.Image | images.Mask) -> Self:
        """As JSON."""
        notes = tuple(map(str, picture.notes))
        return cls(name=picture.name, size=picture.size, digest=picture.digest, notes=notes)


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
        """As JSON."""
        item = edit.item
        return cls(
            id=item.id,
            model=edit.model,
            instruction=item.instruction,
            target_text=item.target_text,
            sources=tuple(map(Picture.of, item.sources)),
            edited=Picture.of(edit.image) if edit.image else None,
            mask=Picture.of(item.mask) if item.mask else None,
            target=Picture.of(item.target) if item.target else None,
        )


class Judged(Outcomes):
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

    @classmethod
    def of(cls, judgement: Judgement, name: str) -> Self:
        """As JSON."""
        dimension, outcome = judgement.dimensions[name], judgement.outcomes[name]
        said = [judgement.said[key] for key in calls_of(outcome) if key in judgement.said]
        return cls(
            dimension=name,
            **_outcome(outcome, said),
            signature=str(judgement.signatures[name]),
            versions=versions(),
            range=dimension.range,
            higher_is_better=dimension.higher_is_better,
            unit=dimension.unit,
            untrained=name in judgement.untrained,
            prompts=dimension.words,
        )


class Score(Strict):
    """`score --json`: one judged edit.

    Attributes:
        services: Identities of those that were at hand.
        usage: What generalists took for this edit.
    """

    sample: Sample
    verdicts: tuple[Judged, ...]
    services: dict[str, str]
    usage: dict[str, Number]

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """As JSON."""
        return cls(
            sample=Sample.of(judgement.edit),
            verdicts=tuple(Judged.of(judgement, name) for name in judgement.outcomes),
            services=printed(judgement.services),
            usage=dict(judgement.usage),
        )


class Stored(Outcomes):
    """A verdict of a run."""

    @classmethod
    def of(cls, stored: StoredVerdict) -> Self:
        """As JSON."""
        return cls(
            dimension=stored.dimension,
            **_outcome(stored.verdict, stored.said),
            signature=stored.signature,
            versions=stored.versions,
        )


class ShownEdit(Strict):
    """An edit of a run.

    Attributes:
        output: Digest of the output; null where it is missing.
        missing: Why it is; empty where it is not.
        became: Whether the output is the `same` that was judged, on an item that is; see `Known`.
    """

    model: str
    output: str | None
    missing: str
    became: Known
    verdicts: tuple[Stored, ...]

    @classmethod
    def of(cls, view: RunView, edit: StoredEdit, became: Known) -> Self:
        """As JSON."""
        return cls(
            became=became,
            model=edit.model,
            output=edit.digest,
            missing=str(edit.missing or ""),
            verdicts=tuple(map(Stored.of, view.verdicts(edit.model, item=edit.item))),
        )


class Earlier(Stored):
    """A verdict of a run in whose place another came; it counts in nothing.

    Attributes:
        output: Digest of the output that it is about; null where that was missing.
        why: `output`: another one was there; `item`: the item changed, or a picture of it;
            `signature`: what the number depends on changed; `again`: it was judged again, and
            said something else.
        replaced: When, in UTC.
    """

    model: str
    output: str | None
    why: Why
    replaced: str

    @classmethod
    def by(cls, earlier: EarlierVerdict) -> Self:
        """As JSON."""
        stored = Stored.of(earlier.verdict)
        return cls(**dict(stored), model=earlier.verdict.model, **_replaced(earlier))


class Shown(Strict):
    """`show --json`: the edits of one item.

    Attributes:
        earlier: With `--earlier`, the verdicts in whose place others came.
        instruction: As the data has it now; null where that is not there, or has no such item.
        files: The item's pictures, in the same case none.
        became: Whether the item is the `same` that was judged, `changed` or is `gone`.
        not_served: The dimensions that wait for a service, each with the reason.
        spoilt: The dimensions that the data of the item spoilt, each with the reason.
    """

    item: str
    instruction: str | None
    files: tuple[Path, ...]
    became: Known
    edits: tuple[ShownEdit, ...]
    not_served: dict[str, str]
    spoilt: dict[str, str]
    earlier: tuple[Earlier, ...] = ()


class Row(Strict):
    """A row of `export`: fields as those of a verdict.

    A dimension that was not served has neither item nor model, a missing output no dimension.

    Attributes:
        became: Whether item and output are the `same` that were judged, one of them `changed`, or
            the item is `gone`: then `summary` does not count it.
    """

    item: str | None = None
    model: str | None = None
    dimension: str | None = None
    status: Status
    value: float | None = None
    kind: UnscoredKind | None = None
    reason: str | None = None
    imputed: bool | None = None
    signature: str | None = None
    versions: str | None = None
    evidence: Evidence | None = None
    calls: tuple[Said, ...] | None = None
    became: Known | None = None

    @classmethod
    def of(cls, stored: StoredVerdict, became: Known | None = None) -> Self:
        """As JSON.

        Args:
            became: What became of item and output.
        """
        return cls(
            became=became,
            item=stored.item,
            model=stored.model,
            dimension=stored.dimension,
            **_outcome(stored.verdict, stored.said),
            signature=stored.signature,
            versions=stored.versions,
        )


class EarlierRow(Row):
    """A row of `export --earlier`; see `Earlier`."""

    output: str | None
    why: Why
    replaced: str

    @classmethod
    def by(cls, earlier: EarlierVerdict) -> Self:
        """As JSON."""
        return cls(**dict(Row.of(earlier.verdict)), **_replaced(earlier))


def _replaced(earlier: EarlierVerdict) -> dict[str, Any]:
    at = datetime.fromtimestamp(earlier.replaced, UTC).isoformat(timespec="seconds")
    return {"output": earlier.output, "why": earlier.why, "replaced": at}
