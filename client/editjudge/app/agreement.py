"""How far judges agree: what is found, and the agreement of judges with each other.

Each two judges are compared, and each judge with its own rounds.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from ..base.errors import ConfigError
from ..base.strict import Strict
from ..benchmarks.cell import standard_deviation
from ..stats.agreement import VALUES, Figure, Statistic, cohen_kappa, equal_share, estimate
from .judge_values import Kind, Rater, cluster_items, read_judges
from .view import RunView

Unit: TypeAlias = Literal["edit", "pair", "model"]


class AgreementRow(Strict):
    """How far one judge, or what stands beside judges, agrees with people, or two judges agree.

    Attributes:
        who: Name of the judge, or of what stands beside judges.
        kind: `judge`, `people`, or a baseline: `constant`, `random` or `trivial`.
        records: Number of edits, pairs or models with both sides.
        coverage: Share of people's edits or pairs on which it has an answer.
        figures: Statistics by name.
    """

    who: str
    kind: Kind = "judge"
    records: int
    coverage: float | None = None
    figures: dict[str, Figure]


class AgreementTable(Strict):
    """The agreement on one dimension.

    Attributes:
        rows: One for each judge and each of what stands beside judges.
        unit: What a record is.
        records: Number of records that people answered; without people, those of any judge.
        sources: Number of different source pictures among them.
        threshold: How the threshold was chosen up to which a judge's difference is a tie.
        main: The statistic that compares judges.
        strengths: Of pairs, the strength of each model by people (Bradley-Terry, Elo scale).
        categories: The main statistic of each judge by the category of the edit, where there are several.
        sides: The answers behind the rows, for the page; not printed.
    """

    dimension: str
    unit: Unit
    records: int
    sources: int
    threshold: str = ""
    main: str
    rows: tuple[AgreementRow, ...]
    strengths: Mapping[str, Figure] = Field(default_factory=dict)
    categories: Mapping[str, Mapping[str, Figure]] = Field(default_factory=dict)
    sides: Any = Field(default=(), exclude=True)


class JudgeDifference(Strict):
    """Two judges against the same people, on the records that both answered.

    Attributes:
        unit: What a record is.
        statistic: Name of the statistic that is compared.
        first: Name of the first judge.
        second: Name of the second judge.
        records: Number of records that both judges answered.
        difference: The first judge's statistic minus the second's.
        sentence: The result in words.
    """

    dimension: str
    unit: Unit
    statistic: str
    first: str
    second: str
    records: int
    difference: Figure
    sentence: str


class RaterAgreement(Strict):
    """How far people agree with each other on one dimension: Krippendorff's alpha by level.

    Attributes:
        raters: Number of people.
        answers: Number of their answers.
        alpha: Krippendorff's alpha by level of measurement, at most 1.
    """

    dimension: str
    raters: int
    answers: int
    alpha: dict[str, Figure]


class Agreement(Strict):
    """`editjudge agreement --json`.

    Attributes:
        tables: One for each dimension.
        differences: Each two judges against the same people.
        raters: How far people agree, by dimension; empty for a single rater.
        sentences: What a study says besides.
        problems: Records that are left out, each with its place.
        notes: What is missing beside the judges, and why.
    """

    tables: tuple[AgreementTable, ...]
    differences: tuple[JudgeDifference, ...] = ()
    raters: tuple[RaterAgreement, ...] = ()
    sentences: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


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
            counts: dict[str, Any] = {"records": len(edits), "sources": len({cluster_of(item) for item, _ in edits})}
            tables.append(AgreementTable(dimension=dimension, unit="edit", main="spearman", rows=tuple(rows), **counts))
    if not tables:
        raise ConfigError(
            "there is nothing to compare: one judge, and one round",
            "give --human FILE, another run, or a run of several judges or rounds",
        )
    return Agreement(tables=tuple(tables))


def _compare_two(first: Rater, second: Rater, dimension: str, cluster_of: Callable[[str], Hashable]) -> AgreementRow:
    """Compare two judges round by round, or their means where they have not as many rounds."""
    values, other_values = first.values[dimension], second.values[dimension]
    edits = [edit for edit in values if edit in other_values]
    rounds: list[tuple[float, float, Hashable]] = []
    for edit in edits:
        sides = values[edit], other_values[edit]
        if len(sides[0]) != len(sides[1]):
            sides = (fmean(sides[0]),), (fmean(sides[1]),)
        rounds += [(a, b, cluster_of(edit[0])) for a, b in zip(*sides, strict=True)]
    columns = [np.array([each[n] for each in rounds]) for n in (0, 1)]
    ends = first.ranges[dimension]
    statistics = {n: VALUES[n] for n in ("pearson", "spearman", "kendall", "mae")}
    if {*columns[0], *columns[1]} <= {*ends}:
        kappa = Statistic(cohen_kappa, "correlation")
        statistics = {"equal": Statistic(equal_share, "share"), "kappa": kappa}
    clusters = [each[2] for each in rounds]
    figures = {name: estimate(each, columns, clusters) for name, each in statistics.items()}
    return AgreementRow(who=f"{first.name}, {second.name}", records=len(edits), figures=figures)


def _compare_rounds(judge: Rater, dimension: str, cluster_of: Callable[[str], Hashable]) -> AgreementRow | None:
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
