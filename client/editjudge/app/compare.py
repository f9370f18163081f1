"""Whether one model under test is better than another, from stored runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

from ..base.differences import Difference, differences
from ..base.errors import ConfigError
from ..base.identity import Identities
from ..base.verdict import NotApplicable, Pending, Scored
from ..benchmarks.column import Row
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..stats import Comparison, compare, detectable, difference_p, holm, linked, rank_ranges
from .view import RunView

LEVEL = 0.05
"""A p (Holm) below it is sure."""
_FURTHEST = 10
Better: TypeAlias = Literal["first", "second", ""]
Sources: TypeAlias = Mapping[str, int]
"""By item, which others have a source picture in common with it; see `linked`."""


class EditPair(NamedTuple):
    """An item with what both models got for it."""

    item: str
    first: float
    second: float


@dataclass(frozen=True)
class OnDimension:
    """Two models on one dimension, over the edits where both have a number by one signature.

    Attributes:
        comparison: None where there is no such edit.
        p: `comparison.p`, adjusted for all that was compared together (Holm).
        better: Which is surely better, at a level of 5 %; "" for neither.
        detectable: The smallest difference that is found in about four of five times; None where
            there are too few sources to find any, with all that is compared together.
        only_first: Edits on which only the first has a number: they are in no figure here.
        only_second: The same of the second.
        neither: Edits on which neither has one.
        imputed: How many of the first's and of the second's numbers a rule put in; they count.
        signed_otherwise: Edits that are left out since the two were not judged in the same way.
        causes: In what the signatures of the first of these differ.
        furthest: The edits that differ most, whichever is better on them.
    """

    dimension: Dimension
    comparison: Comparison | None
    p: float | None
    better: Better
    detectable: float | None
    only_first: int
    only_second: int
    neither: int
    imputed: tuple[int, int]
    signed_otherwise: int
    causes: tuple[Difference, ...]
    furthest: tuple[EditPair, ...]

    @property
    def record(self) -> tuple[int, int, int]:
        """Edits on which the second is better, as good, and worse."""
        figures = self.comparison
        if figures is None:
            return 0, 0, 0
        wins, losses = figures.higher, figures.lower
        if not self.dimension.higher_is_better:
            wins, losses = losses, wins
        return wins, figures.equal, losses


@dataclass(frozen=True)
class ModelComparison:
    """Two models.

    Attributes:
        items: How many both were asked for that are the same in both runs.
        other_items: Items left out since the runs did not have the same of them.
        dimensions: Those that apply to any of the items, in the run's order.
        identities: Of the services of both runs.
        pending: Edits of either on which a dimension is not judged yet.
    """

    first: str
    second: str
    items: int
    other_items: int
    dimensions: tuple[OnDimension, ...]
    identities: Identities
    pending: int = 0


@dataclass(frozen=True)
class Ranking:
    """The models of a run on one dimension.

    Attributes:
        means: By model, over the edits where all have a number; empty where there is none.
        places: By model, those it may have, from 1.
        edits: How many edits that is.
        items: How many items the run has.
    """

    dimension: Dimension
    means: Mapping[str, float]
    places: Mapping[str, tuple[int, int]]
    edits: int
    items: int


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
    told = [
        _on(dimension, mine, theirs, both, sources)
        for dimension in dimensions
        if any(dimension.id in numbers.applying for numbers in (mine, theirs))
    ]
    return ModelComparison(
        first[1],
        second[1],
        len(both),
        len(mine.items & theirs.items & changed),
        tuple(_adjusted(told)),
        {**other.header.identities, **view.header.identities},
        sum(len(numbers.pending & both) for numbers in (mine, theirs)),
    )


def rank_models(view: RunView, patterns: Iterable[str] = ()) -> tuple[Ranking, ...]:
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
    return tuple(
        _ranking(dimension, each, common[dimension.id], sources)
        for dimension in dimensions
        if any(dimension.id in numbers.applying for numbers in each.values())
    )


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


def _on(
    dimension: Dimension,
    first: _Numbers,
    second: _Numbers,
    both: Collection[str],
    sources: Sources,
) -> OnDimension:
    name = dimension.id
    ones, others = ({*numbers.scored[name]} & {*both} for numbers in (first, second))
    signed = first.signatures[name], second.signatures[name]
    otherwise = sorted(item for item in ones & others if signed[0][item] != signed[1][item])
    items = sorted((ones & others).difference(otherwise))
    values = first.of(name, items), second.of(name, items)
    told = compare(*values, [sources[i] for i in items]) if items else None
    pairs = [EditPair(*each) for each in zip(items, *values, strict=True)]
    differing = (each for each in pairs if each.first != each.second)
    furthest = sorted(differing, key=lambda each: abs(each.second - each.first), reverse=True)
    causes = differences(signed[0][otherwise[0]], signed[1][otherwise[0]]) if otherwise else ()
    return OnDimension(
        dimension,
        told,
        told.p if told else None,
        "",
        None,
        len(ones - others),
        len(others - ones),
        len({*both} - ones - others),
        (
            len(first.imputed[name].intersection(items)),
            len(second.imputed[name].intersection(items)),
        ),
        len(otherwise),
        causes,
        tuple(furthest[:_FURTHEST]),
    )


def _adjusted(told: Collection[OnDimension]) -> Iterator[OnDimension]:
    """With p as sure as if each had been the only one, and who is better by that."""
    tests = [each.p for each in told if each.p is not None]
    ps = iter(holm(tests))
    for each in told:
        if each.p is None or each.comparison is None:
            yield each
            continue
        p, gain = next(ps), each.comparison.difference.value
        better: Better = ""
        if p < LEVEL and gain:
            better = "second" if (gain > 0) is each.dimension.higher_is_better else "first"
        least = detectable(each.comparison.difference, len(tests))
        yield replace(each, p=p, better=better, detectable=least)


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
    asked = max(len(numbers.items) for numbers in each.values())
    if not items:
        return Ranking(dimension, {}, {}, 0, asked)
    means = {
        model: math.fsum(numbers.of(dimension.id, items)) / len(items)
        for model, numbers in each.items()
    }
    above: dict[str, set[str]] = {model: set() for model in each}
    pairs = [*combinations(each, 2)]
    ps = [_p(dimension.id, [each[model] for model in pair], items, sources) for pair in pairs]
    for (first, second), p in zip(pairs, holm(ps), strict=True):
        if p < LEVEL:
            ahead = (means[second] > means[first]) is dimension.higher_is_better
            worse, better = (first, second) if ahead else (second, first)
            above[worse].add(better)
    places = rank_ranges({model: frozenset(names) for model, names in above.items()})
    return Ranking(dimension, means, places, len(items), asked)
