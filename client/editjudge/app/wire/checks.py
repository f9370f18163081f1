"""What would be judged, what is wrong with it, and what became of it when it was read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ...base.identity import ServiceName
from ...base.strict import Strict
from ...base.verdict import Status
from ...benchmarks.cell import Tally
from .. import estimate, rescore


class PerEdit(Strict):
    """What an edit takes of a service, on average: calls at most, prompt tokens about."""

    calls: float
    prompt_tokens: float


class Estimate(Strict):
    """`run --dry-run --json`: what a session would take.

    Attributes:
        per_edit: By service, on average.
        calls: By service, at most.
        known: Of these, those that the ledger answers; of a sample of edits, for all of them.
        second_tries: Calls that come on top where no reply can be read.
        cost: Null where no price is configured, and where a Judge service asks.
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

    @classmethod
    def of(cls, estimated: estimate.Estimate) -> Self:
        """As JSON."""
        return cls(
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
