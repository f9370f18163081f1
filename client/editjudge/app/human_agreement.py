"""How far judges agree with people, per edit, per pair and per model.

Beside each judge stand people themselves, each rater against the others; constant answers; random
ones; and a trivial judge, the similarity of an edit with its source. A judge that does not beat
these measures nothing.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..base.errors import ConfigError, EditjudgeError
from ..base.text import format_count, group_by_key
from ..stats import agreement as stats
from ..stats import preferences
from ..stats.agreement import Array, Figure, Level, Statistic
from ..stats.clusters import Floats
from ..stats.preferences import BOTH_BAD, TIE, VOTE_STATISTICS, VOTES, A, B, TieRule, vote_by
from .agreement import Agreement, AgreementRow, AgreementTable, JudgeDifference, RaterAgreement, Unit
from .judge_values import Kind, Rater, cluster_items, match_dimension, measure_similarity, read_judges, reweigh_judge
from .ratings import Rating, Ratings, VoteRecord
from .view import RunView

Key: TypeAlias = tuple[str, ...]
"""A record, with its item first: an edit; a pair, whose models are ("", "") where the file does not
say; or ("", model)."""
ChosenThreshold: TypeAlias = Literal["cross-validated", "best"]
Threshold: TypeAlias = ChosenThreshold | float
_UNITS: Mapping[Unit, tuple[str, Mapping[str, Statistic]]] = {
    "edit": ("spearman", stats.VALUES),
    "pair": ("", VOTE_STATISTICS),
    "model": ("pearson", stats.CORRELATIONS),
}
"""The statistic that compares two judges (of pairs it is the rule for ties), and all of them."""


def measure_agreement(
    views: Sequence[RunView],
    people: Ratings,
    *,
    matches: Mapping[str, Sequence[str]] = {},
    ties: TieRule = "tie_as_half",
    threshold: Threshold = "cross-validated",
    trivial: bool = True,
    survey: Ratings | None = None,
) -> Agreement:
    """Compare the judges of runs, and stored ones, with people.

    Args:
        views: Runs; each is a judge by the name of its folder, and so is each of its judges where
            it has several.
        people: Ratings and votes, and the votes of stored judges.
        matches: The run's dimensions for a name that people's files use; each is compared.
        ties: The rule for ties that compares judges.
        threshold: The largest difference of two scores that is a tie, by rules where a tie can be
            right: a number, chosen on other sources, or the best on these pairs.
        trivial: Whether the pictures of the first run are read for the trivial judge.
        survey: The importance that people gave to parts of the judges' numbers. Each run is a further judge
            by these weights.

    Raises:
        ConfigError: people's files name a dimension that no run has, or nothing can be compared.
    """
    judges = [judge for view in views for judge in read_judges(view, with_mean=True)]
    judges += [reweigh_judge(view, survey.ratings) for view in views if survey]
    own_votes = [[vote[:3] for vote in judge.votes] for judge in judges]  # what a run imported stands there once
    others = {name: of for name, of in people.judges.items() if [vote[:3] for vote in of] not in own_votes}
    judges += [Rater(name, votes=votes) for name, votes in others.items()]
    ids = sorted({name for judge in judges for name in judge.values})
    records = (*people.ratings, *people.votes)
    sources = {r.item: r.source for r in records if r.source}
    notes: list[str] = []
    if views and trivial:
        try:
            edits = {(r.item, r.model) for r in people.ratings}
            edits |= {(r.item, m) for r in people.votes for m in (r.model_a, r.model_b)}
            judges.append(measure_similarity(views[0], edits))
        except EditjudgeError as error:
            notes.append(f"SSIM with the source is left out: {error}")
    tasks = {item: task for judge in judges for item, task in judge.tasks.items()}
    tasks |= {r.item: r.category for r in records if r.category}
    comparison = _Comparison(judges, cluster_items(views, sources), tasks, ties, threshold)
    names = dict.fromkeys(record.dimension for record in records)
    own_names = {n: [d for there in matches.get(n, [n]) for d in match_dimension(n, ids, there)] for n in names}
    for dimension in dict.fromkeys(each for of in own_names.values() for each in of):
        parts: list[list[Any]] = [
            [r for r in part if dimension in own_names[r.dimension]] for part in (people.ratings, people.votes)
        ]
        comparison.add(dimension, *parts)
    if not any(row.kind == "judge" for table in comparison.tables for row in table.rows):
        raise ConfigError(
            "no edit that people answered has a number of a judge",
            "compare their items and models with: editjudge export RUN --wide",
        )
    parts_of_result = {name: tuple(getattr(comparison, name)) for name in ("tables", "differences", "raters")}
    importance = group_by_key((rating.dimension, rating.value) for rating in (survey.ratings if survey else ()))
    sentences = [
        f"importance of {name}: {fmean(of):.3f} by {format_count(len(of), 'answer')}" for name, of in importance.items()
    ]
    problems = (*people.problems, *(survey.problems if survey else ()))
    return Agreement(**parts_of_result, sentences=tuple(sentences), problems=problems, notes=tuple(notes))


class Side(NamedTuple):
    """Answers beside people's on the same records.

    Attributes:
        keys: The records; one that was shown in both orders comes twice.
        values: The answers (N).
        people: People's answers (N).
        others: The answers that some statistics take instead, by their names.
        figures: Statistics that are not made of these.
    """

    who: str
    kind: Kind
    keys: Sequence[Key]
    values: Array
    people: Array
    others: Mapping[str, Array] = {}
    figures: Mapping[str, Figure] = {}


@dataclass
class _Comparison:
    """Collects the tables of all dimensions."""

    judges: Sequence[Rater]
    cluster_of: Callable[[str], Hashable]
    tasks: Mapping[str, str]
    ties: TieRule
    threshold: Threshold
    tables: list[AgreementTable] = field(default_factory=list)
    differences: list[JudgeDifference] = field(default_factory=list)
    raters: list[RaterAgreement] = field(default_factory=list)

    def add(self, dimension: str, ratings: Sequence[Rating], votes: Sequence[VoteRecord]) -> None:
        """Add the tables of a dimension."""
        pairs = _group_votes(votes)
        if ratings:
            by_edit: dict[Key, list[float]] = group_by_key(((r.item, r.model), r.value) for r in ratings)
            means = {edit: fmean(by_edit[edit]) for edit in sorted(by_edit)}
            self._add_edits(dimension, by_edit, means)
            self._add_models(dimension, _mean_by_model(means), means)
            pairs = pairs or _pairs_of(means)
        if pairs:
            self._add_pairs(dimension, pairs, has_sides=bool(votes))
        if votes:
            labels = {key: _majority(of) for key, of in pairs.items() if key[1] != key[2]}
            of_pairs = [n for _, n, _ in labels], [n for *_, n in labels]
            ratios = preferences.win_ratios(*of_pairs, np.array([*labels.values()]))
            self._add_models(
                dimension,
                {("", model): ratio for model, ratio in ratios.items()},
                [(item, model) for item, *models in labels for model in models],
            )
        self._add_raters(dimension, ratings, votes)

    def _estimate_all(
        self, statistics: Mapping[str, Statistic], columns: Sequence[Array], keys: Iterable[Key]
    ) -> dict[str, Figure]:
        clusters = [self.cluster_of(key[0]) for key in keys]
        return {name: stats.estimate(each, columns, clusters) for name, each in statistics.items()}

    def _add_edits(self, dimension: str, by_edit: Mapping[Key, Sequence[float]], means: Mapping[Key, float]) -> None:
        people, keys = np.array([*means.values()]), [*means]
        sides = []
        for judge in self.judges:
            values = judge.read(dimension)
            low, high = judge.ranges.get(dimension, (math.inf, -math.inf))
            is_on_scale = low <= people.min() and people.max() <= high
            why = Figure(value=None, reason="its scale is not people's")
            figures = {} if is_on_scale else dict.fromkeys(("mae", "rmse"), why)
            sides.append(_side(judge.name, judge.kind, values, means, figures=figures))
        sides += _against_the_rest(by_edit, fmean, [side for side in sides if side.kind == "judge"])
        constant = np.full(len(people), people.mean())  # the least RMSE; the median has the least MAE
        others = {"mae": np.full(len(people), np.median(people))}
        sides.append(Side("the best constant", "constant", keys, constant, people, others))
        # The mean absolute and the mean squared difference of all pairings.
        mae = 2 * float(np.sort(people) @ (2 * np.arange(len(people)) - len(people) + 1)) / len(people) ** 2
        at = {**dict.fromkeys(stats.CORRELATIONS, 0.0), "mae": mae, "rmse": math.sqrt(2) * float(people.std())}
        chance = {name: Figure(value=value) for name, value in at.items()}
        sides.append(Side("people's ratings, shuffled", "random", keys, people, people, figures=chance))
        self._add_table(dimension, "edit", means, sides)

    def _add_models(self, dimension: str, people: Mapping[Key, float], edits: Collection[Key]) -> None:
        sides = []
        for judge in self.judges:
            values = judge.read(dimension)
            own = _mean_by_model({edit: values[edit] for edit in edits if edit in values})
            if len(own.keys() & people.keys()) >= 2:
                sides.append(_side(judge.name, judge.kind, own, people))
        if sides:
            self._add_table(dimension, "model", people, sides, items={item for item, _ in edits})

    def _add_pairs(self, dimension: str, pairs: Mapping[Key, Sequence[int]], *, has_sides: bool) -> None:
        labels = {key: _majority(votes) for key, votes in pairs.items()}
        by_item = group_by_key((key[0], key) for key in pairs)
        people, keys = np.array([*labels.values()]), [*labels]
        sides = []
        for judge in self.judges:
            if judge.votes:
                read = [
                    (key, VOTES.index(vote.vote), vote.is_swapped)
                    for vote in judge.votes
                    for key in by_item.get(vote.item, ())
                    if vote.vote
                ]
                vote_keys = [key for key, *_ in read]
                votes = np.array([vote for _, vote, _ in read])
                truth = np.array([labels[key] for key in vote_keys])
                side = Side(judge.name, judge.kind, vote_keys, votes, truth, figures=_measure_order(read))
            else:
                values = judge.read(dimension)
                gaps = {
                    key: values[key[0], key[1]] - values[key[0], key[2]]
                    for key in pairs
                    if (key[0], key[1]) in values and (key[0], key[2]) in values
                }
                side = self._decide(_side(judge.name, judge.kind, gaps, labels))
            sides.append(side)
        sides += _against_the_rest(pairs, _majority, [side for side in sides if side.kind == "judge"])
        for vote in (*([A, B] if has_sides else []), TIE, *([BOTH_BAD] * (BOTH_BAD in people))):
            always = np.full(len(people), vote)
            sides.append(Side(f"always {VOTES[vote]}", "constant", keys, always, people))
        chance = {n: Figure(value=by) for n, of in VOTE_STATISTICS.items() if (by := of.by_chance) is not None}
        sides.append(Side("random", "random", keys, people, people, figures=chance))
        at = self.threshold if isinstance(self.threshold, str) else f"{self.threshold:g}"
        strengths = self._measure_strengths(labels)
        self._add_table(dimension, "pair", labels, sides, self.ties, threshold=at, strengths=strengths)

    def _decide(self, side: Side) -> Side:
        """Turn differences of scores into votes, by the threshold where a rule has ties."""
        gaps = side.values
        at: float | Floats
        if not len(gaps):
            return side
        if self.threshold == "cross-validated":
            clusters = [self.cluster_of(key[0]) for key in side.keys]
            at = preferences.cross_validated_thresholds(gaps, side.people, clusters)
        else:
            best = self.threshold == "best"
            at = preferences.best_threshold(gaps, side.people) if best else float(self.threshold)
        others = dict.fromkeys((*preferences.RULES_WITH_TIES, "kappa"), vote_by(gaps, at))
        return side._replace(values=vote_by(gaps), others=others)

    def _measure_strengths(self, labels: Mapping[Key, int]) -> dict[str, Figure]:
        keys = [key for key in labels if key[1] != key[2]]
        votes = np.array([labels[key] for key in keys])
        return preferences.estimate_strengths([key[1:] for key in keys], votes, [self.cluster_of(k[0]) for k in keys])

    def _add_raters(self, dimension: str, ratings: Sequence[Rating], votes: Sequence[VoteRecord]) -> None:
        levels: tuple[Level, ...] = ("ordinal", "interval") if ratings else ("nominal",)
        answers: list[tuple[Key, float]] = [((r.item, r.model), r.value) for r in ratings]
        answers = answers or [(k, float(v)) for k, of in _group_votes(votes).items() for v in of]
        keys = [key for key, _ in answers]
        number = {key: n for n, key in enumerate(dict.fromkeys(keys))}
        columns = np.array([value for _, value in answers]), np.array([number[key] for key in keys])
        of: dict[str, Statistic] = {
            n: Statistic(partial(stats.krippendorff_alpha, level=n), ends=(-math.inf, 1.0)) for n in levels
        }
        alpha = self._estimate_all(of, columns, keys)
        raters = len({record.rater for record in (*ratings, *votes)})
        self.raters.append(RaterAgreement(dimension=dimension, raters=raters, answers=len(answers), alpha=alpha))

    def _add_table(
        self,
        dimension: str,
        unit: Unit,
        people: Mapping[Key, float],
        sides: Iterable[Side],
        main: str = "",
        items: Collection[str] = (),
        **more: Any,
    ) -> None:
        """Add a table, and compare each two judges on the records that both answered.

        Args:
            items: The items behind the records; by default those that they name.
        """
        first_statistic, statistics = _UNITS[unit]
        main = main or first_statistic
        sides = [side for side in sides if len(side.keys)]
        rows = []
        for side in sides:
            figures: dict[str, Figure] = {}
            for name, each in statistics.items() if side.kind != "random" else ():
                columns = side.others.get(name, side.values), side.people
                if unit == "model":
                    figures[name] = stats.correlation_of_few(each, *columns)
                elif name not in side.figures:
                    figures |= self._estimate_all({name: each}, columns, side.keys)
            figures |= side.figures
            share = len({*side.keys}) / len(people) if side.kind in {"judge", "trivial"} else None
            count = len(side.keys)
            rows.append(AgreementRow(who=side.who, kind=side.kind, records=count, coverage=share, figures=figures))
        sources = len({self.cluster_of(i) for i in items or (key[0] for key in people)})
        where: dict[str, Any] = {"dimension": dimension, "unit": unit}
        more |= where | {"sides": sides, "records": len(people), "sources": sources}
        categories = self._split(sides, statistics[main], main) if unit != "model" else {}
        self.tables.append(AgreementTable(main=main, rows=tuple(rows), categories=categories, **more))
        alone = [s for s in sides if s.kind == "judge" and len({*s.keys}) == len(s.keys)]
        for one, other in combinations(alone, 2) if unit != "model" else ():
            values = [dict(zip(side.keys, side.others.get(main, side.values), strict=True)) for side in (one, other)]
            if not (common := [key for key in values[0] if key in values[1]]):
                continue
            three = [np.array([side[key] for key in common]) for side in (*values, people)]
            function = statistics[main].function
            gap = Statistic(lambda a, b, p, agree=function: agree(a, p) - agree(b, p))
            names = {"first": one.who, "second": other.who}
            difference = self._estimate_all({main: gap}, three, common)[main]
            text = _describe_difference(one.who, other.who, f"by {main} over {len(common):,} {unit}s", difference)
            facts = where | names | {"statistic": main, "records": len(common), "sentence": text}
            self.differences.append(JudgeDifference(difference=difference, **facts))

    def _split(self, sides: Iterable[Side], statistic: Statistic, name: str) -> dict[str, dict[str, Figure]]:
        """The statistic of each judge by category; empty where there is one category only."""
        by_judge = {}
        for side in (s for s in sides if s.kind in {"judge", "trivial"}):
            tasks = np.array([self.tasks.get(key[0], "") for key in side.keys])
            columns = side.others.get(name, side.values), side.people
            clusters = [self.cluster_of(key[0]) for key in side.keys]
            parts = {str(task): np.flatnonzero(tasks == task) for task in np.unique(tasks)}
            by_judge[side.who] = {
                task: stats.estimate(statistic, [c[own] for c in columns], [clusters[n] for n in own])
                for task, own in parts.items()
            }
        return by_judge if any(len(each) > 1 for each in by_judge.values()) else {}


def _side(
    who: str, kind: Kind, values: Mapping[Any, float], people: Mapping[Key, float], figures: Mapping[str, Figure] = {}
) -> Side:
    keys = [key for key in people if key in values]
    judge_values, people_values = (np.array([side[key] for key in keys]) for side in (values, people))
    return Side(who, kind, keys, judge_values, people_values, figures=figures)


def _against_the_rest(
    answers: Mapping[Key, Sequence[float]], join: Callable[[Sequence[Any]], float], judges: Sequence[Side]
) -> list[Side]:
    """Return each rater, then each judge, against what the other raters say together.

    A judge that is as good as a rater has the rater's figures, in expectation.
    """
    rests = {key: [join([*of[:n], *of[n + 1 :]]) for n in range(len(of))] for key, of in answers.items() if len(of) > 1}
    keys = [key for key, of in rests.items() for _ in of]
    own, others = (np.array([v for key in rests for v in of[key]]) for of in (answers, rests))
    sides = [Side("a rater against the others", "people", keys, own, others)]
    for judge in judges:
        at = [(n, rest) for n, key in enumerate(judge.keys) for rest in rests.get(key, ())]
        places = np.array([n for n, _ in at], int)
        sides.append(
            Side(
                f"{judge.who} in a rater's place",
                "people",
                [judge.keys[n] for n in places],
                judge.values[places],
                np.array([rest for _, rest in at]),
                {name: of[places] for name, of in judge.others.items()},
                {name: of for name, of in judge.figures.items() if of.value is None},
            )
        )
    return sides


def _mean_by_model(values: Mapping[Key, float]) -> dict[Key, float]:
    by_model = group_by_key((("", key[1]), value) for key, value in values.items())
    return {model: fmean(of) for model, of in by_model.items()}


def _group_votes(votes: Iterable[VoteRecord]) -> dict[Key, list[int]]:
    """Group the votes of raters by pair, with the sides as they are first; both orders are one."""
    by_pair: dict[Key, list[int]] = defaultdict(list)
    for one in votes:
        vote = VOTES.index(one.vote)
        first, second = one.model_a, one.model_b
        if first != second and (one.item, second, first) in by_pair:
            first, second, vote = second, first, {A: B, B: A}.get(vote, vote)
        by_pair[one.item, first, second].append(vote)
    return by_pair


def _pairs_of(means: Mapping[Key, float]) -> dict[Key, list[int]]:
    """Make the pairs that ratings decide: the edit with the higher mean is the better one."""
    pairs: dict[Key, list[int]] = {}
    for item, models in group_by_key((key[0], key[1]) for key in means).items():
        for first, second in combinations(sorted(models), 2):
            gap = np.array([means[item, first] - means[item, second]])
            pairs[item, first, second] = [int(vote_by(gap)[0])]
    return pairs


def _majority(votes: Sequence[int]) -> int:
    """The most frequent vote; a tie where two are as frequent."""
    (vote, count), *others = Counter(votes).most_common(2)
    return TIE if others and others[0][1] == count else vote


def _measure_order(read: Sequence[tuple[Key, int, bool]]) -> dict[str, Figure]:
    """The share of votes for the edit shown first, and of pairs with one vote in both orders."""
    if not any(is_swapped for *_, is_swapped in read):
        return {}
    first = [vote == (B if is_swapped else A) for _, vote, is_swapped in read if vote < TIE]
    orders: dict[Key, dict[bool, int]] = defaultdict(dict)
    for key, vote, is_swapped in read:
        orders[key][is_swapped] = vote
    same = [of[True] == of[False] for of in orders.values() if len(of) > 1]
    shares = {"first": first, "same_when_swapped": same}
    return {name: Figure(value=fmean(of)) for name, of in shares.items() if of}


def _describe_difference(first: str, second: str, about: str, of: Figure) -> str:
    if of.value is None or of.low is None or of.high is None:
        return f"{first} and {second} cannot be compared {about}: {of.reason}"
    ends = f"{of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
    if of.low <= 0 <= of.high:
        return f"{first} and {second} cannot be told apart {about}: {ends}"
    better, worse = (first, second) if of.value > 0 else (second, first)
    return f"{better} agrees with people better than {worse} {about}: {ends}"
