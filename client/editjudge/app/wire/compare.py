"""Whether one model is better than another, as JSON: `compare`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from ...base.identity import untrained
from ...stats import Comparison
from .. import compare
from .base import Wire
from .checks import Cause


class Interval(Wire):
    """Of 95 %, on the dimension's scale."""

    low: float
    high: float


class Figures(Wire):
    """What was computed over the edits where both have a number; see `stats.Comparison`.

    Attributes:
        edits: How many these are.
        sources: How many different source pictures they have.
        first: Mean of the first model.
        second: Mean of the second.
        difference: Second minus first.
        interval: Of the difference, from its error by source; None of one source.
        bootstrap: The same by resampling sources; None where that says nothing.
        p: By exchanging the models within sources; None of one source.
        mcnemar: By McNemar's test, of values that are 0 or 1 and sources with an edit each.
        wins: Edits on which the second is better.
        ties: Edits on which both are the same, to rounding.
        losses: Edits on which the second is worse.
        detectable: The smallest difference that is found in about four of five such comparisons,
            with all that is compared together; None where sources are too few to find any.
    """

    edits: int
    sources: int
    first: float
    second: float
    difference: float
    interval: Interval | None
    bootstrap: Interval | None
    p: float | None
    mcnemar: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None

    @classmethod
    def of(cls, told: Comparison, on: compare.OnDimension) -> Self:
        """As JSON."""
        difference = told.difference
        wins, ties, losses = on.record
        return cls(
            edits=difference.items,
            sources=difference.clusters,
            first=told.first,
            second=told.second,
            difference=difference.value,
            interval=_interval(difference.low, difference.high),
            bootstrap=_interval(*(told.bootstrap or (None, None))),
            p=told.p,
            mcnemar=told.mcnemar,
            wins=wins,
            ties=ties,
            losses=losses,
            detectable=on.detectable,
        )


class EditPair(Wire):
    """An item with what both models got for it."""

    item: str
    first: float
    second: float


class OnDimension(Wire):
    """Two models on one dimension.

    Attributes:
        figures: None where both have a number on no edit.
        p_holm: `figures.p`, adjusted for all dimensions that were compared together.
        better: Which is better where `p_holm` is below 0.05.
        only_first: Edits on which only the first has a number.
        only_second: The same of the second.
        neither: Edits on which neither has one.
        imputed_first: How many of the first's numbers a rule put in; they are counted here.
        imputed_second: The same of the second.
        signed_otherwise: Edits left out since the two were not judged in the same way.
        causes: In what the signatures of the first of these differ.
        furthest: The edits that differ most, at most ten.
    """

    dimension: str
    unit: str
    higher_is_better: bool
    figures: Figures | None
    p_holm: float | None
    better: Literal["first", "second", ""]
    only_first: int
    only_second: int
    neither: int
    imputed_first: int
    imputed_second: int
    signed_otherwise: int
    causes: tuple[Cause, ...]
    furthest: tuple[EditPair, ...]


class ModelComparison(Wire):
    """`compare RUN A B --json`.

    Attributes:
        items: How many both were asked for that are the same.
        other_items: Items left out since they are not the same in both runs.
        untrained: Services whose weights are random: nothing here is a result then.
    """

    first: str
    second: str
    items: int
    other_items: int
    dimensions: tuple[OnDimension, ...]
    untrained: tuple[str, ...]

    @classmethod
    def of(cls, told: compare.ModelComparison) -> Self:
        """As JSON."""
        return cls(
            first=told.first,
            second=told.second,
            items=told.items,
            other_items=told.other_items,
            dimensions=tuple(map(_on, told.dimensions)),
            untrained=tuple(map(str, untrained(told.identities))),
        )


class Placed(Wire):
    """A model on one dimension.

    Attributes:
        mean: Over the edits where all models have a number.
        first_place: The best place that it may have, from 1.
        last_place: The worst.
    """

    mean: float
    first_place: int
    last_place: int


class Ranking(Wire):
    """The models of a run on one dimension.

    Attributes:
        edits: On which all have a number.
        items: Of the run.
        models: By name; empty where there is no such edit.
    """

    dimension: str
    higher_is_better: bool
    edits: int
    items: int
    models: dict[str, Placed]


class Rankings(Wire):
    """`compare RUN --json`."""

    dimensions: tuple[Ranking, ...]
    untrained: tuple[str, ...]

    @classmethod
    def of(cls, told: Iterable[compare.Ranking], names: Iterable[object]) -> Self:
        """As JSON.

        Args:
            names: Services whose weights are random.
        """
        return cls(dimensions=tuple(map(_ranking, told)), untrained=tuple(map(str, names)))


def _on(told: compare.OnDimension) -> OnDimension:
    return OnDimension(
        dimension=told.dimension.id,
        unit=told.dimension.unit,
        higher_is_better=told.dimension.higher_is_better,
        figures=Figures.of(told.comparison, told) if told.comparison else None,
        p_holm=told.p,
        better=told.better,
        only_first=told.only_first,
        only_second=told.only_second,
        neither=told.neither,
        imputed_first=told.imputed[0],
        imputed_second=told.imputed[1],
        signed_otherwise=told.signed_otherwise,
        causes=tuple(map(Cause.by, told.causes)),
        furthest=tuple(EditPair(**each._asdict()) for each in told.furthest),
    )


def _ranking(told: compare.Ranking) -> Ranking:
    return Ranking(
        dimension=told.dimension.id,
        higher_is_better=told.dimension.higher_is_better,
        edits=told.edits,
        items=told.items,
        models={
            model: Placed(mean=mean, first_place=told.places[model][0], last_place=last)
            for model, mean in told.means.items()
            for last in [told.places[model][1]]
        },
    )


def _interval(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else Interval(low=low, high=high)
