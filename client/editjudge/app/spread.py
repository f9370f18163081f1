"""A run by several judges, or in several rounds: what each says alone, and how far they agree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from ..base.verdict import Outcome, Scored
from ..benchmarks.cell import Cell
from ..benchmarks.column import (
    AskedWeighted,
    Column,
    Composite,
    Row,
    ScoredWeighted,
    tabulate,
)
from ..benchmarks.dimension import Dimension, derived
from ..benchmarks.fusion import mean
from ..benchmarks.rounds import JudgeRound, JudgeRounds
from ..engine.fold import derive
from .agreement import Figure, between, standard_deviation, within

_MEAN = derived(mean)


@dataclass(frozen=True, slots=True)
class Spread:
    """A column's number, and how it spreads over rounds.

    Attributes:
        cell: Of each edit's mean over the rounds; an edit without a number in one of them has
            none.
        rounds: The same number by each round alone, on the same edits; empty where there is
            one round.
    """

    cell: Cell
    rounds: tuple[float | None, ...] = ()

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over rounds; None where a round has no number."""
        values = [value for value in self.rounds if value is not None]
        return standard_deviation(values) if len(values) == len(self.rounds) else None


Spreads: TypeAlias = Mapping[str, Mapping[str, Spread]]
"""By model under test and column."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far judges agree on one dimension, over the edits of all models under test.

    Attributes:
        judges: The two that are compared; one that is compared with itself, over its rounds.
        edits: How many have a number from each of them, in every round.
        figures: By name, see `agreement.between` and `agreement.within`.
    """

    dimension: str
    judges: tuple[str, ...]
    edits: int
    figures: Mapping[str, Figure]


@dataclass(frozen=True)
class JudgeSpread:
    """What stands beside a table; empty where one judge was asked once.

    Attributes:
        ensemble: The table's own numbers with their spread, of the columns that judges have a
            part in.
        judges: The same of each judge alone, by its name.
        agreement: By dimension: each two judges, then each judge's rounds.
    """

    judge_rounds: JudgeRounds = field(default_factory=JudgeRounds)
    ensemble: Spreads = field(default_factory=dict)
    judges: Mapping[str, Spreads] = field(default_factory=dict)
    agreement: tuple[Agreement, ...] = ()


def judge_spread(
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    rows: Sequence[Row],
    judge_rounds: JudgeRounds,
    known: Mapping[str, Dimension],
    asked: Collection[str],
) -> JudgeSpread:
    """What each judge and each round says.

    Args:
        columns: Of the table.
        cells: Of the table.
        rows: Have outcomes of each round too.
        known: All dimensions by id.
        asked: Ids of those that were asked for.
    """
    each = judge_rounds.each
    if len(each) < 2:
        return JudgeSpread(judge_rounds)
    names = dict.fromkeys(name for column in columns for name in column.dimensions)
    judged = [name for name in names if each[0].of(name) in known]
    table = _Table(columns, rows, tuple(names), judged)
    standing = [{name: row.outcomes[name] for name in judged} for row in rows]
    ensemble = table.spreads(each, standing, cells)
    judges = dict.fromkeys(judge_rounds.judges, ensemble)
    if len(judges) > 1:
        for judge in judges:
            own = [judge_round for judge_round in each if judge_round.judge == judge]
            means = list(table.means(own))
            judges[judge] = table.spreads(own, means, table.cells(means))
    agreement = tuple(
        figures
        for name in judged
        if name in asked
        for figures in _agreements(rows, name, judge_rounds, known[name].range)
    )
    return JudgeSpread(judge_rounds, ensemble, judges, agreement)


_Outcomes: TypeAlias = dict[str, Outcome]
"""What was said of one edit, by dimension."""


