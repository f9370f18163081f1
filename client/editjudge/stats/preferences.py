"""Votes on pairs of edits: accuracy by every rule for ties, thresholds, and Bradley-Terry."""

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..base.strict import Strict
from .agreement import Array, Figure, NotDefined, Scale, Statistic, cohen_kappa, estimate
from .clusters import Floats, number_clusters

Vote: TypeAlias = Literal["A", "B", "tie", "both_bad"]
VOTES: tuple[Vote, ...] = get_args(Vote)
"""In arrays a vote is its place here (int64)."""
Votes: TypeAlias = NDArray[np.int64]
A, B, TIE, BOTH_BAD = range(4)

TieRule: TypeAlias = Literal["four_classes", "merged", "tie_as_half", "decided", "both_decided"]
_FOLDS = 5
_ELO = 400 / math.log(10)


PairKey: TypeAlias = tuple[str, str, str]
"""An item, the model whose edit is shown first, and the other one."""


class PairRanking(Strict):
    """Models by one dimension of their pairs. A pair counts if it was judged in both orders.

    Attributes:
        pairs: Number of pairs.
        ties: Number of pairs without a winner over both orders.
        first_wins: The mean share that the edit shown first wins, 0..1; a half is no favour.
        wins: The mean share that each model wins of its pairs, 0..1, best first.
        strengths: By Bradley and Terry, with Davidson's ties, on the scale of Elo.
    """

    dimension: str
    pairs: int
    ties: int
    first_wins: Figure
    wins: dict[str, Figure]
    strengths: dict[str, Figure]


def four_classes(judge: Votes, people: Votes) -> float:
    """The share of equal votes of four classes."""
    return float((judge == people).mean())


def merge_bad(judge: Votes, people: Votes) -> float:
    """The share of equal votes, where `both_bad` counts as a tie."""
    return float((np.minimum(judge, TIE) == np.minimum(people, TIE)).mean())


def tie_as_half(judge: Votes, people: Votes) -> float:
    """Of the pairs that people decided the share with the same side; a judge's tie counts half."""
    hits = np.where(judge >= TIE, 0.5, judge == people)
    return _mean_where(hits, people < TIE)


def tie_as_wrong(judge: Votes, people: Votes) -> float:
    """Of the pairs that people decided the share with the same side; a judge's tie is wrong."""
    return _mean_where(judge == people, people < TIE)


def both_decided(judge: Votes, people: Votes) -> float:
    """Of the pairs that both decided the share with the same side."""
    return _mean_where(judge == people, (people < TIE) & (judge < TIE))


def all_right(judge: Votes, people: Votes, sources: NDArray[np.int64]) -> float:
    """Of the sources with a decided pair the share whose decided pairs all have the same side."""
    sides, count = people < TIE, int(sources.max()) + 1
    counts, hits = (np.bincount(sources[of], minlength=count) for of in (sides, sides & (judge == people)))
    return _mean_where(hits == counts, counts > 0)


def _mean_where(hits: Array, counts: NDArray[np.bool_]) -> float:
    if not counts.any():
        raise NotDefined("no such pair was decided")
    return float(hits[counts].mean())


TIE_RULES: Mapping[TieRule, Statistic] = {
    "four_classes": Statistic(four_classes, "share", 1 / 4),
    "merged": Statistic(merge_bad, "share", 1 / 3),
    "tie_as_half": Statistic(tie_as_half, "share", 1 / 2),
    "decided": Statistic(tie_as_wrong, "share", 1 / 2),
    "both_decided": Statistic(both_decided, "share", 1 / 2),
}
RULES_WITH_TIES = ("four_classes", "merged")
"""The rules by which a tie can be right, so that a threshold on differences is worth choosing."""
VOTE_STATISTICS: Mapping[str, Statistic] = {
    **{str(name): statistic for name, statistic in TIE_RULES.items()},
    "all_right": Statistic(all_right, "share", None, counts_sources=True),
    "kappa": Statistic(cohen_kappa, "correlation"),
}
"""The statistics of two sides that vote."""


def vote_by(differences: Floats, threshold: float | Floats = 0.0) -> Votes:
    """Turn differences of scores into votes: A where positive, a tie up to the threshold.

    Args:
        differences: Score of A minus score of B, higher being better (float64, N).
        threshold: The largest size of a difference that is a tie; one, or one for each pair.
    """
    sides = np.where(differences > 0, A, B)
    return np.where(np.abs(differences) <= np.maximum(threshold, 1e-9), TIE, sides)


def best_threshold(differences: Floats, people: Votes) -> float:
    """The threshold with the highest accuracy by the rule `merged`; the lowest of equal ones.

    Only sizes that occur are tried, and all differences of one size are on the same side of it.
    """
    votes = np.minimum(people, TIE)
    sizes, places = np.unique(np.round(np.abs(differences), 9), return_inverse=True)
    as_tie = np.bincount(places, weights=votes == TIE, minlength=len(sizes))
    as_side = np.bincount(places, weights=vote_by(differences) == votes, minlength=len(sizes))
    # A size of 0 is a tie by any threshold.
    hits = np.cumsum(as_tie) + as_side.sum() - np.cumsum(as_side)
    if sizes[0] > 0:
        hits, sizes = np.append(as_side.sum(), hits), np.append(0.0, sizes)
    return float(sizes[hits.argmax()])


