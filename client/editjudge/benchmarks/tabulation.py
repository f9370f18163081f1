"""Computes the cells of a table from the outcomes of edits, which are added one by one.

A rule can give a value to an edit without a score, for example the worst value to a missing output.
Such a value is called imputed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.item import Item
from ..base.signature import Signature
from ..base.verdict import NoScore, NotApplicable, NotServed, Outcome, Score, Status
from .cell import NO_SCALING, Affine, Cell, Tally, select_open_statuses
from .column import Column, Composite, Mean, PairedDifference, PooledMean, Row, WeightedMean
from .fusion import Values


@dataclass(frozen=True, slots=True)
class Sample:
    """The values that a column's mean is computed from.

    Attributes:
        values: The values, on the column's scale.
        weights: Their weights; empty if all weigh the same.
        items: The indices of their items; for a pair that of its `+` side. Empty if the rows have
            no index.
        partner_items: For pairs, the item indices of the `-` side; empty otherwise.
        raw_values: The values on the scale of the dimension; for pairs the higher one of each.
    """

    values: NDArray[np.float64]
    weights: array[float]
    items: array[int]
    partner_items: array[int]
    raw_values: array[float]


def tabulate(columns: Iterable[Column], rows: Iterable[Row]) -> dict[str, dict[str, Cell]]:
    """Compute all cells of a table.

    Args:
        columns: The columns; a composite stands after the columns it is made of.
        rows: The edits by all models; they are iterated over once.

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
    """Computes a table edit by edit; it stores one number per edit and column.

    Args:
        columns: The columns; a composite stands after the columns it is made of.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = tuple(columns)
        self._models: dict[str, dict[int, _ColumnValues]] = {}
        # By identity: a callable need not have a hash, and the columns keep it alive.
        self._where: dict[int, tuple[Callable[[Item], bool], list[tuple[int, _OfEdits]]]] = {}
        for place, column in enumerate(self._columns):
            if isinstance(how := column.how, Mean | PairedDifference | PooledMean):
                where = how.where if isinstance(how, Mean) else _everywhere
                self._where.setdefault(id(where), (where, []))[1].append((place, how))

    def add(self, row: Row) -> None:
        """Add an edit. A condition that several columns share is evaluated once."""
        if (data := self._models.get(row.model)) is None:
            data = self._models[row.model] = {i: _ColumnValues() for i in range(len(self._columns))}
        for where, columns in self._where.values():
            if where(row.item):
                for place, how in columns:
                    data[place].add(how, row)

    def cells(self) -> dict[str, dict[str, Cell]]:
        """Return the cells for the edits added so far, as `tabulate` does.

        Raises:
            KeyError: a composite names a column that does not stand before it.
        """
        table: dict[str, dict[str, Cell]] = {model: {} for model in self._models}
        for place, column in enumerate(self._columns):
            of_column = {model: each[place] for model, each in self._models.items()}
            for model, cells in table.items():
                cells[column.id] = _make_cell(column, model, of_column, cells)
        return table

    def samples(self, model: str) -> Iterator[tuple[Column, Sample]]:
        """Yield, for each column that is a mean over edits, the values of one model."""
        for place, column in enumerate(self._columns):
            data = self._models[model][place]
            match column.how:
                case Mean(affine=affine):
                    yield column, _make_sample(data.tally, affine)
                case PairedDifference():
                    tally, partners, highest = data.differences()
                    sample = _make_sample(tally)
                    yield column, replace(sample, partner_items=partners, raw_values=highest)
                case PooledMean() as how:
                    with suppress(ValueError):  # its cell has no value, and says why
                        pool = (each[place] for each in self._models.values())
                        transform = _fit_transform(how, pool)
                        sample = _make_sample(data.tally)
                        values = np.array([*map(transform, sample.raw_values)])
                        yield column, replace(sample, values=values)


def _make_sample(tally: Tally, affine: Affine = NO_SCALING) -> Sample:
    scale, offset = affine
    values = scale * np.array(tally.values) + offset
    return Sample(values, tally.weights, tally.items, array("I"), tally.values)


def _everywhere(_: Item) -> bool:
    return True


_OfEdits: TypeAlias = Mean | PairedDifference | PooledMean
_Side: TypeAlias = "float | Outcome"
"""One side of a pair: its number if it was judged, else its outcome (an imputed `Score` too)."""


@dataclass(slots=True)
class _ColumnValues:
    """The values of one column from the edits by one model.

    Attributes:
        signatures: The signatures of its values, by `id()`. Many edits share one signature object,
            so its digest is computed once instead of for every edit.
        absent: The reasons why the dimension was not served, as an ordered set.
        raw_values: The values that are not imputed, to which a transformation is fitted.
        pairs: By pair, output and side (`+` or `-`), the outcome and the index of its item.
    """

    tally: Tally = field(default_factory=Tally)
    signatures: dict[int, Signature] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)
    raw_values: array[float] = field(default_factory=lambda: array("d"))
    pairs: dict[tuple[str, str], dict[str, tuple[_Side, int | None]]] = field(default_factory=dict)

    def add(self, how: _OfEdits, row: Row) -> None:
        """Add an edit."""
        outcome = row.outcomes[how.of]
        if (signature := row.signatures.get(how.of)) is not None:
            self.signatures[id(signature)] = signature
        if isinstance(how, Mean):
            if isinstance(outcome, NotServed):
                self.absent[outcome.reason] = None
            if outcome.status == "missing_output" and how.missing_output is not None:
                outcome = Score(value=how.missing_output, imputed=True)
            weight = row.outcomes[how.weighted_by] if how.weighted_by else None
            self.tally.add(outcome, weight, row.item_index)
            return
        value = None
        if isinstance(outcome, Score) and not outcome.imputed:
            value = outcome.value
        if isinstance(how, PooledMean):
            self.tally.add(outcome, item=row.item_index)
            if value is not None:
                self.raw_values.append(value)
        elif (place := how.pair(row.item)) is not None:
            pair, side = place
            side_value = outcome if value is None else value
            self.pairs.setdefault((pair, row.output), {})[side] = side_value, row.item_index

    def differences(self) -> tuple[Tally, array[int], array[float]]:
        """Return the differences of complete pairs.

        Also the item indices of their `-` sides, and the higher value of each pair.
        """
        tally, partners, highest = Tally(), array("I"), array("d")
        for sides in self.pairs.values():
            if len(sides) < 2:  # an item has no partner in the data
                continue
            (plus, number), (minus, partner) = sides["+"], sides["-"]
            difference = _difference(plus, minus)
            tally.add(difference, item=number)
            if isinstance(difference, Score) and partner is not None:
                partners.append(partner)
            if isinstance(plus, float) and isinstance(minus, float):
                highest.append(max(plus, minus))
        return tally, partners, highest


_ByModel: TypeAlias = Mapping[str, _ColumnValues]


def _make_cell(column: Column, model: str, data: _ByModel, cells: Mapping[str, Cell]) -> Cell:
    match column.how:
        case Mean() as how:
            return _make_mean_cell(column, how, data[model])
        case PairedDifference() as how:
            return _make_paired_cell(column, how, data[model])
        case PooledMean() as how:
            return _make_pooled_cell(column, how, data[model].tally, data)
        case Composite() as how:
            parts = {name: cells[part] for name, part in how.of.items()}
            return _make_composite_cell(column, how.fn, parts)
        case WeightedMean() as how:
            return _make_weighted_cell(column, how, cells)


def _make_mean_cell(column: Column, how: Mean, data: _ColumnValues) -> Cell:
    tally = data.tally
    signature = _make_signature(column, _describe_mean(how), [data])
    cell = tally.make_cell(_why_no_mean(tally), signature, how.affine)
    if not (how.needs_services and tally.counts["not_served"]):
        return cell
    reason = f"not served: {'; '.join(data.absent)}"
    return replace(cell, value=None, reason=reason, open_statuses=select_open_statuses(cell.counts))


def _why_no_mean(tally: Tally) -> str:
    if tally.values:
        return "every weight is 0"
    return "nothing scored" if tally.counts else "not applicable to any item"


def _describe_mean(how: Mean) -> str:
    scale, offset = how.affine
    mean = f"mean({how.of} by {how.weighted_by})" if how.weighted_by else f"mean({how.of})"
    return mean if how.affine == NO_SCALING else f"{scale:g}*{mean}{offset:+g}"


def _make_paired_cell(column: Column, how: PairedDifference, data: _ColumnValues) -> Cell:
    tally, _, _ = data.differences()
    reason = "nothing scored" if tally.counts else "no pairs"
    return tally.make_cell(reason, _make_signature(column, f"paired({how.of} as judged)", [data]))


_PUT_IN = NoScore(kind="degenerate", reason="a rule of the benchmark set one side of the pair")


def _difference(plus: _Side, minus: _Side) -> Outcome:
    """Return the difference `plus - minus`, or the outcome of the side without a judged value."""
    if isinstance(minus, NotApplicable):
        return minus
    if not isinstance(plus, float | Score):
        return plus
    if not isinstance(minus, float | Score):
        return minus
    if isinstance(plus, Score) or isinstance(minus, Score):
        return _PUT_IN
    return Score(value=plus - minus)


def _make_weighted_cell(column: Column, how: WeightedMean, cells: Mapping[str, Cell]) -> Cell:
    """Return the weighted mean of the columns whose dimension applies to at least one edit."""
    parts = {part: cells[part] for part in how.of if cells[part].asked}
    pairs = zip(how.of, how.by or how.of, strict=True)
    by = {part: cells[weight] for part, weight in pairs if part in parts}
    if how.count == "asked":
        return _make_weighted(column, parts, {part: cell.asked for part, cell in by.items()})
    weights = {part: cell.scored for part, cell in by.items()}
    waiting_parts = {part: cell.open_statuses for part, cell in parts.items() if cell.open_statuses}
    without = frozenset(
        part for part, cell in parts.items() if part not in waiting_parts and (cell.value is None or not weights[part])
    )
    # If no part has a value, none is left out, so that the reason names all parts.
    left_out = without if len(without) < len(parts) else frozenset[str]()
    mean = _make_weighted(column, parts, weights, left_out, aggregation="composite of judged")
    if not waiting_parts:
        return mean
    parts_text = (f"{part} ({_join_names(statuses)})" for part, statuses in waiting_parts.items())
    return replace(mean, reason=f"no value yet for {', '.join(parts_text)}")


def _join_names(statuses: Collection[str]) -> str:
    return ", ".join(sorted(statuses)).replace("_", " ")


def _make_weighted(
    column: Column,
    parts: Mapping[str, Cell],
    weights: Mapping[str, int],
    left_out: Collection[str] = (),
    *,
    aggregation: str = "composite",
) -> Cell:
    def mean(values: Values) -> float:
        total = sum(weights[name] for name in values)
        return math.fsum(value * weights[name] for name, value in values.items()) / total

    if any(weights.values()):
        return _make_composite_cell(column, mean, parts, left_out, aggregation=aggregation)
    cell = _make_composite_cell(column, lambda _: 0.0, parts, left_out, aggregation=aggregation)
    return replace(cell, value=None, reason=cell.reason or "every weight is 0")


def _make_composite_cell(
    column: Column,
    fn: Callable[[Values], float],
    parts: Mapping[str, Cell],
    left_out: Collection[str] = (),
    *,
    aggregation: str = "composite",
) -> Cell:
    """Apply a function to the parts; those in `left_out` enter only counts and signature."""
    counts: dict[Status, int] = {}
    for cell in parts.values():
        for status, count in cell.counts.items():
            counts[status] = counts.get(status, 0) + count
    imputed_count = sum(cell.imputed for cell in parts.values())
    made_of = "+".join(f"{name}={cell.signature.digest}" for name, cell in parts.items())
    signature = _sign_column(column, aggregation, made_of)
    used_parts = {name: cell for name, cell in parts.items() if name not in left_out}
    without = [name for name, cell in used_parts.items() if cell.value is None]
    if without or not parts:
        reason = f"no value for {', '.join(without)}" if without else "no parts"
        awaits = frozenset[Status]().union(*(used_parts[name].open_statuses for name in without))
        return Cell(None, counts, imputed_count, reason, signature, awaits)
    value = fn({name: cell.value for name, cell in used_parts.items() if cell.value is not None})
    return Cell(value, counts, imputed_count, "", signature)


def _make_pooled_cell(column: Column, how: PooledMean, tally: Tally, pool: _ByModel) -> Cell:
    signature = _make_signature(column, f"pooled({how.of})", pool.values())
    signature |= {"pool": "+".join(sorted(pool))}
    plain = tally.make_cell(_why_no_mean(tally), signature)
    try:
        transform = _fit_transform(how, pool.values())
    except ValueError as error:
        open_ = select_open_statuses(plain.counts)
        return replace(plain, value=None, reason=str(error), open_statuses=open_)
    values = tally.values
    value = math.fsum(map(transform, values)) / len(values) if values else None
    return replace(plain, value=value)


def _fit_transform(how: PooledMean, pool: Iterable[_ColumnValues]) -> Callable[[float], float]:
    return how.fit([value for each in pool for value in each.raw_values])


def _make_signature(column: Column, aggregation: str, data: Iterable[_ColumnValues]) -> Signature:
    """Return the signature of a column, which contains the digests of its values' signatures."""
    digests = {one.digest for each in data for one in each.signatures.values()}
    return _sign_column(column, aggregation, "+".join(sorted(digests)))


def _sign_column(column: Column, aggregation: str, of: str) -> Signature:
    fields = {"column": column.id, "protocol": column.protocol, "aggregation": aggregation}
    return Signature.of(fields | {"of": of})
