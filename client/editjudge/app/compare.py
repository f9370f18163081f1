"""Whether one model under test is better than another, from stored runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, TypeAlias

from ..base.differences import Difference, differences
from ..base.errors import ConfigError
from ..base.identity import untrained
from ..base.strict import Strict
from ..base.verdict import NotApplicable, Pending, Scored
from ..benchmarks.column import Row
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..stats import Comparison, compare, detectable, difference_p, holm, linked, rank_ranges
from .view import RunView

LEVEL = 0.05
"""A p (Holm) below it is sure."""
_FURTHEST = 10
Sources: TypeAlias = Mapping[str, int]
"""By item, which others have a source picture in common with it; see `linked`."""


class Ends(Strict):
    """Of an interval of 95 %, on the dimension's scale."""

    low: float
    high: float


class Figures(Strict):
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
    interval: Ends | None
    bootstrap: Ends | None
    p: float | None
    mcnemar: float | None
    wins: int
    ties: int
    losses: int
    detectable: float | None


class EditPair(Strict):
    """An item with what both models got for it."""

    item: str
    first: float
    second: float


class OnDimension(Strict):
    """Two models on one dimension, over the edits where both have a number by one signature.

    Attributes:
        figures: None where both have a number on no edit.
        p_holm: `figures.p`, adjusted for all that was compared together (Holm).
        better: Which is surely better, at a level of 5 %; "" for neither.
        only_first: Edits on which only the first has a number: they are in no figure here.
        only_second: The same of the second.
        neither: Edits on which neither has one.
        imputed_first: How many of the first's numbers a rule put in; they are counted here.
        imputed_second: The same of the second.
        signed_otherwise: Edits that are left out since the two were not judged in the same way.
        causes: In what the signatures of the first of these differ.
        furthest: The edits that differ most, whichever is better on them, at most ten.
    """

    dimension: str
    unit: str
    higher_is_better: bool
    figures: Figures | None = None
    p_holm: float | None = None
    better: Literal["first", "second", ""] = ""
    only_first: int
    only_second: int
    neither: int
    imputed_first: int
    imputed_second: int
    signed_otherwise: int
    causes: tuple[Difference, ...]
    furthest: tuple[EditPair, ...]


class ModelComparison(Strict):
    """`compare RUN A B --json`.

    Attributes:
        items: How many both were asked for that are the same in both runs.
        other_items: Items left out since the runs did not have the same of them.
        dimensions: Those that apply to any of the items, in the run's order.
        untrained: Services of both runs whose weights are random: nothing here is a result then.
        pending: Edits of either on which a dimension is not judged yet.
    """

    first: str
    second: str
    items: int
    other_items: int
    dimensions: tuple[OnDimension, ...]
    untrained: tuple[str, ...]
    pending: int


class Placed(Strict):
    """A model on one dimension.

    Attributes:
        mean: Over the edits where all models have a number.
        first_place: The best place that it may have, from 1.
        last_place: The worst.
    """

    mean: float
    first_place: int
    last_place: int


class Ranking(Strict):
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


class Rankings(Strict):
    """`compare RUN --json`.

    Attributes:
        untrained: Services whose weights are random.
    """

    dimensions: tuple[Ranking, ...]
    untrained: tuple[str, ...]


def compare_models(
    first: tuple[RunView, str], second: tuple[RunView, str], patterns: Iterable[str] = ()
) -> ModelComparison:
    """Compare two models of one run, or of two.

    Args:
        first: A run and a model under test in it.
        second: Another; the run may be the same object.
        patterns: Ids or globs of dimensions; by default all that both runs were asked for.

    Raises:
        ConfigError: a model is not in its run, no dimension is in both, or a pattern matches none.
        InputError: the data of a run is not there any more.
    """
    (view, _), (other, _) = first, second
    dimensions = _chosen(view, other, tuple(patterns))
    if view is other:
        mine, theirs = _numbers(view, [first[1], second[1]], dimensions)
    else:
        (mine,), (theirs,) = (_numbers(run, [model], dimensions) for run, model in (first, second))
    changed = frozenset() if view is other else view.other_items(other)
    both = mine.items & theirs.items - changed
    sources = linked(view.sources(both))
    numbers = mine, theirs
    applying = [d for d in dimensions if any(d.id in each.applying for each in numbers)]
    compared = [_compared(dimension, *numbers, both, sources) for dimension in applying]
    return ModelComparison(
        first=first[1],
        second=second[1],
        items=len(both),
        other_items=len(mine.items & theirs.items & changed),
        dimensions=tuple(_told(compared)),
        untrained=_untrained(view, other),
        pending=sum(len(each.pending & both) for each in numbers),
    )


