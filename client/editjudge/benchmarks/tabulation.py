"""The columns of a run, aggregated as its edits come."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.item import Item
from ..base.signature import Signature
from ..base.verdict import NotApplicable, NotServed, Outcome, Scored, Status, Unscored
from .cell import AS_JUDGED, Cell, Tally, awaited
from .column import (
    AskedWeighted,
    Column,
    Composite,
    Mean,
    Paired,
    Pooled,
    Row,
    ScoredWeighted,
)
from .fusion import Values


@dataclass(frozen=True, slots=True)
class Sample:
    """What a mean is of.

    Attributes:
        values: On the column's scale.
        weights: Of these; empty where each weighs the same.
        items: Their items' numbers; of a pair that of its `+` side. Empty where rows had none.
        partners: Of pairs the numbers of the `-` side; empty otherwise.
        judged: The values as they were judged.
    """

    values: NDArray[np.float64]
    weights: array[float]
    items: array[int]
    partners: array[int]
    judged: array[float]


def tabulate(columns: Iterable[Column], rows: Iterable[Row]) -> dict[str, dict[str, Cell]]:
    """Aggregate a run.

    Args:
        columns: A composite stands after the columns it is made of.
        rows: Edits of any number of models; each is looked at once.

    Returns:
        `{model: {column id: cell}}`, models in order of first appearance.

    Raises:
        KeyError: a composite names a column that does not stand before it.
    """
    table = Tabulation(columns)
    for row in rows:
        table.add(row)
    return table.cells()


class Tabulation:
    """The columns of a run, aggregated as its edits come; of an edit a column keeps a number.

    Args:
        columns: A composite stands after the columns it is made of.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = tuple(columns)
        self._models: dict[str, dict[int, _Gathering]] = {}
        # By identity: a callable need not have a hash, and the columns keep it alive.
        self._where: dict[int, tuple[Callable[[Item], bool], list[int]]] = {}
        for place, column in enumerate(self._columns):
            if isinstance(column.how, Mean):
                condition = column.how.where
            elif isinstance(column.how, Paired | Pooled):
                condition = _everywhere
            else:
                continue
            self._where.setdefault(id(condition), (condition, []))[1].append(place)

    def add(self, row: Row) -> None:
        """Add an edit; each condition looks at its item once."""
        if (gathered := self._models.get(row.model)) is None:
            gathered = self._models[row.model] = dict(enumerate(map(_begun, self._columns)))
        for condition, places in self._where.values():
            if condition(row.item):
                for place in places:
                    gathered[place].add(row)

    def cells(self) -> dict[str, dict[str, Cell]]:
        """What `tabulate` returns, of the edits so far.

        Raises:
            KeyError: a composite names a column that does not stand before it.
        """
        table: dict[str, dict[str, Cell]] = {model: {} for model in self._models}
        for place, column in enumerate(self._columns):
            of_column = {model: each[place] for model, each in self._models.items()}
            for model, cells in table.items():
                cells[column.id] = _cell(column, model, of_column, cells)
        return table

    def samples(self, model: str) -> Iterator[tuple[Column, Sample]]:
        """What the means of a model are of, one held at a time."""
        for place, column in enumerate(self._columns):
            gathered = self._models[model][place]
            if isinstance(gathered, _OfMean):
                yield column, _sample(gathered.tally, gathered.how.affine)
            elif isinstance(gathered, _OfPairs):
                tally, partners = _differences(gathered)
                yield column, replace(_sample(tally), partners=partners)
            elif isinstance(gathered, _OfPool) and isinstance(column.how, Pooled):
                pool = (each[place] for each in self._models.values())
                with suppress(ValueError):  # its cell has no value, and says why
                    transform = _fitted(column.how, (p for p in pool if isinstance(p, _OfPool)))
                    sample = _sample(gathered.plain.tally)
                    yield column, replace(sample, values=np.array([*map(transform, sample.judged)]))


def _sample(tally: Tally, affine: tuple[float, float] = AS_JUDGED) -> Sample:
    scale, offset = affine
    values = scale * np.array(tally.values) + offset
    return Sample(values, tally.weights, tally.items, array("I"), tally.values)


def _everywhere(_: Item) -> bool:
    return True


@dataclass(slots=True)
class _Gathering:
    """What a column keeps of a model's edits.

    Attributes:
        signatures: Those of its values, by identity: a run has few, and many edits share them, so
            that a digest for each would be slow.
    """

    signatures: dict[int, Signature] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add an edit."""

    def _sign(self, row: Row, dimension: str) -> None:
        if (signature := row.signatures.get(dimension)) is not None:
            self.signatures[id(signature)] = signature


@dataclass(slots=True)
class _OfMean(_Gathering):
    """Of a mean.

    Attributes:
        absent: Which services were not there.
    """

    how: Mean = field(kw_only=True)
    tally: Tally = field(default_factory=Tally)
    absent: dict[str, None] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add an edit."""
        how, outcome = self.how, row.outcomes[self.how.of]
        self._sign(row, how.of)
        if isinstance(outcome, NotServed):
            self.absent[outcome.reason] = None
        if outcome.status == "missing_output" and how.missing_output is not None:
            outcome = Scored(value=how.missing_output, imputed=True)
        weight = row.outcomes[how.weighted_by] if how.weighted_by else None
        self.tally.add(outcome, weight, row.number)


