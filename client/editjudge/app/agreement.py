"""How far judges agree: each two with each other, and each with its own rounds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations

import numpy as np

from ..base.errors import ConfigError
from ..base.strict import Strict
from ..benchmarks.cell import standard_deviation
from ..stats.agreement import VALUES, Figure, Statistic, cohen_kappa, equal_share, estimate
from .judge_values import Judge, cluster_items, mean, read_judges
from .view import RunView


class AgreementRow(Strict):
    """How far two judges agree, or one with itself over its rounds.

    Attributes:
        records: Number of edits with a score from each side.
        figures: Statistics by name.
    """

    who: str
    records: int
    figures: dict[str, Figure]


class AgreementTable(Strict):
    """The agreement on one dimension.

    Attributes:
        records: Number of edits with a score of any judge.
        sources: Number of different source pictures among them.
    """

    dimension: str
    records: int
    sources: int
    rows: tuple[AgreementRow, ...]


class Agreement(Strict):
    """`editjudge agreement --json`."""

    tables: tuple[AgreementTable, ...]


def compare_judges(views: Sequence[RunView]) -> Agreement:
    """Compare each two judges of runs, and each judge with itself over its rounds.

    Raises:
        ConfigError: there is a single judge with a single round.
    """
    judges = [judge for view in views for judge in read_judges(view, is_only=len(views) == 1)]
    cluster_of = cluster_items(views)
    tables = []
    for dimension in dict.fromkeys(name for judge in judges for name in judge.values):
        sides = [judge for judge in judges if judge.values.get(dimension)]
        edits = {edit for judge in sides for edit in judge.values[dimension]}
        rows = [_compare_two(a, b, dimension, cluster_of) for a, b in combinations(sides, 2)]
        rows += filter(None, (_compare_rounds(judge, dimension, cluster_of) for judge in sides))
        if rows:
            table = AgreementTable(
                dimension=dimension,
                records=len(edits),
                sources=len({cluster_of(item) for item, _ in edits}),
                rows=tuple(rows),
            )
            tables.append(table)
    if not tables:
        raise ConfigError(
            "there is nothing to compare: one judge, and one round",
            "give another run, or one of several judges or rounds",
        )
    return Agreement(tables=tuple(tables))


def _compare_two(first: Judge, second: Judge, dimension: str, cluster_of: Callable[[str], Hashable]) -> AgreementRow:
    """Compare two judges round by round, or their means where they have not as many rounds."""
    one, other = first.values[dimension], second.values[dimension]
    edits = [edit for edit in one if edit in other]
    rounds = [
        (*pair, cluster_of(edit[0]))
        for edit in edits
        for pair in (
            zip(one[edit], other[edit], strict=True)
            if len(one[edit]) == len(other[edit])
            else [(mean(one[edit]), mean(other[edit]))]
        )
    ]
    columns = [np.array([each[n] for each in rounds]) for n in (0, 1)]
    ends = first.ranges[dimension]
    statistics: Mapping[str, Statistic] = VALUES
    if {*columns[0], *columns[1]} <= {*ends}:
        kappa = Statistic(cohen_kappa, "correlation")
        statistics = {"equal": Statistic(equal_share, "share"), "kappa": kappa}
    clusters = [each[2] for each in rounds]
    figures = {name: estimate(each, columns, clusters) for name, each in statistics.items()}
    return AgreementRow(who=f"{first.name}, {second.name}", records=len(edits), figures=figures)


def _compare_rounds(judge: Judge, dimension: str, cluster_of: Callable[[str], Hashable]) -> AgreementRow | None:
    """Compare a judge with itself: the share of equal edits, and their mean deviation."""
    edits = {edit: of for edit, of in judge.values[dimension].items() if len(of) > 1}
    if not edits:
        return None
    clusters = [cluster_of(item) for item, _ in edits]
    deviations = np.array([standard_deviation(of) for of in edits.values()])
    share = Statistic(lambda d: equal_share(d, np.zeros_like(d)), "share")
    figures = {
        "always_equal": estimate(share, [deviations], clusters),
        "deviation": estimate(Statistic(lambda d: float(d.mean())), [deviations], clusters),
    }
    return AgreementRow(who=f"{judge.name}, its rounds", records=len(edits), figures=figures)
