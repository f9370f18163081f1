"""A run by several judges, or judged repeatedly: what each says alone, and how far they agree."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from ..agreement import Figure, between, standard_deviation, within
from ..benchmarks.replicas import Replica, Replicas
from ..column import Cell, Column, Composite, InstanceWeighted, Row, tabulate
from ..dimension import Dimension, derived
from ..fusion import mean
from ..verdict import Outcome, Scored
from .judge import derive

_MEAN = derived(mean)


@dataclass(frozen=True, slots=True)
class Spread:
    """A column's number, and how it spreads over repeats.

    Attributes:
        cell: Of each edit's mean over the repeats; an edit without a number in one of them has
            none.
        repeats: The same number by each repeat alone, on the same edits; empty where there is
            one repeat.
    """

    cell: Cell
    repeats: tuple[float | None, ...] = ()

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over repeats; None where a repeat has no number."""
        values = [value for value in self.repeats if value is not None]
        return standard_deviation(values) if len(values) == len(self.repeats) else None


Spreads: TypeAlias = Mapping[str, Mapping[str, Spread]]
"""By model under test and column."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far judges agree on one dimension, over the edits of all models under test.

    Attributes:
        judges: The two that are compared; one that is compared with itself, over its repeats.
        edits: How many have a number from each of them, in every repeat.
        figures: By name, see `agreement.between` and `agreement.within`.
    """

    dimension: str
    judges: tuple[str, ...]
    edits: int
    figures: Mapping[str, Figure]


@dataclass(frozen=True)
class Beside:
    """What stands beside a table; empty where one judge was asked once.

    Attributes:
        ensemble: The table's own numbers with their spread, of the columns that judges have a
            part in.
        judges: The same of each judge alone, by its name.
        agreement: By dimension: each two judges, then each judge's repeats.
    """

    replicas: Replicas = field(default_factory=Replicas)
    ensemble: Spreads = field(default_factory=dict)
    judges: Mapping[str, Spreads] = field(default_factory=dict)
    agreement: tuple[Agreement, ...] = ()


def beside(
    columns: Sequence[Column],
    cells: Mapping[str, Mapping[str, Cell]],
    rows: Sequence[Row],
    replicas: Replicas,
    known: Mapping[str, Dimension],
    asked: Collection[str],
) -> Beside:
    """What each judge and each repeat says.

    Args:
        columns: Of the table.
        cells: Of the table.
        rows: Have outcomes of the replicas too.
        known: All dimensions by id.
        asked: Ids of those that were asked for.
    """
    each = replicas.each
    if len(each) < 2:
        return Beside(replicas)
    names = dict.fromkeys(name for column in columns for name in column.dimensions)
    judged = [name for name in names if each[0].of(name) in known]
    parts = _Judged(columns, rows, tuple(names), judged)
    ensemble = parts.spreads(each, replicas.repeats, cells)
    judges = dict.fromkeys(replicas.judges, ensemble)
    if len(judges) > 1:
        for name in replicas.judges:
            own = [one for one in each if one.judge == name]
            judges[name] = parts.spreads(own, replicas.repeats)
    found = tuple(
        one
        for name in judged
        if name in asked
        for one in _agreements(rows, name, replicas, known[name].range)
    )
    return Beside(replicas, ensemble, judges, found)


