"""Compares models under test by the verdicts of stored runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.differences import Difference, compare_signatures
from ..base.errors import ConfigError
from ..base.identity import untrained_services
from ..base.strict import Strict
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import select_among
from ..benchmarks.rounds import JudgeRounds
from ..stats.anchor import Anchor
from ..stats.clusters import LEVEL
from ..stats.paired_comparison import Comparison, compare, holm, largest_unseen_share, measure_differences, rank_ranges
from .canary import last_checks_line
from .model_scores import ModelScores, Noise, ScoreReader
from .view import RunView

_MAX_FURTHEST = 10


class EditPair(Strict):
    """The scores of both models on one item.

    Attributes:
        first: Score of the first model.
        second: Score of the second model.
    """

    item: str
    first: float
    second: float


class DimensionComparison(Strict):
    """Two models on one dimension, over the edits on which both have a score with one signature.

    Attributes:
        unit: Unit of the dimension; empty for a pure number.
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
        noise: Of the first and of the second.
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
    noise: tuple[Noise, Noise] = (Noise(), Noise())
    furthest: tuple[EditPair, ...]


class ModelComparison(Strict):
    """`compare RUN A B --json`.

    Attributes:
        first: Name of the first model.
        second: Name of the second model.
        items: Number of items that both runs requested and that are the same in both.
        other_items: Number of items left out since they differ between the runs.
        dimensions: Those that apply to any of the items, in the order of the run.
        untrained: Services with random weights; if there are any, the comparison is no result.
        pending: Number of edits, of both models, with a dimension that is not judged yet.
        checks: The last checks of the judges that these dimensions rest on, see
            `last_checks_line`; "" if they rest on none.
        anchor: What people's ratings make of the differences; None unless requested.
    """

    first: str
    second: str
    items: int
    other_items: int
    dimensions: tuple[DimensionComparison, ...]
    untrained: tuple[str, ...]
    pending: int
    checks: str
    anchor: Anchor | None = None


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
        dimensions: One ranking for each dimension, in the order of the run.
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
    pairs = pair_scores(first, second, patterns)
    comparisons = [_compare_on(pairs.on(dimension)) for dimension in pairs.dimensions]
    views = first[0], second[0]
    return ModelComparison(
        first=first[1],
        second=second[1],
        items=len(pairs.ids),
        other_items=pairs.other_items,
        dimensions=tuple(_adjust_for_all(comparisons)),
        untrained=find_untrained(*views),
        pending=pairs.pending,
        checks=_describe_checks([row.dimension for row in comparisons], *views),
    )


def pair_scores(first: tuple[RunView, str], second: tuple[RunView, str], patterns: Iterable[str] = ()) -> PairedScores:
    """Read the scores of two models on the items that are the same in both of their runs.

    Args:
        first: See `compare_models`.
        second: See `compare_models`.
        patterns: See `compare_models`.

    Raises:
        ConfigError: see `compare_models`.
        InputError: the data of a run no longer exists.
    """
    (view, _), (other_run, _) = first, second
    dimensions = _shared_dimensions(view, other_run, tuple(patterns))
    rounds = view.resolved_spec.judge_rounds
    scores = ScoreReader((dimension.id for dimension in dimensions), rounds if rounds.rounds > 1 else JudgeRounds())
    if view is other_run:
        read = scores.read(view, dict.fromkeys([first[1], second[1]]))
        mine, theirs = read[0], read[-1]
    else:
        (mine,), (theirs,) = (scores.read(run, [name]) for run, name in (first, second))
    places, other_places = _match_items(mine.items, theirs.items)
    is_changed = np.zeros(len(places), dtype=np.bool_)
    if view is not other_run and (changed_items := view.changed_items(other_run)):
        is_changed[:] = [mine.items[place] in changed_items for place in places.tolist()]
    places, other_places = places[~is_changed], other_places[~is_changed]
    order, clusters = _sort_by_id(view, mine.items, places)
    return PairedScores(
        dimensions=tuple(each for each in dimensions if each.id in scores.applying),
        first=mine,
        second=theirs,
        places=(places[order], other_places[order]),
        clusters=clusters,
        signatures=tuple(scores.signatures),
        other_items=int(is_changed.sum()),
    )


