"""The papers' own comparisons with people, as `studies.toml` declares them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from ..base.parse import package_tables
from ..base.strict import FrozenModel
from ..base.text import group_by_key
from ..stats.preferences import VOTES
from .agreement import Agreement, AgreementTable, Unit
from .human_agreement import measure_agreement
from .ratings import Rating, Ratings
from .view import RunView


class Study(FrozenModel):
    """A paper's comparison with people; `studies.toml` says what each field means."""

    source: str
    unit: Unit
    statistics: tuple[str, ...]
    words: Mapping[str, float] = {}
    scale: tuple[float, float] = (-np.inf, np.inf)
    ranks: bool = False
    by_category: bool = False
    averages: bool = False
    signs: bool = False
    matches: Mapping[str, tuple[str, ...]] = {}
    checker: str = ""
    gate: float = 0.0
    unsaid: str


STUDIES = {name: Study.model_validate(each) for name, each in package_tables(__package__, "studies.toml").items()}


def measure_study(
    views: Sequence[RunView], people: Ratings, study: Study, matches: Mapping[str, Sequence[str]] = {}, **options: Any
) -> Agreement:
    """Compare the judges of runs with people as a paper did.

    Args:
        matches: Further dimensions for names that people's files use.
        options: As of `measure_agreement`.

    Raises:
        ConfigError: as `measure_agreement`.
    """
    low, high = study.scale
    odd = [r for r in people.ratings if not low <= r.value <= high]
    ratings = [r for r in people.ratings if low <= r.value <= high and r.rater != study.checker]
    votes = [v for v in people.votes if not study.checker or v.rater != study.checker]
    ratings = [*_rank(ratings)] if study.ranks else ratings
    categories: list[str | None] = [*sorted({r.category for r in (*ratings, *votes)})] if study.by_category else []
    tables: list[AgreementTable] = []
    for category in categories or [None]:
        own: list[list[Any]] = [[r for r in some if category in {None, r.category}] for some in (ratings, votes)]
        part = replace(people, ratings=own[0], votes=own[1])
        result = measure_agreement(views, part, matches={**study.matches, **matches}, **options)
        tables += [_narrow(table, study, category or "") for table in result.tables if table.unit == study.unit]
    odd_ones = [f"item {r.item}, rater {r.rater}: {r.value:g} is not from {low:g} to {high:g}" for r in odd]
    sentences = (
        *result.sentences,
        *_check_labels(people, study),
        *_average(tables, study),
        *_compare_signs(tables, study),
        study.unsaid,
    )
    parts = {"tables": tuple(tables), "sentences": sentences, "problems": (*result.problems, *odd_ones)}
    return result.model_copy(update=parts | {"differences": ()})


def _rank(ratings: Sequence[Rating]) -> Iterator[Rating]:
    """Replace each rater's answers on an item by their ranks, the best being -1 and the worst -n."""
    from scipy.stats import rankdata

    for own in group_by_key(((r.item, r.dimension, r.rater), r) for r in ratings).values():
        for rating, rank in zip(own, rankdata([-r.value for r in own]), strict=True):
            yield rating.model_copy(update={"value": -float(rank)})


def _narrow(table: AgreementTable, study: Study, category: str) -> AgreementTable:
    rows = [
        row.model_copy(update={"figures": {n: row.figures[n] for n in study.statistics if n in row.figures}})
        for row in table.rows
    ]
    name = ", ".join(filter(None, (table.dimension, category)))
    return table.model_copy(update={"dimension": name, "rows": tuple(rows), "strengths": {}, "categories": {}})


def _average(tables: Sequence[AgreementTable], study: Study) -> Iterator[str]:
    """Say what each judge reaches on average over dimensions, without those that have no value."""
    rows = [row for table in tables for row in table.rows if row.kind == "judge"] if study.averages else []
    for name in study.statistics:
        for who, figures in group_by_key((row.who, row.figures[name]) for row in rows).items():
            if values := [figure.value for figure in figures if figure.value is not None]:
                yield f"{who}: {name} {fmean(values):.4f}, the mean over {len(values)} of {len(figures)} dimensions"


def _compare_signs(tables: Sequence[AgreementTable], study: Study) -> Iterator[str]:
    """Say how each judge and people order two models."""
    for table in tables if study.signs else ():
        for side in (s for s in table.sides if s.kind == "judge" and len(s.keys) == 2):
            first, second = (key[1] for key in side.keys)
            gaps = [a - b for a, b in (side.values, side.people)]
            signs = [">" if gap > 0 else "<" if gap < 0 else "=" for gap in gaps]
            texts = [f"{a:.4f} {sign} {b:.4f}" for sign, (a, b) in zip(signs, (side.values, side.people), strict=True)]
            order = "the same order" if signs[0] == signs[1] else "another order"
            yield f"{table.dimension}, {first} and {second}: {side.who} {texts[0]}, people {texts[1]}: {order}"


def _check_labels(people: Ratings, study: Study) -> Iterator[str]:
    """Say how often each rater's votes differ from those of the checker on the same pairs."""
    key = [((v.item, v.model_a, v.model_b, v.dimension), v) for v in people.votes]
    checks = {k: VOTES.index(v.vote) for k, v in key if study.checker and v.rater == study.checker}
    others = (((v.dimension, v.rater), VOTES.index(v.vote) != checks[k]) for k, v in key if k in checks)
    for (dimension, rater), differ in group_by_key(others).items():
        if rater != study.checker:
            share = sum(differ) / len(differ)
            whole = sum((v.dimension, v.rater) == (dimension, rater) for _, v in key)
            label_count = f"{len(differ)} checked labels ({len(differ) / whole:.0%} of all)"
            verdict = "label all of them again" if share > study.gate else "good enough"
            yield f"{dimension or 'all'}, {rater}: {share:.1%} of {label_count} differ: {verdict}"
