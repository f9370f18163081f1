"""Results of a run per judge and per round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import Field, computed_field
from pydantic.dataclasses import dataclass as result

from ..base.strict import STRICT
from ..base.verdict import LeftOut, Outcome, Score
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Row
from ..benchmarks.dimension import Dimension, make_formula
from ..benchmarks.fusion import mean
from ..benchmarks.rounds import JudgeRound, JudgeRounds
from ..benchmarks.tabulation import Tabulation
from ..engine.outcomes import derive

_MEAN = make_formula(mean)


Cells: TypeAlias = Mapping[str, Mapping[str, Cell]]
"""Cells by model under test and column."""


@result(frozen=True, kw_only=True, config=STRICT)
class JudgeSpread:
    """The results per judge beside a table; empty for a single judge with a single round.

    Attributes:
        judge_rounds: The judges and their rounds.
        judges: Cells of each judge alone, by model, judge and column, for the columns that depend
            on judges.
    """

    judge_rounds: Annotated[JudgeRounds, Field(exclude=True)] = JudgeRounds()
    judges: Mapping[str, Cells] = field(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def rounds(self) -> int:
        """The number of rounds of each judge."""
        return self.judge_rounds.rounds


class JudgeSpreadBuilder:
    """Aggregates the results of each judge and each round, edit by edit.

    Args:
        columns: The columns of the table.
        rounds: The judges and their rounds; a single round of a single judge has no spread.
        by_id: All dimensions by id.
    """

    def __init__(self, columns: Sequence[Column], rounds: JudgeRounds, by_id: Mapping[str, Dimension]) -> None:
        self._rounds = rounds
        self._ensemble: _JudgeTable | None = None
        self._judges: dict[str, _JudgeTable] = {}
        each = rounds.each_round
        if len(each) < 2:
            return
        names = dict.fromkeys(name for column in columns for name in column.dimensions)
        ids = [name for name in names if each[0].dimension_id(name) in by_id]
        self._ensemble = _JudgeTable(columns, ids, each)
        if len(rounds.judges) > 1:
            for judge in rounds.judges:
                own = [judge_round for judge_round in each if judge_round.judge == judge]
                self._judges[judge] = _JudgeTable(columns, ids, own, own_cells=True)

    def add(self, row: Row) -> None:
        """Add an edit, whose row holds the outcomes of every round."""
        if self._ensemble is None:
            return
        self._ensemble.add(row)
        for judge in self._judges.values():
            judge.add(row)

    def build(self, cells: Cells) -> tuple[Cells, JudgeSpread]:
        """Return the table's cells with the values of each round, and the results per judge."""
        if self._ensemble is None:
            return cells, JudgeSpread(judge_rounds=self._rounds)
        ensemble = self._ensemble.cells(cells)
        by_judge = dict.fromkeys(self._rounds.judges, ensemble)
        by_judge |= {judge: together.cells() for judge, together in self._judges.items()}
        spread = JudgeSpread(
            judge_rounds=self._rounds,
            judges={model: {judge: of[model] for judge, of in by_judge.items()} for model in cells},
        )
        return {model: {**row, **ensemble[model]} for model, row in cells.items()}, spread


_Outcomes: TypeAlias = dict[str, Outcome]
"""Outcomes of one edit by dimension."""


def _mean_outcome(row: Row, ids: Sequence[str]) -> Outcome:
    """Average an edit's outcomes of some rounds."""
    if len(ids) == 1:
        return row.outcomes[ids[0]]
    outcomes = {name: row.outcomes[name] for name in ids}
    scores = {n: one for n, one in outcomes.items() if isinstance(one, Score)}
    if len(scores) < len(outcomes):
        applicable = {n: one for n, one in outcomes.items() if not isinstance(one, LeftOut)}
        if len(applicable) == len(scores):
            return LeftOut()
        return derive(_MEAN, applicable)
    value = mean({name: one.value for name, one in scores.items()})
    return Score(value=value, imputed=any(one.imputed for one in scores.values()))


class _JudgeTable:
    """Tabulates the mean of some rounds, and each round alone.

    Args:
        judged: The dimensions of the columns that judges have a part in.
        own_cells: Whether the columns with what they say together are not the table's own.
    """

    def __init__(
        self, columns: Sequence[Column], ids: Sequence[str], rounds: Sequence[JudgeRound], *, own_cells: bool = False
    ) -> None:
        self._column_ids = _column_ids_using(columns, ids)
        self._ids = ids
        self._rounds = rounds
        self._own_tabulation = Tabulation(columns) if own_cells else None
        numbers = dict.fromkeys(each.round for each in rounds)
        self._round_tabulations = [
            ([each for each in rounds if each.round == number], Tabulation(columns))
            for number in (numbers if len(numbers) > 1 else ())
        ]

    def add(self, row: Row) -> None:
        """Add an edit."""
        if self._own_tabulation is None:
            joint_outcomes = {name: row.outcomes[name] for name in self._ids}
        else:
            joint_outcomes = self._mean_outcomes(row, self._rounds)
            self._own_tabulation.add(_replace_outcomes(row, joint_outcomes))
        for of_round, tabulation in self._round_tabulations:
            round_outcomes = _restrict_to_scored(self._mean_outcomes(row, of_round), joint_outcomes)
            tabulation.add(_replace_outcomes(row, round_outcomes))

    def _mean_outcomes(self, row: Row, rounds: Sequence[JudgeRound]) -> _Outcomes:
        return {n: _mean_outcome(row, [each.dimension_id(n) for each in rounds]) for n in self._ids}

    def cells(self, cells: Cells = MappingProxyType({})) -> Cells:
        """Return the columns with the mean of the rounds and the value of each round.

        Args:
            cells: The former, where they are the table's own.
        """
        own = self._own_tabulation.cells() if self._own_tabulation else cells
        alone = [tabulation.cells() for _, tabulation in self._round_tabulations]
        return {
            model: {
                name: replace(row[name], rounds=tuple(of[model][name].value for of in alone))
                for name in self._column_ids
            }
            for model, row in own.items()
        }


def _replace_outcomes(row: Row, outcomes: _Outcomes) -> Row:
    return Row(row.item, row.model, {**row.outcomes, **outcomes}, output=row.output)


def _restrict_to_scored(round_outcomes: _Outcomes, joint_outcomes: _Outcomes) -> _Outcomes:
    """Keep the outcomes of one round on the dimensions that have a score over all rounds.

    So the values of rounds rest on the same edits.
    """
    return {
        name: round_outcomes[name] if isinstance(outcome, Score) else outcome
        for name, outcome in joint_outcomes.items()
    }


def _column_ids_using(columns: Iterable[Column], dimensions: Iterable[str]) -> tuple[str, ...]:
    """Ids of the columns that use any of the dimensions, directly or through other columns."""
    ids = set(dimensions)
    column_ids: dict[str, None] = {}
    for column in columns:
        own = not ids.isdisjoint(column.dimensions)
        if own or any(part in column_ids for part in column.operands):
            column_ids[column.id] = None
    return tuple(column_ids)
