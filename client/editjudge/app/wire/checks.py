"""What would be judged, what is wrong with it, and what became of it when it was read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ...base.config import Settings
from ...base.differences import Difference
from ...base.identity import ServiceName
from ...base.strict import Strict
from ...base.verdict import Status
from ...benchmarks.cell import Tally
from ...engine import outdated as engine
from ...engine.items import ItemChanges
from .. import estimate, rescore
from ..results import DataChanges


class Outdated(Strict):
    """Verdicts that are judged again, why, and what that takes.

    Attributes:
        text: The same for people.
        dimensions: Of these verdicts.
        verdicts: How many are judged again.
        calls: By service, at most.
    """

    text: str
    causes: tuple[Difference, ...]
    dimensions: tuple[str, ...]
    verdicts: int
    calls: dict[str, int]

    @classmethod
    def of(cls, verdicts: engine.Outdated, settings: Settings) -> Self:
        """As JSON, with the calls that an estimate counts."""
        calls = estimate.calls_for(verdicts.left, settings)
        count = f"at most {calls.total():,} calls" if calls else "no call"
        return cls(
            text=f"{verdicts.text}: {verdicts.verdicts:,} verdicts to judge again, {count}",
            causes=verdicts.causes,
            dimensions=verdicts.dimensions,
            verdicts=verdicts.verdicts,
            calls=_by_name(calls),
        )


class PerEdit(Strict):
    """What an edit takes of a service, on average: calls at most, prompt tokens about."""

    calls: float
    prompt_tokens: float


class Estimate(Strict):
    """`run --dry-run --json`: what a session would take.

    Attributes:
        per_edit: By service, on average.
        outdated: Verdicts that are there and are judged again.
        calls: By service, at most.
        known: Of these, those that the ledger answers; of a sample of edits, for all of them.
        second_tries: Calls that come on top where no reply can be read.
        cost: Null where no price is configured, and where a Judge service asks.
        data: What became of the run's items since they were judged.
    """

    items: int
    edits: int
    verdicts: int
    calls: dict[str, int]
    known: dict[str, int]
    second_tries: dict[str, int]
    image_bytes: int
    prompt_tokens: dict[str, int]
    per_edit: dict[str, PerEdit]
    cost: float | None
    notes: tuple[str, ...]
    data: DataChanges
    outdated: tuple[Outdated, ...] = ()

    @classmethod
    def of(
        cls,
        estimated: estimate.Estimate,
        changes: ItemChanges,
        again: tuple[Outdated, ...] = (),
    ) -> Self:
        """As JSON."""
        return cls(
            outdated=again,
            items=estimated.items,
            edits=estimated.edits,
            verdicts=estimated.verdicts,
            calls=_by_name(estimated.calls),
            known=_by_name(estimated.known.calls),
            second_tries=_by_name(estimated.second_tries),
            image_bytes=estimated.image_bytes,
            prompt_tokens=_by_name(estimated.prompt_tokens),
            per_edit={
                str(name): PerEdit(calls=one.calls, prompt_tokens=one.prompt_tokens)
                for name, one in estimated.per_edit.items()
            },
            cost=estimated.cost,
            notes=estimated.notes,
            data=DataChanges.of(changes),
        )


class Side(Strict):
    """Verdicts before, or after."""

    mean: float | None
    counts: dict[Status, int]

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """As JSON."""
        return cls.model_validate({"mean": tally.mean(), "counts": tally.statuses})


class Change(Strict):
    """An entry of `rescore --json`: one model on one dimension.

    Attributes:
        changed: How many have another value or status.
        kept: How many could not be judged again.
        why_kept: The first reason.
    """

    model: str
    dimension: str
    before: Side
    after: Side
    changed: int
    kept: int
    why_kept: str

    @classmethod
    def of(cls, model: str, dimension: str, change: rescore.Change) -> Self:
        """As JSON."""
        return cls(
            model=model,
            dimension=dimension,
            before=Side.of(change.before),
            after=Side.of(change.after),
            changed=change.changed,
            kept=change.kept,
            why_kept=change.why,
        )


def _by_name(counts: Mapping[ServiceName, int]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items()}
