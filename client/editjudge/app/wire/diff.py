"""What two runs differ in, as JSON: `diff`."""

from __future__ import annotations

from typing import Self

from .. import diff
from .base import Wire
from .checks import Cause


class Few(Wire):
    """How many there are of something, and the first by name; empty where there is none."""

    count: int
    first: str


class OnlyOne(Wire):
    """What only one of two runs has."""

    first: Few
    second: Few


class Both(Wire):
    """A fact in each of two runs."""

    first: str
    second: str


class OtherSignatures(Wire):
    """Verdicts whose signatures differ in the same.

    Attributes:
        causes: In what; `before` is the first run's, `after` the second's.
        verdicts: How many, by dimension.
    """

    causes: tuple[Cause, ...]
    verdicts: dict[str, int]


class OtherValues(Wire):
    """Verdicts on the same items and outputs by the same signature that differ all the same.

    Attributes:
        verdicts: How many.
        largest: Between two numbers, on the dimension's scale.
        model: Of the edit with the largest.
        item: The same.
    """

    verdicts: int
    largest: float
    model: str
    item: str


class RunDifference(Wire):
    """`diff --json`.

    Attributes:
        equal: Both say the same, made in the same way.
        asked: What was asked for, by fact.
        services: In what services are others.
        only: Models, items, dimensions and verdicts that only one has.
        items: How many items are others (what the data says of them, or their pictures), and the
            first.
        outputs: By model, how many outputs are others, and the first item.
        signatures: Verdicts with other signatures.
        values: By dimension, other verdicts by the same signatures.
        packages: Versions of packages beside verdicts by the same signatures.
        same: Verdicts that are the same.
    """

    equal: bool
    asked: dict[str, Both]
    services: tuple[Cause, ...]
    only: dict[str, OnlyOne]
    items: Few
    outputs: dict[str, Few]
    signatures: tuple[OtherSignatures, ...]
    values: dict[str, OtherValues]
    packages: tuple[Cause, ...]
    same: int

    @classmethod
    def of(cls, told: diff.RunDifference) -> Self:
        """As JSON."""
        return cls(
            equal=told.is_none,
            asked={name: Both(first=a, second=b) for name, (a, b) in told.asked.items()},
            services=tuple(map(Cause.by, told.services)),
            only={
                kind: OnlyOne(first=_few(one.first), second=_few(one.second))
                for kind, one in told.only.items()
            },
            items=_few(told.items),
            outputs={model: _few(of) for model, of in told.outputs.items()},
            signatures=tuple(
                OtherSignatures(
                    causes=tuple(map(Cause.by, one.differences)), verdicts=dict(one.verdicts)
                )
                for one in told.signed
            ),
            values={
                name: OtherValues(
                    verdicts=one.verdicts,
                    largest=one.largest,
                    model=one.where[0],
                    item=one.where[1],
                )
                for name, one in told.valued.items()
            },
            packages=tuple(map(Cause.by, told.versions)),
            same=told.same,
        )


def _few(of: tuple[int, str]) -> Few:
    count, first = of
    return Few(count=count, first=first)