_Side: TypeAlias = "float | Outcome"
"""Of a pair: its number, where no rule put it in."""


@dataclass(slots=True)
class _OfPairs(_Gathering):
    """Of a mean of differences.

    Attributes:
        pairs: By pair and side.
        numbers: Of their items, likewise.
    """

    how: Paired = field(kw_only=True)
    pairs: dict[str, dict[str, _Side]] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add an edit, which is one side of a pair."""
        self._sign(row, self.how.of)
        if (place := self.how.pair(row.item)) is not None:
            pair, side = place
            outcome = row.outcomes[self.how.of]
            kept: _Side = outcome
            if isinstance(outcome, Scored) and not outcome.imputed:
                kept = outcome.value
            self.pairs.setdefault(pair, {})[side] = kept
            if row.number is not None:
                self.numbers[pair, side] = row.number


@dataclass(slots=True)
class _OfPool(_Gathering):
    """Of a mean after a transformation that is fitted to all models' values.

    Attributes:
        plain: The mean without it.
        judged: Values without what a rule put in, which the transformation is fitted to.
    """

    plain: _OfMean = field(kw_only=True)
    judged: array[float] = field(default_factory=lambda: array("d"))

    def add(self, row: Row) -> None:
        """Add an edit."""
        self.plain.add(row)
        outcome = row.outcomes[self.plain.how.of]
        if isinstance(outcome, Scored) and not outcome.imputed:
            self.judged.append(outcome.value)


def _begun(column: Column) -> _Gathering:
    match column.how:
        case Mean() as how:
            return _OfMean(how=how)
        case Paired() as how:
            return _OfPairs(how=how)
        case Pooled(of=of):
            return _OfPool(plain=_OfMean(how=Mean(of)))
    return _Gathering()


def _cell(
    column: Column, model: str, gathered: Mapping[str, _Gathering], cells: Mapping[str, Cell]
) -> Cell:
    match column.how, gathered[model]:
        case _, _OfMean() as own:
            return _mean(column, own)
        case _, _OfPairs() as own:
            return _paired(column, own)
        case Pooled() as how, _OfPool() as own:
            pool = {name: each for name, each in gathered.items() if isinstance(each, _OfPool)}
            return _pooled(column, how, own, pool)
        case Composite() as how, _:
            parts = {name: cells[part] for name, part in how.of.items()}
            return _composite(column, how.fn, parts)
        case AskedWeighted() as how, _:
            return _asked_weighted(column, how, cells)
        case ScoredWeighted() as how, _:
            return _scored_weighted(column, how, cells)
    raise TypeError(f"{column.id} is no kind of column")


def _mean(column: Column, gathered: _OfMean) -> Cell:
    how, tally = gathered.how, gathered.tally
    signature = _signature(column, _named(how), gathered.signatures.values())
    cell = tally.cell(_why_no_mean(tally), signature, how.affine)
    if not (how.served and tally.counts["not_served"]):
        return cell
    reason = f"not served: {'; '.join(gathered.absent)}"
    return replace(cell, value=None, reason=reason, awaits=awaited(cell.counts))


def _why_no_mean(tally: Tally) -> str:
    if tally.values:
        return "every weight is 0"
    return "nothing scored" if tally.counts else "not applicable to any item"


def _named(how: Mean) -> str:
    scale, offset = how.affine
    mean = f"mean({how.of} by {how.weighted_by})" if how.weighted_by else f"mean({how.of})"
    return mean if how.affine == AS_JUDGED else f"{scale:g}*{mean}{offset:+g}"


def _paired(column: Column, gathered: _OfPairs) -> Cell:
    tally, _ = _differences(gathered)
    reason = "nothing scored" if tally.counts else "no pairs"
    named = f"paired({gathered.how.of} as judged)"
    return tally.cell(reason, _signature(column, named, gathered.signatures.values()))


def _differences(gathered: _OfPairs) -> tuple[Tally, array[int]]:
    """Those of the pairs, and the numbers of the `-` sides of those that have one."""
    tally, partners = Tally(), array("I")
    for pair, sides in gathered.pairs.items():
        if len(sides) < 2:  # an item has no partner in the data
            continue
        difference = _difference(sides["+"], sides["-"])
        tally.add(difference, number=gathered.numbers.get((pair, "+")))
        if isinstance(difference, Scored) and (pair, "-") in gathered.numbers:
            partners.append(gathered.numbers[pair, "-"])
    return tally, partners


_PUT_IN = Unscored(kind="degenerate", reason="a rule put in a side of the pair")


def _difference(plus: _Side, minus: _Side) -> Outcome:
    """Of a pair, or what it counts as: none where a side does not apply."""
    if isinstance(minus, NotApplicable):
        return minus
    if not isinstance(plus, float | Scored):
        return plus
    if not isinstance(minus, float | Scored):
        return minus
    if isinstance(plus, Scored) or isinstance(minus, Scored):
        return _PUT_IN
    return Scored(value=plus - minus)


def _asked_weighted(column: Column, how: AskedWeighted, cells: Mapping[str, Cell]) -> Cell:
    parts, by = _asking(how, cells)
    weights = {part: cell.asked for part, cell in by.items()}
    return _weighted(column, parts, weights)


def _scored_weighted(column: Column, how: ScoredWeighted, cells: Mapping[str, Cell]) -> Cell:
    parts, by = _asking(how, cells)
    weights = {part: cell.scored for part, cell in by.items()}
    waiting = {part: cell.awaits for part, cell in parts.items() if cell.awaits}
    without = frozenset(
        part
        for part, cell in parts.items()
        if part not in waiting and (cell.value is None or not weights[part])
    )
    # Where none is left there is no mean, and its reason names them all.
    left_out = without if len(without) < len(parts) else frozenset[str]()
    mean = _weighted(column, parts, weights, left_out, aggregation="composite of judged")
    if not waiting:
        return mean
    named = (f"{part} ({_spelt(statuses)})" for part, statuses in waiting.items())
    return replace(mean, reason=f"no value yet for {', '.join(named)}")


def _spelt(statuses: Collection[str]) -> str:
    return ", ".join(sorted(statuses)).replace("_", " ")


def _asking(
    how: AskedWeighted | ScoredWeighted, cells: Mapping[str, Cell]
) -> tuple[dict[str, Cell], dict[str, Cell]]:
    """The columns that ask about any edit, and those whose edits are their weights."""
    parts = {part: cells[part] for part in how.of if cells[part].asked}
    pairs = zip(how.of, how.by or how.of, strict=True)
    return parts, {part: cells[weight] for part, weight in pairs if part in parts}


def _weighted(
    column: Column,
    parts: Mapping[str, Cell],
    weights: Mapping[str, int],
    left_out: Collection[str] = (),
    *,
    aggregation: str = "composite",
) -> Cell:
    """The weighted mean of the parts."""
    if any(weights.values()):
        fn = partial(_weighted_mean, weights=weights)
        return _composite(column, fn, parts, left_out, aggregation=aggregation)
    cell = _composite(column, lambda _: 0.0, parts, left_out, aggregation=aggregation)
    return replace(cell, value=None, reason=cell.reason or "every weight is 0")


def _composite(
    column: Column,
    fn: Callable[[Values], float],
    parts: Mapping[str, Cell],
    left_out: Collection[str] = (),
    *,
    aggregation: str = "composite",
) -> Cell:
    """A function of the parts; those left out count in the coverage alone."""
    counts: dict[Status, int] = {}
    for cell in parts.values():
        for status, count in cell.counts.items():
            counts[status] = counts.get(status, 0) + count
    imputed = sum(cell.imputed for cell in parts.values())
    made_of = "+".join(f"{name}={cell.signature.digest}" for name, cell in parts.items())
    signature = Signature.of(
        {
            "column": column.id,
            "protocol": column.protocol,
            "aggregation": aggregation,
            "of": made_of,
        }
    )
    used = {name: cell for name, cell in parts.items() if name not in left_out}
    without = [name for name, cell in used.items() if cell.value is None]
    if without or not parts:
        reason = f"no value for {', '.join(without)}" if without else "no parts"
        awaits = frozenset[Status]().union(*(used[name].awaits for name in without))
        return Cell(None, counts, imputed, reason, signature, awaits)
    value = fn({name: cell.value for name, cell in used.items() if cell.value is not None})
    return Cell(value, counts, imputed, "", signature)


def _pooled(column: Column, how: Pooled, mine: _OfPool, pool: Mapping[str, _OfPool]) -> Cell:
    plain = _mean(column, mine.plain)
    signatures = (one for each in pool.values() for one in each.plain.signatures.values())
    signature = _signature(column, f"pooled({how.of})", signatures)
    signature |= {"pool": "+".join(sorted(pool))}
    try:
        transform = _fitted(how, pool.values())
    except ValueError as error:
        waits = awaited(plain.counts)
        return Cell(None, plain.counts, plain.imputed, str(error), signature, waits)
    values = mine.plain.tally.values
    value = math.fsum(map(transform, values)) / len(values) if values else None
    return Cell(value, plain.counts, plain.imputed, plain.reason, signature, plain.awaits)


def _fitted(how: Pooled, pool: Iterable[_OfPool]) -> Callable[[float], float]:
    return how.fit([value for each in pool for value in each.judged])


def _weighted_mean(values: Values, weights: Mapping[str, int]) -> float:
    total = sum(weights[name] for name in values)
    return math.fsum(value * weights[name] for name, value in values.items()) / total


def _signature(column: Column, aggregation: str, signatures: Iterable[Signature]) -> Signature:
    """Of a column over one dimension: every signature its values have, by digest."""
    return Signature.of(
        {
            "column": column.id,
            "protocol": column.protocol,
            "aggregation": aggregation,
            "of": "+".join(sorted({one.digest for one in signatures})),
        }
    )