def rank_models(view: RunView, patterns: Iterable[str] = ()) -> Rankings:
    """Rank all models of a run by each dimension, on the edits where all have a number.

    One stands before another only where it is surely better: by the p of `compare_models`,
    adjusted for all pairs of models on that dimension (Holm, 5 %). So models share places.

    Raises:
        ConfigError: the run has one model, or a pattern matches no dimension.
        InputError: its data is not there any more.
    """
    models = list(view.header.outputs)
    if len(models) < 2:
        raise ConfigError(
            f"{view.folder}: {models[0]} has no other to be compared with",
            "name a model of another run: compare RUN A B --other RUN2",
        )
    dimensions = _chosen(view, view, tuple(patterns))
    each = dict(zip(models, _numbers(view, models, dimensions), strict=True))
    common = {
        d.id: sorted(set.intersection(*({*numbers.scored[d.id]} for numbers in each.values())))
        for d in dimensions
    }
    sources = linked(view.sources({item for items in common.values() for item in items}))
    ranked = tuple(
        _ranking(dimension, each, common[dimension.id], sources)
        for dimension in dimensions
        if any(dimension.id in numbers.applying for numbers in each.values())
    )
    return Rankings(dimensions=ranked, untrained=_untrained(view))


def _untrained(*views: RunView) -> tuple[str, ...]:
    names = (name for view in views for name in untrained(view.header.identities))
    return tuple(dict.fromkeys(map(str, names)))


