"""Compares models under test by the verdicts of stored runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from ..base.differences import Difference, compare_signatures
from ..base.errors import ConfigError
from ..base.identity import untrained_services
from ..base.strict import Strict
from ..base.verdict import NotApplicable, Pending, Score
from ..benchmarks.column import Row
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..stats.paired_comparison import (
    Comparison,
    compare,
    holm,
    largest_unseen_share,
    measure_differences,
    rank_ranges,
)
from .canary import last_checks_line
from .column_values import LEVEL
from .view import RunView

_MAX_FURTHEST = 10


class EditPair(Strict):
    """The scores of both models on one item."""

    item: str
    first: float
    second: float


class DimensionComparison(Strict):
    """Two models on one dimension, over the edits on which both have a score with one signature.

    Attributes:
        figures: The statistics; None if no edit has a score from both.
        p_holm: `figures.p`, adjusted for all comparisons that were made together (Holm); None
            where there is no p.
        detectable: The smallest difference that about four of five such comparisons find, given
            all comparisons made together; None if there are too few sources to find any.
        better: Which model is significantly better, at a level of 5 %: by `p_holm`, so by both
            intervals of `figures` too; "" for neither.
        only_first: Number of edits on which only the first has a score; no statistic includes them.
        only_second: Number of edits on which only the second has a score.
        neither: Number of edits on which neither has a score.
        imputed_first: Number of the first's scores that a rule imputed; they are included.
        imputed_second: Number of the second's scores that a rule imputed; they are included.
        signed_otherwise: Number of edits that are left out since their signatures differ.
        causes: In what the signatures of the first such edit differ.
        furthest: The edits with the largest differences in either direction, at most ten.
    """

    dimension: str
    unit: str
    higher_is_better: bool
    figures: Comparison | None = None
    p_holm: float | None = None
    detectable: float | None = None
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
        items: Number of items that both runs requested and that are the same in both.
        other_items: Number of items left out since they differ between the runs.
        dimensions: Those that apply to any of the items, in the order of the run.
        untrained: Services with random weights; if there are any, the comparison is no result.
        pending: Number of edits, of both models, with a dimension that is not judged yet.
        checks: The last checks of the judges that these dimensions rest on, see
            `last_checks_line`; "" if they rest on none.
    """

    first: str
    second: str
    items: int
    other_items: int
    dimensions: tuple[DimensionComparison, ...]
    untrained: tuple[str, ...]
    pending: int
    checks: str


class ModelPlace(Strict):
    """A model's place on one dimension.

    Attributes:
        mean: Mean over the edits on which all models have a score.
        first_place: The best place that the model may have, from 1.
        last_place: The worst place that it may have.
    """

    mean: float
    first_place: int
    last_place: int


class Ranking(Strict):
    """The models of a run on one dimension.

    Attributes:
        edits: Number of edits on which all models have a score.
        items: Number of items of the run.
        sources: Number of different source pictures of these edits.
        unseen: See `Comparison`; None without edits.
        models: Places by name of the model; empty if there is no such edit.
    """

    dimension: str
    higher_is_better: bool
    edits: int
    items: int
    sources: int
    unseen: float | None
    models: dict[str, ModelPlace]


class Rankings(Strict):
    """`compare RUN --json`.

    Attributes:
        untrained: Services with random weights.
        checks: See `ModelComparison`.
    """

    dimensions: tuple[Ranking, ...]
    untrained: tuple[str, ...]
    checks: str


def compare_models(
    first: tuple[RunView, str], second: tuple[RunView, str], patterns: Iterable[str] = ()
) -> ModelComparison:
    """Compare two models of one run, or of two.

    Args:
        first: A run and the name of a model under test in it.
        second: The other model with its run, which may be the same object.
        patterns: Ids or globs of dimensions; by default all that both runs requested.

    Raises:
        ConfigError: a model is not in its run, no dimension is in both, or a pattern matches none.
        InputError: the data of a run no longer exists.
    """
    (view, _), (other_run, _) = first, second
    dimensions = _shared_dimensions(view, other_run, tuple(patterns))
    if view is other_run:
        mine, theirs = _read_numbers(view, [first[1], second[1]], dimensions)
    else:
        (mine,), (theirs,) = (_read_numbers(run, [it], dimensions) for run, it in (first, second))
    changed_items = frozenset() if view is other_run else view.changed_items(other_run)
    common_items = mine.items & theirs.items - changed_items
    clusters = view.clusters(common_items)
    comparisons = [
        _compare_on(dimension, mine, theirs, clusters)
        for dimension in dimensions
        if dimension.id in mine.applying | theirs.applying
    ]
    return ModelComparison(
        first=first[1],
        second=second[1],
        items=len(common_items),
        other_items=len(mine.items & theirs.items & changed_items),
        dimensions=tuple(_adjust_for_all(comparisons)),
        untrained=_untrained_services(view, other_run),
        pending=sum(len(each.pending & common_items) for each in (mine, theirs)),
        checks=_describe_checks([row.dimension for row in comparisons], view, other_run),
    )