def cross_validated_thresholds(differences: Floats, people: Votes, clusters: Sequence[Hashable]) -> Floats:
    """The threshold for each pair, by the pairs of other sources (five folds; float64, N)."""
    numbers = number_clusters(clusters)
    folds = np.random.default_rng(0).permutation(int(numbers.max()) + 1)[numbers] % _FOLDS
    thresholds = np.zeros(len(differences))
    for fold in range(_FOLDS):
        others = folds != fold
        if others.any() and not others.all():
            thresholds[~others] = best_threshold(differences[others], people[others])
    return thresholds


def win_ratios(first: Sequence[str], second: Sequence[str], votes: Votes) -> dict[str, float]:
    """The mean result of each model's pairs: 1, .5 for a tie, or 0 (I2I-Bench, section 3.3)."""
    results: dict[str, list[float]] = {}
    for a, b, vote in zip(first, second, votes, strict=True):
        share = {A: 1.0, B: 0.0}.get(int(vote), 0.5)
        results.setdefault(a, []).append(share)
        results.setdefault(b, []).append(1 - share)
    return {model: math.fsum(of) / len(of) for model, of in results.items()}


def bradley_terry(first: Array, second: Array, votes: Votes, models: int) -> Floats:
    """The strengths of models by Bradley and Terry (1952), with ties by Davidson (1970).

    P(A) is s_A / (s_A + s_B + v sqrt(s_A s_B)), where v tells how frequent ties are. `both_bad` is
    a tie.

    Args:
        first: Number of the model A of each pair (int64, N).
        second: Number of the model B (int64, N).
        votes: The votes (int64, N).
        models: The number of models.

    Returns:
        log(s) on the scale of Elo, 400 for a tenfold chance, with mean 0 (float64, models).

    Raises:
        NotDefined: some models won or lost all their pairs against the others, so that their
            strength has no limit, or a model was in no pair.
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ties = votes >= TIE
    winners, losers = np.where(votes == B, second, first), np.where(votes == B, first, second)
    edges = np.concatenate([winners, losers[ties]]), np.concatenate([losers, winners[ties]])
    graph = csr_array((np.ones(len(edges[0])), edges), shape=(models, models))
    if connected_components(graph, connection="strong", return_labels=False) > 1:
        raise NotDefined("some models won, or lost, all their pairs against the others")
    kinds, counts = np.unique(np.stack([winners, losers, ties]), axis=1, return_counts=True)

    def loss(x: Floats) -> float:
        gap, tie = (x[kinds[0]] - x[kinds[1]]) / 2, x[-1] if ties.any() else -np.inf
        total = np.logaddexp(np.logaddexp(gap, -gap), tie)
        return float(counts @ (total - np.where(kinds[2], tie, gap)))

    fit: Any = minimize(loss, np.zeros(models + 1), method="BFGS")
    strengths: Floats = fit.x[:-1]
    return np.asarray((strengths - strengths.mean()) * _ELO, dtype=np.float64)


def estimate_strengths(pairs: Sequence[Sequence[str]], votes: Votes, clusters: Sequence[Hashable]) -> dict[str, Figure]:
    """The strength of each model with its interval; see `bradley_terry`.

    Args:
        pairs: Model A and model B of each pair.
        votes: The votes (int64, N).
        clusters: The cluster of each pair, for example its source picture.
    """
    number = {model: n for n, model in enumerate(sorted({model for pair in pairs for model in pair}))}
    columns = [np.array([number[pair[side]] for pair in pairs]) for side in (0, 1)]
    strength = partial(bradley_terry, models=len(number))
    statistics = {model: Statistic(lambda *columns, n=n: float(strength(*columns)[n])) for model, n in number.items()}
    return {model: estimate(each, [*columns, votes], clusters) for model, each in statistics.items()}


def rank_models(dimension: str, shares: Mapping[PairKey, float], clusters: Mapping[PairKey, Hashable]) -> PairRanking:
    """Rank models by the share that the edit shown first wins of each pair.

    The share that a model wins of a pair is the mean over both orders, so that a favour for the
    edit shown first cancels out.

    Args:
        shares: 0..1, by pair and order.
        clusters: The cluster of each, for example its source picture.
    """
    means = {
        key: (share + 1 - shares[back]) / 2
        for key, share in shares.items()
        if (back := (key[0], key[2], key[1])) in shares and key[1] < key[2]
    }

    def mean(of: Mapping[PairKey, float], scale: Scale = "share") -> Figure:
        statistic = Statistic(lambda values: float(values.mean()), scale)
        return estimate(statistic, [np.array([*of.values()])], [clusters[key] for key in of])

    votes = vote_by(np.array([*means.values()]) - 0.5)
    strengths = estimate_strengths([key[1:] for key in means], votes, [clusters[key] for key in means])
    wins = {
        model: mean({key: share if key[1] == model else 1 - share for key, share in means.items() if model in key[1:]})
        for model in strengths
    }
    return PairRanking(
        dimension=dimension,
        pairs=len(means),
        ties=int((votes == TIE).sum()),
        first_wins=mean(shares, "plain"),  # both orders of a pair are in one cluster
        wins=dict(sorted(wins.items(), key=lambda each: -(each[1].value or 0.0))),
        strengths=strengths,
    )