@dataclass
class _Numbers:
    """What one model got, gathered as edits come.

    Attributes:
        items: Ids of those that it was asked for.
        applying: Dimensions that apply to any of them.
        scored: By dimension and item.
        signatures: The same of their signatures.
        imputed: Items by dimension of which a rule put the number in.
        pending: Items on which a dimension is not judged yet.
    """

    items: set[str] = field(default_factory=set)
    applying: set[str] = field(default_factory=set)
    scored: dict[str, dict[str, float]] = field(default_factory=dict)
    signatures: dict[str, dict[str, str]] = field(default_factory=dict)
    imputed: dict[str, set[str]] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Add an edit."""
        item = row.item.id
        self.items.add(item)
        for name, numbers in self.scored.items():
            outcome = row.outcomes.get(name)
            if outcome is None or isinstance(outcome, NotApplicable):
                continue
            self.applying.add(name)
            if isinstance(outcome, Pending):
                self.pending.add(item)
            if isinstance(outcome, Scored):
                numbers[item] = outcome.value
                self.signatures[name][item] = str(row.signatures.get(name, ""))
                if outcome.imputed:
                    self.imputed[name].add(item)

    def of(self, dimension: str, items: Iterable[str]) -> list[float]:
        """Its numbers for these items, which have one."""
        return [self.scored[dimension][item] for item in items]


def _numbers(
    view: RunView, models: Collection[str], dimensions: Iterable[Dimension]
) -> list[_Numbers]:
    """What these models of a run got, in one reading."""
    for model in models:
        if model not in view.header.outputs:
            known = ", ".join(view.header.outputs)
            raise ConfigError(f"{view.folder}: no model {model}", f"models of this run: {known}")
    names = [dimension.id for dimension in dimensions]
    each = {
        model: _Numbers(
            scored={name: {} for name in names},
            signatures={name: {} for name in names},
            imputed={name: set() for name in names},
        )
        for model in models
    }
    for row in view.rows():
        if row.model in each:
            each[row.model].add(row)
    return [each[model] for model in models]


def _chosen(view: RunView, other: RunView, patterns: tuple[str, ...]) -> tuple[Dimension, ...]:
    """The dimensions of both runs that are meant, without single rounds."""
    # What asks of the data alone says the same of all models.
    asked = [d for d in view.resolved.order.dimensions if not (d.round_of or d.of_data)]
    in_both = {d.id for d in other.resolved.order.dimensions}
    asked = [dimension for dimension in asked if dimension.id in in_both]
    if not asked:
        raise ConfigError(f"{view.folder} and {other.folder} have no dimension in common")
    return select_among(asked, patterns, view.resolved.rules)


def _compared(
    dimension: Dimension,
    first: _Numbers,
    second: _Numbers,
    both: Collection[str],
    sources: Sources,
) -> tuple[OnDimension, Comparison | None]:
    """Two models on one dimension, and what there is to be told of it with all others."""
    name = dimension.id
    ones, others = ({*numbers.scored[name]} & {*both} for numbers in (first, second))
    signed = first.signatures[name], second.signatures[name]
    otherwise = sorted(item for item in ones & others if signed[0][item] != signed[1][item])
    items = sorted((ones & others).difference(otherwise))
    values = first.of(name, items), second.of(name, items)
    differing = sorted(
        (each for each in zip(items, *values, strict=True) if each[1] != each[2]),
        key=lambda each: abs(each[2] - each[1]),
        reverse=True,
    )
    on = OnDimension(
        dimension=name,
        unit=dimension.unit,
        higher_is_better=dimension.higher_is_better,
        only_first=len(ones - others),
        only_second=len(others - ones),
        neither=len({*both} - ones - others),
        imputed_first=len(first.imputed[name].intersection(items)),
        imputed_second=len(second.imputed[name].intersection(items)),
        signed_otherwise=len(otherwise),
        causes=differences(signed[0][otherwise[0]], signed[1][otherwise[0]]) if otherwise else (),
        furthest=tuple(
            EditPair(item=item, first=one, second=other)
            for item, one, other in differing[:_FURTHEST]
        ),
    )
    return on, compare(*values, [sources[item] for item in items]) if items else None


def _told(
    compared: Sequence[tuple[OnDimension, Comparison | None]],
) -> Iterator[OnDimension]:
    """With the figures, each p as sure as if it had been the only one, and who is better by it."""
    tests = [figures.p for _, figures in compared if figures and figures.p is not None]
    adjusted = iter(holm(tests))
    for on, figures in compared:
        if figures is None:
            yield on
            continue
        p, gain = None, figures.difference.value
        least, better = None, ""
        if figures.p is not None:
            p, least = next(adjusted), detectable(figures.difference, len(tests))
            if p < LEVEL and gain:
                better = "second" if (gain > 0) is on.higher_is_better else "first"
        told = _figures(figures, least, higher_is_better=on.higher_is_better)
        yield on.model_copy(update={"figures": told, "p_holm": p, "better": better})


def _figures(told: Comparison, least: float | None, *, higher_is_better: bool) -> Figures:
    difference, wins, losses = told.difference, told.higher, told.lower
    if not higher_is_better:
        wins, losses = losses, wins
    return Figures(
        edits=difference.items,
        sources=difference.clusters,
        first=told.first,
        second=told.second,
        difference=difference.value,
        interval=_ends(difference.low, difference.high),
        bootstrap=_ends(*(told.bootstrap or (None, None))),
        p=told.p,
        mcnemar=told.mcnemar,
        wins=wins,
        ties=told.equal,
        losses=losses,
        detectable=least,
    )


def _ends(low: float | None, high: float | None) -> Ends | None:
    return None if low is None or high is None else Ends(low=low, high=high)


def _p(dimension: str, pair: Iterable[_Numbers], items: Collection[str], sources: Sources) -> float:
    """That two models differ; 1 where one source says nothing of others."""
    first, second = (numbers.of(dimension, items) for numbers in pair)
    p = difference_p(first, second, [sources[item] for item in items])
    return 1.0 if p is None else p


def _ranking(
    dimension: Dimension,
    each: Mapping[str, _Numbers],
    items: list[str],
    sources: Sources,
) -> Ranking:
    means: dict[str, float] = {}
    if items:
        means = {
            model: math.fsum(numbers.of(dimension.id, items)) / len(items)
            for model, numbers in each.items()
        }
    above: dict[str, set[str]] = {model: set() for model in means}
    pairs = [*combinations(means, 2)]
    ps = [_p(dimension.id, [each[model] for model in pair], items, sources) for pair in pairs]
    for (first, second), p in zip(pairs, holm(ps), strict=True):
        if p < LEVEL:
            ahead = (means[second] > means[first]) is dimension.higher_is_better
            worse, better = (first, second) if ahead else (second, first)
            above[worse].add(better)
    places = rank_ranges({model: frozenset(names) for model, names in above.items()})
    return Ranking(
        dimension=dimension.id,
        higher_is_better=dimension.higher_is_better,
        edits=len(items),
        items=max(len(numbers.items) for numbers in each.values()),
        models={
            model: Placed(mean=mean, first_place=places[model][0], last_place=places[model][1])
            for model, mean in means.items()
        },
    )