def rank_models(view: RunView, patterns: Iterable[str] = ()) -> Rankings:
    """Rank all models of a run on each dimension, over the edits on which all have a score.

    A model is placed before another only if it is significantly better: by the p of
    `compare_models`, adjusted for all pairs of models on that dimension (Holm, 5 %). Models
    without a significant difference share places.

    Raises:
        ConfigError: the run has one model, or a pattern matches no dimension.
        InputError: its data no longer exists.
    """
    models = list(view.header.outputs)
    if len(models) < 2:
        raise ConfigError(
            f"{view.folder} holds only one model, {models[0]}",
            "name a model of another run: compare RUN A B --other RUN2",
        )
    dimensions = _shared_dimensions(view, view, tuple(patterns))
    by_model = dict(zip(models, _read_numbers(view, models, dimensions), strict=True))
    applying = set().union(*(numbers.applying for numbers in by_model.values()))
    common = {
        d.id: sorted(set.intersection(*({*numbers.scores[d.id]} for numbers in by_model.values())))
        for d in dimensions
    }
    clusters = view.clusters({item for items in common.values() for item in items})
    rankings = tuple(
        _rank(dimension, by_model, common[dimension.id], clusters)
        for dimension in dimensions
        if dimension.id in applying
    )
    checks = _describe_checks([each.dimension for each in rankings], view)
    return Rankings(dimensions=rankings, untrained=_untrained_services(view), checks=checks)


def _untrained_services(*views: RunView) -> tuple[str, ...]:
    names = (name for view in views for name in untrained_services(view.header.identities))
    return tuple(dict.fromkeys(map(str, names)))


def _describe_checks(dimensions: Collection[str], *views: RunView) -> str:
    """Describe the last checks of the judges that dimensions rest on."""
    roles = views[0].resolved_spec.roles(dimensions)
    return last_checks_line(
        *({r: of for r, of in view.header.identities.items() if r in roles} for view in views)
    )


class _Score(NamedTuple):
    """The score of a model on an item.

    Attributes:
        signature: What the number depends on.
        is_imputed: Whether a rule set the value.
    """

    value: float
    signature: str
    is_imputed: bool


