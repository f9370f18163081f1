"""A judge's mean, corrected by people's ratings of some edits that were drawn at random.

The estimate is the mean of the ratings less a share of what the judge says of the same edits,
compared with what it says of all (PPI++, Angelopoulos et al., 2023). Whatever the judge does, it
estimates the mean that people would give. A good judge makes the interval narrower.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..base.strict import Strict
from .agreement import Figure
from .bootstrap import INTERVAL_RESAMPLES, bootstrap_t
from .clusters import ClusterNames, Clusters, Floats, explain_no_interval, half_width, number_clusters

LEAST_SOURCES = 10
"""With ratings of fewer source pictures there is no interval."""


class AnchoredMean(Strict):
    """What people would say of all edits, estimated from ratings and from a judge's scores.

    Attributes:
        edits: Number of edits that the estimate is about, with and without a score.
        scores: Number of edits with a score.
        ratings: Number of edits with a rating.
        judge: Mean score, on the judge's scale; None without scores.
        people: Mean rating, weighted by the drawing: the estimate without the judge.
        estimate: The estimate with the judge, on the scale of the ratings.
        tuning: How many units of the ratings a unit of the score moves; 0 ignores the judge.
        worth: By how much more ratings would give an equal interval without the judge: 2 stands
            for twice as many. 1 or less is no gain. None without an interval.
    """

    edits: int
    scores: int
    ratings: int
    judge: float | None
    people: Figure
    estimate: Figure
    tuning: float
    worth: float | None


class AnchorRow(Strict):
    """The mean of a model on a dimension, or the difference of two models, anchored to people.

    Attributes:
        model: The model; for a difference the second one, from which the first is subtracted.
        missing_ratings: Number of edits of the sample without a rating.
        figures: The estimate; None where too few edits of the sample have a rating.
    """

    dimension: str
    model: str
    missing_ratings: int
    figures: AnchoredMean | None


class Anchor(Strict):
    """What a file of ratings says of a run, or of two.

    Attributes:
        rows: One for each dimension and model that has ratings.
        notes: What of the file was not used.
    """

    rows: tuple[AnchorRow, ...]
    notes: tuple[str, ...]


def anchor_mean(
    scores: Floats, ratings: Floats, probabilities: Floats, clusters: ClusterNames, *, tuning: float | None = None
) -> AnchoredMean:
    """Estimate the mean rating of N edits from the ratings of some and the scores of most.

    A rating counts with the inverse of the probability of its drawing. An edit without a score
    counts by its rating alone. The weight of the scores minimises the variance over clusters; for
    each cluster it is computed from all others (cross-fitting), so that it cannot flatter itself.

    Args:
        scores: Score of each edit (float64, N); NaN without one.
        ratings: Rating of each edit, or the mean of its raters (float64, N); NaN without one.
        probabilities: Probability in (0, 1] with which each rated edit was drawn (float64, N).
        clusters: The cluster of each edit, for example its source picture.
        tuning: A fixed weight of the scores, instead of the best one.

    Raises:
        ValueError: No edit has a rating, or a probability is outside (0, 1].
    """
    places, is_rated, is_scored = number_clusters(clusters), ~np.isnan(ratings), ~np.isnan(scores)
    y, chances, at = ratings[is_rated], probabilities[is_rated], places[is_rated]
    if not (len(y) and ((chances > 0) & (chances <= 1)).all()):
        raise ValueError("an anchored mean takes ratings, and probabilities in (0, 1]")
    size = int(places.max()) + 1
    judge = float(scores[is_scored].mean()) if is_scored.any() else None
    shifts = np.where(is_scored, scores - (judge or 0.0), 0.0)
    x, weights = shifts[is_rated], 1 / chances / (1 / chances).sum()

    def sum_up(values: Floats) -> Floats:
        return np.bincount(at, values, size).astype(np.float64)

    heavy = sum_up(weights)
    has_rating = heavy > 0

    def leave_out(values: Floats) -> Floats:
        """How far a weighted mean of the rated edits moves without each cluster."""
        rests: Floats = sum_up(weights * (values - weights @ values)) / np.maximum(1 - heavy, 1e-9)
        return rests

    slopes = np.full(size, tuning or 0.0)
    if tuning is None:
        distances = leave_out(x)
        products, squares = leave_out(y) * distances, distances**2
        rest = squares.sum() - squares
        is_usable = rest > 1e-12 * squares.sum()
        slopes = np.divide(products.sum() - products, rest, out=np.zeros(size), where=is_usable)
    slope = float(weights @ slopes[at])
    everywhere = slope * np.bincount(places, shifts, size) / len(scores)

    def weigh(values: Floats, elsewhere: Floats) -> tuple[Figure, float]:
        """The weighted mean with its interval, and its standard error."""
        sums = Clusters(sum_up(weights * values)[has_rating], heavy[has_rating])
        moves = leave_out(values) + elsewhere
        inside, outside = (float((moves[part] ** 2).sum()) for part in (has_rating, ~has_rating))
        error = math.sqrt((sums.count - 1) / sums.count * inside + outside)
        reason = explain_no_interval(sums, float(np.abs(y).max()))
        if sums.count < LEAST_SOURCES:
            reason = f"only {sums.count} source pictures have ratings; {LEAST_SOURCES} are the least"
        low, high = (None, None) if reason else _find_ends(sums, error)
        return Figure(value=sums.value, low=low, high=high, reason=reason), error

    estimate, error = weigh(y - slopes[at] * x, everywhere)
    people, error_alone = weigh(y, np.zeros(size))
    return AnchoredMean(
        edits=len(scores),
        scores=int(is_scored.sum()),
        ratings=len(y),
        judge=judge,
        people=people,
        estimate=estimate,
        tuning=slope,
        worth=None if estimate.reason or not error else (error_alone / error) ** 2,
    )


def _find_ends(of: Clusters, error: float) -> tuple[float, float]:
    """Return Student's interval, or the bootstrap-t's ends where they are farther away."""
    half = half_width(error, of.freedom)
    ends = [of.value - half, of.value + half]
    if of.is_skewed and of.error:
        result = bootstrap_t(of.sums[None], of.counts, INTERVAL_RESAMPLES, tests_zero=False)
        others = [of.value + error / of.error * (float(end[0]) - of.value) for end in (result.low, result.high)]
        ends += others if np.isfinite(others).all() else []
    return min(ends), max(ends)


def draw_items(clusters: ClusterNames, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw items at random, spread over clusters: each has the probability `count` / N.

    Clusters are put into a random order, and so are the items of each. Every (N / count)-th item is
    drawn, from a random start. So a cluster gives at most one item more than its share.

    Args:
        clusters: The cluster of each of N items.
        count: How many are drawn, from 1 to N.

    Returns:
        The places of the drawn items, in order (int64, count).
    """
    places = number_clusters(clusters)
    keys = rng.permutation(int(places.max()) + 1)[places]
    order = np.lexsort((rng.random(len(places)), keys))
    step = len(places) / count
    picks = np.minimum((rng.random() + np.arange(count)) * step, len(places) - 1)
    return np.sort(order[picks.astype(np.int64)])
