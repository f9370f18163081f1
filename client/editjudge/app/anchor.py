"""The means of a run's models, and their differences, anchored to people's ratings of a sample."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from statistics import fmean

import numpy as np

from ..base.errors import InputError
from ..base.text import format_count, group_by_key
from ..stats.anchor import Anchor, AnchorRow, anchor_mean
from .judge_values import Edit, cluster_items
from .label_studio import control_name
from .rating_sample import choose_dimensions, read_scores
from .ratings import Rating, read_ratings
from .view import RunView

LEAST_ANSWERS = 0.9
"""Share of a sample that must have ratings; those who leave edits out do not do it by chance."""


def anchor_models(view: RunView, file: Path, patterns: Iterable[str] = (), models: Collection[str] = ()) -> Anchor:
    """Anchor the mean of each model of a run on each dimension that people rated.

    Args:
        file: Ratings of a sample that `write_sample` wrote.
        patterns: Dimensions; by default all.
        models: Names of models; by default all.

    Raises:
        ConfigError: a pattern names no dimension.
        InputError: the file rates nothing of the run, or does not say how its edits were drawn.
    """
    sample = _Sample(view, file, tuple(patterns))
    scores, _ = read_scores(view, sample.values)
    rows = (
        sample.estimate(name, model, _of_model(scores[name], model), _of_model(ratings, model))
        for name, ratings in sample.values.items()
        for model in models or view.header.outputs
    )
    return Anchor(rows=tuple(filter(None, rows)), notes=sample.notes)


def anchor_difference(
    first: tuple[RunView, str], second: tuple[RunView, str], file: Path, patterns: Iterable[str] = ()
) -> Anchor:
    """Anchor the differences of two models, second minus first, over the items that both have.

    See `anchor_models`. Scores need not have the same signature here: ratings correct them.
    """
    (view, model), (other_view, other) = first, second
    sample = _Sample(view, file, tuple(patterns))
    names = [name for name in sample.values if name in other_view.header.dimensions]
    mine, theirs = (read_scores(each, names)[0] for each in (view, other_view))
    changed_items = frozenset() if other_view is view else view.changed_items(other_view)
    rows = []
    for name in names:
        scores, people = (
            {item: b[item] - a[item] for item in a.keys() & b.keys() - changed_items}
            for one, two in ((mine[name], theirs[name]), (sample.values[name],) * 2)
            for a, b in [(_of_model(one, model), _of_model(two, other))]
        )
        rows.append(sample.estimate(name, other, dict(sorted(scores.items())), people))
    return Anchor(rows=tuple(filter(None, rows)), notes=sample.notes)


def _of_model(values: Mapping[Edit, float], model: str) -> dict[str, float]:
    return {item: value for (item, of), value in values.items() if of == model}


class _Sample:
    """The ratings of a file, of a sample that was drawn at random.

    Attributes:
        values: The mean rating of each edit, by dimension.
        notes: What of the file was not used.
    """

    def __init__(self, view: RunView, file: Path, patterns: tuple[str, ...]) -> None:
        read = read_ratings([file])
        ids = {spelling: name for name in choose_dimensions(view, patterns) for spelling in (name, control_name(name))}
        items = {ref.id for ref in view.resolved_spec.dataset.items()}
        ratings = [each for each in read.ratings if each.dimension in ids and each.item in items]
        others = 0 if patterns else len(read.ratings) - len(ratings)
        note = f"{format_count(others, 'rating is', 'ratings are')} of other items or dimensions"
        self.notes = (*read.problems[:1], *[note] * bool(others))
        if not ratings:
            there = ", ".join(sorted({each.dimension or "none" for each in read.ratings}))
            raise InputError(str(file), f"it rates no edit of {view.folder}", f"its dimensions: {there}")
        self._draws: dict[str, Rating] = {each.item: each for each in ratings}
        self._size = sum({each.stratum: each.sample_size or 0 for each in ratings}.values())
        if not all(each.probability and each.sample_size for each in ratings):
            why = (
                "it does not say how its edits were drawn: it lacks probability and sample_size. Where people rate"
                " what the judge scored lowest, for example, an interval would be wrong"
            )
            raise InputError(str(file), why, "draw the edits to rate by editjudge ratings draw")
        if (count := len(self._draws)) > self._size:
            why = f"it rates {format_count(count, 'item')}, but {self._size} were drawn"
            raise InputError(str(file), why, "give the ratings of one sample")
        self._cluster_of = cluster_items([view])
        self.values: dict[str, dict[Edit, float]] = {}
        by_edit = group_by_key(((ids[each.dimension], each.item, each.model), each.value) for each in ratings)
        for (name, item, model), values in by_edit.items():
            self.values.setdefault(name, {})[item, model] = fmean(values)

    def estimate(
        self, dimension: str, model: str, scores: Mapping[str, float], ratings: Mapping[str, float]
    ) -> AnchorRow | None:
        """Estimate the mean over the edits of `scores`; None where none of them has a rating.

        Args:
            scores: The score of each item; NaN where it has none.
            ratings: The ratings by item; those of other items do not count.
        """
        if not (count := len(ratings.keys() & scores.keys())):
            return None
        missing = sum(item in scores and item not in ratings for item in self._draws) + self._size - len(self._draws)
        figures = None
        if count >= LEAST_ANSWERS * (count + missing):
            draws = map(self._draws.get, scores)
            columns = scores.values(), map(ratings.get, scores), (draw and draw.probability for draw in draws)
            values, people, chances = (np.array([*column], dtype=np.float64) for column in columns)
            figures = anchor_mean(values, people, chances, [self._cluster_of(item) for item in scores])
        return AnchorRow(dimension=dimension, model=model, missing_ratings=missing, figures=figures)