@dataclass(frozen=True)
class PairedScores:
    """The scores of two models on the items of both of their runs.

    Attributes:
        dimensions: Those that apply to any item.
        places: The places of these items among those of each model, in the order of their ids.
        clusters: The cluster of each of these items.
        signatures: What scores depend on, by its number.
        other_items: Number of items left out since they differ between the runs.
    """

    dimensions: tuple[Dimension, ...]
    first: ModelScores
    second: ModelScores
    places: tuple[_Places, _Places]
    clusters: NDArray[np.int64]
    signatures: tuple[str, ...]
    other_items: int = 0

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the items."""
        return [self.first.items[place] for place in self.places[0].tolist()]

    @property
    def pending(self) -> int:
        """Number of edits, of both models, with a dimension that is not judged yet."""
        sides = zip((self.first, self.second), self.places, strict=True)
        return int(sum(side.is_pending[places].sum() for side, places in sides))

    def count_scores(self, dimension: str) -> tuple[int, int]:
        """Count the items on which each model has a score, shared or not."""
        first, second = (int((~np.isnan(side.values(dimension))).sum()) for side in (self.first, self.second))
        return first, second

    def noise(self, dimension: str) -> tuple[Noise, Noise]:
        """The noise of each model on a dimension."""
        return self.first.noise.get(dimension, Noise()), self.second.noise.get(dimension, Noise())

    def on(self, dimension: Dimension) -> DimensionPairs:
        """The pairs of scores on one dimension."""
        name, sides = dimension.id, list(zip((self.first, self.second), self.places, strict=True))
        a, b = (side.values(name)[places] for side, places in sides)
        marks_a, marks_b = (np.asarray(side.marks[name])[places] for side, places in sides)
        has_both = ~np.isnan(a) & ~np.isnan(b)
        differs = marks_a // 2 != marks_b // 2
        unequal = np.flatnonzero(has_both & differs)
        causes: tuple[Difference, ...] = ()
        if len(unequal):
            texts = [self.signatures[marks[unequal[0]] // 2] for marks in (marks_a, marks_b)]
            causes = compare_signatures(*texts)
        common = np.flatnonzero(has_both & ~differs)
        return DimensionPairs(dimension, self, a, b, (marks_a % 2, marks_b % 2), common, len(unequal), causes)


@dataclass(frozen=True)
class DimensionPairs:
    """The scores of two models on one dimension, each with an entry per item.

    Attributes:
        first: The first's scores; NaN where it has none.
        second: The second's scores.
        imputed_marks: Of each model, 1 where a rule imputed its score.
        common: The places of the items on which both have a score with one signature.
        signed_otherwise: See `DimensionComparison`.
        causes: See `DimensionComparison`.
    """

    dimension: Dimension
    of: PairedScores
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    imputed_marks: tuple[NDArray[np.int64], NDArray[np.int64]]
    common: _Places
    signed_otherwise: int
    causes: tuple[Difference, ...]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many items have a score of the first alone, of the second alone, and of neither."""
        a, b = ~np.isnan(self.first), ~np.isnan(self.second)
        return int((a & ~b).sum()), int((b & ~a).sum()), int((~a & ~b).sum())


def rank_models(view: RunView, patterns: Iterable[str] = ()) -> Rankings:
    """Rank all models of a run on each dimension, over the edits on which all have a score.

    A model is placed before another only if it is significantly better: by the p of
    `compare_models`, adjusted for all pairs of models on that dimension (Holm, 5 %). Models
    without a significant difference share places.

    Raises:
        ConfigError: the run has one model, or a pattern matches no dimension.
        InputError: its data no longer exists.
    """
    models = list(view.header.models)
    if len(models) < 2:
        raise ConfigError(
            f"{view.folder} holds only one model, {models[0]}",
            "name a model of another run: compare RUN A B --other RUN2",
        )
    dimensions = _shared_dimensions(view, view, tuple(patterns))
    scores = ScoreReader(dimension.id for dimension in dimensions)
    by_model = dict(zip(models, scores.read(view, models), strict=True))
    is_common = {
        d.id: np.logical_and.reduce([~np.isnan(of.values(d.id)) for of in by_model.values()]) for d in dimensions
    }
    places = np.flatnonzero(np.logical_or.reduce([*is_common.values()]))
    ids = next(iter(by_model.values())).items
    order, clusters = _sort_by_id(view, ids, places)
    places = places[order]
    rankings = tuple(
        _rank(dimension, by_model, places[common], clusters[common], len(ids))
        for dimension in dimensions
        if dimension.id in scores.applying
        for common in [is_common[dimension.id][places]]
    )
    checks = _describe_checks([each.dimension for each in rankings], view)
    return Rankings(dimensions=rankings, untrained=find_untrained(view), checks=checks)


def find_untrained(*views: RunView) -> tuple[str, ...]:
    """List the services with random weights that runs used."""
    names = (name for view in views for name in untrained_services(view.header.identities))
    return tuple(dict.fromkeys(map(str, names)))