@dataclass
class _ModelNumbers:
    """The scores of one model, collected edit by edit.

    Attributes:
        scores: Scores by dimension and item.
        items: Ids of the requested items.
        applying: Ids of the dimensions that apply to any of them.
        pending: Ids of items with a dimension that is not judged yet.
    """

    scores: dict[str, dict[str, _Score]]
    items: set[str] = field(default_factory=set)
    applying: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Add an edit."""
        item = row.item.id
        self.items.add(item)
        for name, numbers in self.scores.items():
            outcome = row.outcomes.get(name)
            if outcome is None or isinstance(outcome, NotApplicable):
                continue
            self.applying.add(name)
            if isinstance(outcome, Pending):
                self.pending.add(item)
            if isinstance(outcome, Score):
                signature = str(row.signatures.get(name, ""))
                numbers[item] = _Score(outcome.value, signature, outcome.imputed)

    def values(self, dimension: str, items: Iterable[str]) -> list[float]:
        """The scores for these items, all of which must have one."""
        return [self.scores[dimension][item].value for item in items]


def _read_numbers(
    view: RunView, models: Collection[str], dimensions: Iterable[Dimension]
) -> list[_ModelNumbers]:
    """Collect the scores of some models of a run in one pass."""
    for model in models:
        if model not in view.header.outputs:
            models_here = ", ".join(view.header.outputs)
            raise ConfigError(f"{view.folder}: no model {model}", f"its models: {models_here}")
    names = [dimension.id for dimension in dimensions]
    each = {model: _ModelNumbers({name: {} for name in names}) for model in models}
    for row in view.rows():
        if row.model in each:
            each[row.model].add(row)
    return [each[model] for model in models]


def _shared_dimensions(
    view: RunView, other: RunView, patterns: tuple[str, ...]
) -> tuple[Dimension, ...]:
    """Select the dimensions of both runs, without dimensions of a single judging round."""
    # A dimension of the data alone has the same value for all models.
    candidates = [d for d in view.resolved_spec.dimensions if not (d.round_of or d.of_data)]
    in_both = {d.id for d in other.resolved_spec.dimensions}
    candidates = [dimension for dimension in candidates if dimension.id in in_both]
    if not candidates:
        raise ConfigError(f"{view.folder} and {other.folder} have no dimension in common")
    return select_among(candidates, patterns, view.resolved_spec.rules)


def _compare_on(
    dimension: Dimension, first: _ModelNumbers, second: _ModelNumbers, clusters: Mapping[str, int]
) -> DimensionComparison:
    """Compare two models on one dimension, over the items in `clusters`."""
    scores_a, scores_b = first.scores[dimension.id], second.scores[dimension.id]
    items_a, items_b = scores_a.keys() & clusters.keys(), scores_b.keys() & clusters.keys()
    unequal = sorted(i for i in items_a & items_b if scores_a[i].signature != scores_b[i].signature)
    items = sorted((items_a & items_b).difference(unequal))
    pairs = [EditPair(item=i, first=scores_a[i].value, second=scores_b[i].value) for i in items]
    differing = (pair for pair in pairs if pair.first != pair.second)
    causes = (compare_signatures(scores_a[i].signature, scores_b[i].signature) for i in unequal[:1])
    values = [pair.first for pair in pairs], [pair.second for pair in pairs]
    of_items, higher = [clusters[item] for item in items], dimension.higher_is_better
    figures = compare(*values, of_items, higher_is_better=higher) if items else None
    return DimensionComparison(
        dimension=dimension.id,
        unit=dimension.unit,
        higher_is_better=higher,
        figures=figures,
        only_first=len(items_a - items_b),
        only_second=len(items_b - items_a),
        neither=len(clusters.keys() - items_a - items_b),
        imputed_first=sum(scores_a[item].is_imputed for item in items),
        imputed_second=sum(scores_b[item].is_imputed for item in items),
        signed_otherwise=len(unequal),
        causes=next(causes, ()),
        furthest=tuple(nlargest(_MAX_FURTHEST, differing, key=lambda p: abs(p.second - p.first))),
    )


def _adjust_for_all(rows: Sequence[DimensionComparison]) -> Iterator[DimensionComparison]:
    """Add the adjusted p, the detectable difference and the better model to each comparison."""
    tests = [row.figures.p for row in rows if row.figures and row.figures.p is not None]
    ps = iter(holm(tests))
    for row in rows:
        if row.figures is None or row.figures.p is None:
            yield row
            continue
        p, gain, better = next(ps), row.figures.difference, ""
        if p < LEVEL and gain:
            better = "second" if (gain > 0) is row.higher_is_better else "first"
        least = row.figures.detectable(len(tests))
        yield row.model_copy(update={"p_holm": p, "detectable": least, "better": better})


def _rank(
    dimension: Dimension,
    each: Mapping[str, _ModelNumbers],
    items: list[str],
    clusters: Mapping[str, int],
) -> Ranking:
    values = {model: numbers.values(dimension.id, items) for model, numbers in each.items()}
    means = {model: math.fsum(of) / len(items) for model, of in values.items() if items}
    above: dict[str, set[str]] = {model: set() for model in means}
    pairs, of_items = [*combinations(means, 2)], [clusters[item] for item in items]
    gains = np.array([np.subtract(values[second], values[first]) for first, second in pairs])
    tests = measure_differences(gains, of_items) if pairs else ()
    # A comparison without intervals has no p.
    sure = holm([1.0 if test.p is None else test.p for test in tests])
    for (first, second), p in zip(pairs, sure, strict=True):
        if p < LEVEL:
            ahead = (means[second] > means[first]) is dimension.higher_is_better
            worse, better = (first, second) if ahead else (second, first)
            above[worse].add(better)
    sources = len({*of_items})
    places = rank_ranges({model: frozenset(names) for model, names in above.items()})
    return Ranking(
        dimension=dimension.id,
        higher_is_better=dimension.higher_is_better,
        edits=len(items),
        items=max(len(numbers.items) for numbers in each.values()),
        sources=sources,
        unseen=largest_unseen_share(sources) if sources else None,
        models={
            model: ModelPlace(mean=mean, first_place=places[model][0], last_place=places[model][1])
            for model, mean in means.items()
        },
    )