class _Judged:
    """The same table by some of the replicas.

    Args:
        names: The dimensions that columns read.
        judged: Those of them that have replicas.
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

    def spreads(
        self,
        replicas: Sequence[Replica],
        repeats: int,
        cells: Mapping[str, Mapping[str, Cell]] | None = None,
    ) -> Spreads:
        """By these replicas together, and by each of their repeats.

        Args:
            cells: The table's, where these are all there are.
        """
        ids = {name: [one.of(name) for one in replicas] for name in self._judged}
        if cells is None:
            together = [
                {name: self._together(row, of) for name, of in ids.items()} for row in self._rows
            ]
            cells = self._cells(together)
        else:
            together = [{name: row.outcomes[name] for name in ids} for row in self._rows]
        each = []
        for repeat in range(1, repeats + 1) if repeats > 1 else ():
            alone = [one for one in replicas if one.repeat == repeat]
            each.append(self._cells(self._alone(alone, together)))
        return {
            model: {
                name: Spread(row[name], tuple(one[model][name].value for one in each))
                for name in self._shown
            }
            for model, row in cells.items()
        }

    def _alone(
        self, replicas: Sequence[Replica], together: Iterable[Mapping[str, Outcome]]
    ) -> Iterator[dict[str, Outcome]]:
        """By one repeat, on the edits that have a number in all of them.

        So repeats differ by what was said, and not by which edits have a number.
        """
        ids = {name: [one.of(name) for one in replicas] for name in self._judged}
        for row, all_of_them in zip(self._rows, together, strict=True):
            yield {
                name: self._together(row, ids[name]) if isinstance(one, Scored) else one
                for name, one in all_of_them.items()
            }

    def _together(self, row: Row, ids: Sequence[str]) -> Outcome:
        """The mean of an edit's replicas."""
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

    def _cells(self, outcomes: Iterable[dict[str, Outcome]]) -> dict[str, dict[str, Cell]]:
        """The columns, with these outcomes of what is judged."""
        rows = [
            Row(row.item, row.model, {name: row.outcomes[name] for name in self._names} | instead)
            for row, instead in zip(self._rows, outcomes, strict=True)
        ]
        return tabulate(self._columns, rows)


def _resting_on(columns: Iterable[Column], dimensions: Iterable[str]) -> tuple[str, ...]:
    """Ids of the columns that dimensions have a part in, themselves or through other columns."""
    chosen = set(dimensions)
    found: dict[str, None] = {}
    for column in columns:
        of: Iterable[str] = ()
        if isinstance(column.how, Composite):
            of = column.how.of.values()
        elif isinstance(column.how, InstanceWeighted):
            of = column.how.of
        if not chosen.isdisjoint(column.dimensions) or any(part in found for part in of):
            found[column.id] = None
    return tuple(found)


def _agreements(
    rows: Iterable[Row], dimension: str, replicas: Replicas, ends: tuple[float, float]
) -> Iterator[Agreement]:
    each = {
        judge: [one.of(dimension) for one in replicas.each if one.judge == judge]
        for judge in replicas.judges
    }
    said: list[dict[str, list[float]]] = []
    for row in rows:
        by_judge = {judge: _values(row, ids) for judge, ids in each.items()}
        said.append({judge: values for judge, values in by_judge.items() if values})
    ends_only = {v for edit in said for values in edit.values() for v in values} <= set(ends)
    for one, other in combinations(replicas.judges, 2):
        both = [(edit[one], edit[other]) for edit in said if one in edit and other in edit]
        pairs = [pair for a, b in both for pair in zip(a, b, strict=True)]
        figures = between(pairs, two_valued=ends_only)
        yield Agreement(dimension, (one, other), len(both), figures)
    if replicas.repeats > 1:
        for judge in replicas.judges:
            edits = [edit[judge] for edit in said if judge in edit]
            yield Agreement(dimension, (judge,), len(edits), within(edits))


def _values(row: Row, ids: Iterable[str]) -> list[float]:
    """What was said of an edit, where all replicas have a number and no rule put one in."""
    found = []
    for name in ids:
        outcome = row.outcomes[name]
        if not isinstance(outcome, Scored) or outcome.imputed:
            return []
        found.append(outcome.value)
    return found


def as_json(found: Beside) -> dict[str, Any]:
    """What stands beside a table as plain data; nothing where one judge was asked once."""
    if not found.judges:
        return {}
    return {
        "repeats": found.replicas.repeats,
        "ensemble": {model: _row(row) for model, row in found.ensemble.items()},
        "judges": {
            model: {judge: _row(spreads[model]) for judge, spreads in found.judges.items()}
            for model in found.ensemble
        },
        "agreement": [
            {
                "dimension": one.dimension,
                "judges": list(one.judges),
                "edits": one.edits,
                "figures": {
                    name: {"value": figure.value, "reason": figure.reason}
                    for name, figure in one.figures.items()
                },
            }
            for one in found.agreement
        ],
    }


def _row(spreads: Mapping[str, Spread]) -> dict[str, Any]:
    return {
        name: {
            "value": one.cell.value,
            "sd": one.deviation,
            "repeats": list(one.repeats),
            "scored": one.cell.scored,
            "asked": one.cell.asked,
            "reason": one.cell.reason,
        }
        for name, one in spreads.items()
    }