def _describe_checks(dimensions: Collection[str], *views: RunView) -> str:
    """Describe the last checks of the judges that dimensions rest on."""
    roles = views[0].resolved_spec.roles(dimensions)
    return last_checks_line(*({r: of for r, of in view.header.identities.items() if r in roles} for view in views))


_Places: TypeAlias = NDArray[np.int64]
"""The places of items among those of a run."""


def _match_items(ids: list[str], other_ids: list[str]) -> tuple[_Places, _Places]:
    """Find the items of both lists: their places in the first, in order, and in the other."""
    if ids is other_ids:
        return np.arange(len(ids)), np.arange(len(ids))
    there = {item: place for place, item in enumerate(other_ids)}
    pairs = [(place, there[item]) for place, item in enumerate(ids) if item in there]
    places, other_places = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return places, other_places


def _sort_by_id(view: RunView, ids: list[str], places: _Places) -> tuple[_Places, NDArray[np.int64]]:
    """How the items at these places, which are in order, are sorted by their ids, and the cluster of each."""
    is_chosen = np.zeros(len(ids), dtype=np.bool_)
    is_chosen[places] = True
    order = np.argsort(np.array(ids, dtype=object)[places], kind="stable")
    return order, np.asarray(view.clusters(is_chosen), dtype=np.int64)[order]


def _shared_dimensions(view: RunView, other: RunView, patterns: tuple[str, ...]) -> tuple[Dimension, ...]:
    """Select the dimensions of both runs, without dimensions of a single judging round."""
    # A dimension of the data alone has the same value for all models.
    candidates = [d for d in view.resolved_spec.dimensions if not (d.round_of or d.of_data)]
    in_both = {d.id for d in other.resolved_spec.dimensions}
    candidates = [dimension for dimension in candidates if dimension.id in in_both]
    if not candidates:
        raise ConfigError(f"{view.folder} and {other.folder} have no dimension in common")
    return select_among(candidates, patterns, view.resolved_spec.rules)


def _compare_on(pairs: DimensionPairs) -> DimensionComparison:
    """Compare two models on one dimension."""
    common, higher = pairs.common, pairs.dimension.higher_is_better
    a, b, clusters = pairs.first[common], pairs.second[common], pairs.of.clusters[common]
    figures = compare(a, b, clusters, higher_is_better=higher) if len(common) else None
    only_first, only_second, neither = pairs.counts
    furthest = np.argsort(-np.abs(b - a), kind="stable")[:_MAX_FURTHEST]
    return DimensionComparison(
        dimension=pairs.dimension.id,
        unit=pairs.dimension.unit,
        higher_is_better=higher,
        figures=figures,
        only_first=only_first,
        only_second=only_second,
        neither=neither,
        imputed_first=int(pairs.imputed_marks[0][common].sum()),
        imputed_second=int(pairs.imputed_marks[1][common].sum()),
        signed_otherwise=pairs.signed_otherwise,
        causes=pairs.causes,
        noise=pairs.of.noise(pairs.dimension.id),
        furthest=tuple(
            EditPair(item=pairs.of.ids[common[one]], first=a[one], second=b[one])
            for one in furthest.tolist()
            if a[one] != b[one]
        ),
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
    dimension: Dimension, each: Mapping[str, ModelScores], places: _Places, clusters: NDArray[np.int64], item_count: int
) -> Ranking:
    values = {model: scores.values(dimension.id)[places] for model, scores in each.items()}
    means = {model: math.fsum(of) / len(places) for model, of in values.items() if len(places)}
    above: dict[str, set[str]] = {model: set() for model in means}
    pairs = [*combinations(means, 2)]
    gains = (values[second] - values[first] for first, second in pairs)
    tests = measure_differences(gains, clusters) if pairs else ()
    # A comparison without intervals has no p.
    sure = holm([1.0 if test.p is None else test.p for test in tests])
    for (first, second), p in zip(pairs, sure, strict=True):
        if p < LEVEL:
            ahead = (means[second] > means[first]) is dimension.higher_is_better
            worse, better = (first, second) if ahead else (second, first)
            above[worse].add(better)
    sources = len(np.unique(clusters))
    ranges = rank_ranges({model: frozenset(names) for model, names in above.items()})
    return Ranking(
        dimension=dimension.id,
        higher_is_better=dimension.higher_is_better,
        edits=len(places),
        items=item_count,
        sources=sources,
        unseen=largest_unseen_share(sources) if sources else None,
        models={
            model: ModelPlace(mean=mean, first_place=ranges[model][0], last_place=ranges[model][1])
            for model, mean in means.items()
        },
    )
