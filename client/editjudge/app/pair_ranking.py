"""Ranks models by the pairs that a run has judged."""

from collections.abc import Hashable

from ..base.verdict import Score
from ..benchmarks.pairs import FILE, PAIR
from ..stats.preferences import PairKey, PairRanking, rank_models
from .judge_values import cluster_items
from .view import RunView


def rank_pairs(view: RunView) -> tuple[PairRanking, ...]:
    """Rank models by each dimension of a run about pairs; empty for other runs."""
    if not view.header.data.endswith(FILE):
        return ()
    shares: dict[str, dict[PairKey, float]] = {}
    clusters: dict[PairKey, Hashable] = {}
    cluster_of = cluster_items([view])
    dimensions = [d for d in view.resolved_spec.dimensions if not d.round_of]
    for row in view.rows():
        item, first, second = row.item.extra[PAIR]
        clusters[item, first, second] = cluster_of(row.item.id)
        for dimension in dimensions:
            outcome, ends = row.outcomes.get(dimension.id), dimension.range
            if isinstance(outcome, Score):
                worst, best = ends if dimension.higher_is_better else reversed(ends)
                share = (outcome.value - worst) / (best - worst)
                shares.setdefault(dimension.id, {})[item, first, second] = share
    return tuple(rank_models(name, of, clusters) for name, of in shares.items())