class _Table:
    """A table whose judged dimensions can have other outcomes than its own.

    Args:
        names: The dimensions that columns read.
        judged: Those of them that judges have a part in.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Sequence[Row],
        names: Iterable[str],
        judged: Sequence[str],
    ) -> None:
        self._columns = columns
        self._rows = rows
        self._names = names
        self._judged = judged
        self._shown = _resting_on(columns, judged)
        self._numbers: dict[tuple[float, bool], Scored] = {}

    def means(self, judge_rounds: Sequence[JudgeRound]) -> Iterator[_Outcomes]:
        """Of each edit, what these rounds say together."""
        ids = {
            name: [judge_round.of(name) for judge_round in judge_rounds] for name in self._judged
        }
        for row in self._rows:
            yield {name: self._mean(row, of) for name, of in ids.items()}

    def cells(self, outcomes: Iterable[_Outcomes]) -> Mapping[str, Mapping[str, Cell]]:
        """The columns, with these outcomes of what is judged."""
        rows = [
            Row(row.item, row.model, {name: row.outcomes[name] for name in self._names} | judged)
            for row, judged in zip(self._rows, outcomes, strict=True)
        ]
        return tabulate(self._columns, rows)

    def spreads(
        self,
        judge_rounds: Sequence[JudgeRound],
        together: Sequence[_Outcomes],
        cells: Mapping[str, Mapping[str, Cell]],
    ) -> Spreads:
        """What these rounds say together, and each round alone.

        Args:
            together: Of each edit, what they say together.
            cells: The columns with that.
        """
        numbers = dict.fromkeys(judge_round.round for judge_round in judge_rounds)
        alone = []
        for number in numbers if len(numbers) > 1 else ():
            own = [judge_round for judge_round in judge_rounds if judge_round.round == number]
            alone.append(self.cells(_on_same_edits(self.means(own), together)))
        return {
            model: {
                name: Spread(row[name], tuple(of_round[model][name].value for of_round in alone))
                for name in self._shown
            }
            for model, row in cells.items()
        }

    def _mean(self, row: Row, ids: Sequence[str]) -> Outcome:
        """Of what was said of an edit."""
        if len(ids) == 1:
            return row.outcomes[ids[0]]
        outcomes = {name: row.outcomes[name] for name in ids}
        scored = {n: one for n, one in outcomes.items() if isinstance(one, Scored)}
        if len(scored) < len(outcomes):
            return derive(_MEAN, outcomes)
        value = mean({name: one.value for name, one in scored.items()})
        key = value, any(one.imputed for one in scored.values())
        # Judges say few different things, of many edits.
        if key not in self._numbers:
            self._numbers[key] = Scored(value=value, imputed=key[1])
        return self._numbers[key]


def _on_same_edits(
    alone: Iterable[_Outcomes], together: Iterable[_Outcomes]
) -> Iterator[_Outcomes]:
    """What one round says, on the edits that have a number in all rounds.

    So rounds differ by what was said, and not by which edits have a number.
    """
    for outcomes, means in zip(alone, together, strict=True):
        yield {
            name: outcomes[name] if isinstance(outcome, Scored) else outcome
            for name, outcome in means.items()
        }


def _resting_on(columns: Iterable[Column], dimensions: Iterable[str]) -> tuple[str, ...]:
    """Ids of the columns that dimensions have a part in, themselves or through other columns."""
    chosen = set(dimensions)
    resting: dict[str, None] = {}
    for column in columns:
        of: Iterable[str] = ()
        if isinstance(column.how, Composite):
            of = column.how.of.values()
        elif isinstance(column.how, AskedWeighted | ScoredWeighted):
            of = column.how.of
        if not chosen.isdisjoint(column.dimensions) or any(part in resting for part in of):
            resting[column.id] = None
    return tuple(resting)


def _agreements(
    rows: Iterable[Row], dimension: str, judge_rounds: JudgeRounds, ends: tuple[float, float]
) -> Iterator[Agreement]:
    """Of each two judges, then of each judge with itself.

    Args:
        ends: The dimension's range; where nothing else was said, values are one of two.
    """
    ids = {
        judge: [each.of(dimension) for each in judge_rounds.each if each.judge == judge]
        for judge in judge_rounds.judges
    }
    edits = [{judge: _values(row, names) for judge, names in ids.items()} for row in rows]
    values = {value for edit in edits for of_judge in edit.values() for value in of_judge}
    for first, second in combinations(judge_rounds.judges, 2):
        both = [(edit[first], edit[second]) for edit in edits if edit[first] and edit[second]]
        pairs = [pair for a, b in both for pair in zip(a, b, strict=True)]
        figures = between(pairs, two_valued=values <= set(ends))
        yield Agreement(dimension, (first, second), len(both), figures)
    for judge in judge_rounds.judges if judge_rounds.rounds > 1 else ():
        of_judge = [edit[judge] for edit in edits if edit[judge]]
        yield Agreement(dimension, (judge,), len(of_judge), within(of_judge))


def _values(row: Row, ids: Iterable[str]) -> list[float]:
    """What was said of an edit in each round; nothing where a round has no number of its own."""
    numbers = []
    for name in ids:
        outcome = row.outcomes[name]
        if not isinstance(outcome, Scored) or outcome.imputed:
            return []
        numbers.append(outcome.value)
    return numbers
