"""Results of a run per judge and per round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..base.verdict import LeftOut, Outcome, Score
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column, Row
from ..benchmarks.dimension import Dimension, make_formula
from ..benchmarks.fusion import mean
from ..benchmarks.rounds import JudgeRounds
from ..benchmarks.tabulation import Tabulation
from ..engine.outcomes import derive

_MEAN = make_formula(mean)


Cells: TypeAlias = Mapping[str, Mapping[str, Cell]]
"""Cells by model under test and column."""


class JudgeSpreadBuilder:
    """Aggregates the results of each judge and each round, edit by edit.

    Args:
        columns: The columns of the table.
        rounds: The judges and their rounds; a single round of a single judge has no spread.
        by_id: All dimensions by id.
    """

    def __init__(self, columns: Sequence[Column], rounds: JudgeRounds, by_id: Mapping[str, Dimension]) -> None:
        self._rounds, each = rounds, rounds.each_round
        names = dict.fromkeys(name for column in columns for name in column.dimensions)
        self._ids = [name for name in names if each and each[0].dimension_id(name) in by_id]
        self._column_ids = _column_ids_using(columns, self._ids)
        self._numbers = range(1, 1 + rounds.rounds) if rounds.rounds > 1 else range(0)
        judges = rounds.judges if len(rounds.judges) > 1 else ()
        # By judge ("" for all) and round (0 for all); all rounds of all judges are the table's own.
        self._tables = {
            (judge, number): (
                [one for one in each if judge in {"", one.judge} and number in {0, one.round}],
                Tabulation(columns),
            )
            for judge in ("", *judges)
            for number in (0, *self._numbers)
            if judge or number
        }

    def add(self, row: Row) -> None:
        """Add an edit, whose row holds the outcomes of every round."""
        whole: dict[str, Mapping[str, Outcome]] = {"": row.outcomes}
        for (judge, number), (rounds, table) in self._tables.items():
            outcomes = {name: _mean_outcome(row, [one.dimension_id(name) for one in rounds]) for name in self._ids}
            if number:  # the values of rounds rest on the same edits
                together = whole[judge]
                outcomes = {n: one if isinstance(together[n], Score) else together[n] for n, one in outcomes.items()}
            else:
                whole[judge] = outcomes
            table.add(Row(row.item, row.model, {**row.outcomes, **outcomes}, output=row.output))

    def build(self, cells: Cells) -> tuple[Cells, Mapping[str, Cells]]:
        """Return the table's cells with the values of each round, and the cells of each judge alone.

        The latter are by model, judge and column, for the columns that depend on judges; none for a
        single judge with a single round.
        """
        if not self._tables:
            return cells, {}
        tables: dict[tuple[str, int], Cells] = {key: table.cells() for key, (_, table) in self._tables.items()}
        tables["", 0] = cells

        def add_rounds(judge: str, model: str) -> Mapping[str, Cell]:
            each = [tables[judge, number][model] for number in self._numbers]
            own = tables[judge, 0][model]
            return {n: replace(own[n], rounds=tuple(of[n].value for of in each)) for n in self._column_ids}

        keys = {judge: judge if (judge, 0) in tables else "" for judge in self._rounds.judges}
        judges = {model: {judge: add_rounds(key, model) for judge, key in keys.items()} for model in cells}
        with_rounds = {model: {**row, **add_rounds("", model)} for model, row in cells.items()}
        return with_rounds, judges


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


def _column_ids_using(columns: Iterable[Column], dimensions: Iterable[str]) -> tuple[str, ...]:
    """Ids of the columns that use any of the dimensions, directly or through other columns."""
    ids = set(dimensions)
    column_ids: dict[str, None] = {}
    for column in columns:
        own = not ids.isdisjoint(column.dimensions)
        if own or any(part in column_ids for part in column.operands):
            column_ids[column.id] = None
    return tuple(column_ids)
