"""Repeated judgements: by several judges, or in several rounds of one judge.

A dimension that asks a judge is judged once in each round of each judge, and its own id holds the
mean of these. Every other dimension is judged once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..base.identity import JUDGE, ServiceName
from ..base.text import group_by_key
from .dimension import Dimension, Formula, Reading, change_scorers, make_formula
from .fusion import mean

DEFAULT_JUDGE = JUDGE.variant


class JudgeRound(NamedTuple):
    """One round of one judge.

    Attributes:
        judge: Name of the judge, as in `generalist.<name>`.
        round: From 1.
    """

    judge: str
    round: int

    def dimension_id(self, dimension: str) -> str:
        """Return the id under which a dimension is judged in this round."""
        return f"{dimension}@{self.judge}.{self.round}"


@dataclass(frozen=True, slots=True)
class JudgeRounds:
    """Which judges, and in how many rounds each judges.

    Attributes:
        judges: Names of judges, at least one.
        rounds: At least 1.
    """

    judges: tuple[str, ...] = (DEFAULT_JUDGE,)
    rounds: int = 1

    @property
    def each_round(self) -> tuple[JudgeRound, ...]:
        """All rounds of all judges; empty for a single round of the usual judge."""
        if self == JudgeRounds():
            return ()
        return tuple(JudgeRound(j, 1 + i) for j in self.judges for i in range(self.rounds))


def make_rounds(dimensions: Mapping[str, Dimension], rounds: JudgeRounds) -> dict[str, Dimension]:
    """Return all dimensions by id; a judged one is the mean of the rounds before it."""
    each = rounds.each_round
    ids = _find_judged_ids(dimensions, rounds)
    by_id: dict[str, Dimension] = {}
    for name, dimension in dimensions.items():
        if name not in ids:
            by_id[name] = dimension
            continue
        for judge_round in each:
            how = _how(dimension.how, judge_round, ids)
            of_round = replace(dimension, id=judge_round.dimension_id(name), how=how, round_of=name)
            by_id[of_round.id] = of_round
        operands = [judge_round.dimension_id(name) for judge_round in each]
        variant = f"{dimension.variant}.mean"
        by_id[name] = replace(dimension, how=make_formula(mean, *operands), variant=variant)
    return by_id


def count_in_rounds(dimensions: Mapping[str, Dimension], rounds: JudgeRounds) -> int:
    """Return how many dimensions `make_rounds` would return."""
    each = len(rounds.judges) * rounds.rounds  # counted, as there may be thousands
    return len(dimensions) + len(_find_judged_ids(dimensions, rounds)) * each


def with_rounds(selection: Iterable[Dimension], dimensions: Mapping[str, Dimension]) -> tuple[Dimension, ...]:
    """Return the chosen dimensions as they stand in `dimensions`, each after its rounds."""
    names = [dimension.id for dimension in selection]
    rounds = group_by_key((one.round_of, one) for one in dimensions.values())
    return tuple(one for name in names for one in (*rounds.get(name, ()), dimensions[name]))


def _find_judged_ids(dimensions: Mapping[str, Dimension], rounds: JudgeRounds) -> set[str]:
    if rounds == JudgeRounds():
        return set()
    return {name for name in dimensions if _asks_a_judge(name, dimensions)}


def _asks_a_judge(name: str, dimensions: Mapping[str, Dimension]) -> bool:
    dimension = dimensions[name]
    asks = (_asks_a_judge(operand, dimensions) for operand in dimension.operands)
    return JUDGE in dimension.roles or any(asks)


def _how(how: Reading | Formula, round_: JudgeRound, ids: set[str]) -> Reading | Formula:
    judge = ServiceName.judge(round_.judge)
    new_how = change_scorers(how, lambda scorer: scorer.with_judge(judge, round_.round - 1))
    if isinstance(new_how, Reading):
        return new_how
    of = {
        name: round_.dimension_id(part) if part in ids and isinstance(part, str) else part
        for name, part in new_how.of.items()
    }
    return replace(new_how, of=of)
