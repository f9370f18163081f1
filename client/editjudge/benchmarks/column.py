"""Columns: numbers over a run, each with its coverage and a signature of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Literal, TypeAlias

from ..base.item import Item
from ..base.signature import Signature
from ..base.verdict import NotApplicable, NotServed, Outcome, Scored, Unscored
from .cell import AS_JUDGED, Cell, Tally, awaited
from .fusion import Values


@dataclass(frozen=True, slots=True)
class Row:
    """One judged edit, as columns see it.

    Attributes:
        outcomes: By dimension id.
        signatures: Of the outcomes, by dimension id.
    """

    item: Item
    model: str
    outcomes: Mapping[str, Outcome]
    signatures: Mapping[str, Signature] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one dimension over a model's edits.

    An edit without a value is left out of the mean and stands in the coverage.

    Attributes:
        of: Dimension id.
        where: The items to include, by default all.
        weighted_by: Dimension whose value is the weight of each edit, for example the area of
            its mask; each counts as 1 without. A value whose weight is not scored is left out,
            and counts as the weight's outcome.
        missing_output: What a missing output counts as; None leaves it out of the mean.
        affine: `(a, b)`: each value x counts as a*x + b, as on the paper's scale.
        served: Without a value as long as a service that an edit needs is not there: the mean
            over the edits that need none would be of others than those it stands for.
    """

    of: str
    where: Callable[[Item], bool] = lambda _: True
    weighted_by: str = ""
    missing_output: float | None = None
    affine: tuple[float, float] = AS_JUDGED
    served: bool = False


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean difference of one dimension between two edits that belong together.

    Each pair counts once. One with a value missing has no difference: it counts as what is
    missing. Nor has one with a value that a rule put in, since the difference would measure the
    rule: it counts as unscored.

    Attributes:
        of: Dimension id.
        pair: The pair that an item is in and its side of it, `+` or `-`; None for none. The
            difference is the value at `+` less that at `-`.
    """

    of: str
    pair: Callable[[Item], tuple[str, Literal["+", "-"]] | None]


@dataclass(frozen=True, slots=True)
class Composite:
    """A function of other columns of the same model.

    Without a value as soon as one of them is; edits without a value are in theirs, or not, by
    their own rules. The coverage is that of all of them together.

    Attributes:
        fn: From `{name: value}` to the value.
        of: Column ids by name.
    """

    fn: Callable[[Values], float]
    of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AskedWeighted:
    """The mean of other columns, each weighted by how many edits it asks about.

    An edit without a value so counts as the mean of the others of its column, and stays in the
    coverage. A column that asks about no edit takes no part; one without any value leaves the
    whole without one.

    Attributes:
        of: Column ids.
        by: For each of them the column whose edits are its weight, by default itself. Of a
            column that is made of several metrics, every edit counts once for each metric.
    """

    of: tuple[str, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredWeighted:
    """The mean of other columns, each weighted by how many of its edits have a value.

    Of plain means this is the mean over all values of all columns. An edit without a value stays
    in the coverage. A column that asks about no edit takes no part, nor does one where all edits
    were judged (or have no output) and none has a value. A column without any value that awaits
    one (not served, failed, pending) leaves the whole without one: a mean over the rest would be
    of something else, and would move with the next run.

    Attributes:
        of: Column ids.
        by: For each of them the column whose edits are its weight, by default itself.
    """

    of: tuple[str, ...]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pooled:
    """The mean of a dimension after a transformation fitted to all models' values.

    A number of this kind changes when a model joins the pool, so its signature names it. An
    edit without a value is in neither fit nor mean, and stands in the coverage.

    Attributes:
        fit: From the values of every edit of every model to the transformation.
        of: Dimension id.
    """

    fit: Callable[[Sequence[float]], Callable[[float], float]]
    of: str


Aggregation: TypeAlias = Mean | Paired | Composite | AskedWeighted | ScoredWeighted | Pooled


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a paper's table of results.

    Attributes:
        id: `<benchmark>.<name>`, unique in its benchmark.
        source: Paper and table.
        group: What it belongs to in the paper's table; with `title` it names the column.
        protocol: In full, for example `kris.paper.1`. Its benchmark fills it in.
        decimals: To which the paper prints it; None for those of its benchmark.
    """

    id: str
    title: str
    how: Aggregation
    higher_is_better: bool
    source: str = ""
    group: str = ""
    protocol: str = ""
    decimals: int | None = None

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Ids of the dimensions it reads itself."""
        match self.how:
            case Mean(of=of, weighted_by=weight):
                return (of, weight) if weight else (of,)
            case Paired(of=of) | Pooled(of=of):
                return (of,)
        return ()


def tabulate(columns: Iterable[Column], rows: Sequence[Row]) -> dict[str, dict[str, Cell]]:
    """Aggregate a run.

    Args:
        columns: A composite stands after the columns it is made of.
        rows: Edits of any number of models.

    Returns:
        `{model: {column id: cell}}`, models in order of first appearance.

    Raises:
        KeyError: a composite names a column that does not stand before it.
    """
    columns = tuple(columns)
    pool = _Pool(rows)
    table: dict[str, dict[str, Cell]] = {model: {} for model in pool.models}
    for column in columns:
        for model, cells in table.items():
            cells[column.id] = _cell(column, model, pool, cells)
    return table


class _Pool:
    """The rows of a run, sorted once for all columns."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.models: dict[str, list[Row]] = {}
        for row in rows:
            self.models.setdefault(row.model, []).append(row)
        self._chosen: dict[tuple[str, int], list[Row]] = {}
        self._values: dict[str, list[float]] = {}

    @property
    def rows(self) -> Iterator[Row]:
        """All of them, model by model."""
        return chain.from_iterable(self.models.values())

    def where(self, model: str, condition: Callable[[Item], bool]) -> Sequence[Row]:
        """A model's rows whose item meets a condition; each condition looks at them once."""
        # By identity: a callable need not have a hash, and the columns keep it alive.
        key = model, id(condition)
        if key not in self._chosen:
            self._chosen[key] = [row for row in self.models[model] if condition(row.item)]
        return self._chosen[key]

    def values(self, dimension: str) -> Sequence[float]:
        """What all models scored on a dimension, without what a rule put in."""
        if dimension not in self._values:
            self._values[dimension] = [
                one.value for one in _scored(self.rows, dimension) if not one.imputed
            ]
        return self._values[dimension]


def _cell(column: Column, model: str, pool: _Pool, cells: Mapping[str, Cell]) -> Cell:
    match column.how:
        case Mean() as how:
            return _mean(column, how, pool.where(model, how.where))
        case Paired() as how:
            return _paired(column, how, pool.models[model])
        case Composite() as how:
            parts = {name: cells[part] for name, part in how.of.items()}
            return _composite(column, how.fn, parts)
        case AskedWeighted() as how:
            return _asked_weighted(column, how, cells)
        case ScoredWeighted() as how:
            return _scored_weighted(column, how, cells)
        case Pooled() as how:
            return _pooled(column, how, pool.models[model], pool)


def _mean(column: Column, how: Mean, rows: Sequence[Row]) -> Cell:
    tally = Tally()
    for row in rows:
        outcome = row.outcomes[how.of]
        if outcome.status == "missing_output" and how.missing_output is not None:
            outcome = Scored(value=how.missing_output, imputed=True)
        tally.add(outcome, row.outcomes[how.weighted_by] if how.weighted_by else None)
    signature = _signature(column, _named(how), how.of, rows)
    cell = tally.cell(_why_no_mean(tally), signature, how.affine)
    if not (how.served and tally.counts["not_served"]):
        return cell
    outcomes = (row.outcomes[how.of] for row in rows)
    absent = dict.fromkeys(one.reason for one in outcomes if isinstance(one, NotServed))
    reason = f"not served: {'; '.join(absent)}"
    return replace(cell, value=None, reason=reason, awaits=awaited(cell.counts))


def _why_no_mean(tally: Tally) -> str:
    if tally.values:
        return "every weight is 0"
    return "nothing scored" if tally.counts else "not applicable to any item"


def _named(how: Mean) -> str:
    scale, offset = how.affine
    mean = f"mean({how.of} by {how.weighted_by})" if how.weighted_by else f"mean({how.of})"
    return mean if how.affine == AS_JUDGED else f"{scale:g}*{mean}{offset:+g}"


def _paired(column: Column, how: Paired, rows: Sequence[Row]) -> Cell:
    pairs: dict[str, dict[str, Outcome]] = {}
    for row in rows:
        if (place := how.pair(row.item)) is not None:
            pair, side = place
            pairs.setdefault(pair, {})[side] = row.outcomes[how.of]
    tally = Tally()
    for sides in pairs.values():
        plus, minus = sides.get("+"), sides.get("-")
        if plus is None or minus is None:
            continue  # an item that has no partner in the data
        tally.add(_difference(plus, minus))
    reason = "nothing scored" if tally.counts else "no pairs"
    signature = _signature(column, f"paired({how.of} as judged)", how.of, rows)
    return tally.cell(reason, signature)


_PUT_IN = Unscored(kind="degenerate", reason="a rule put in a side of the pair")


def _difference(plus: Outcome, minus: Outcome) -> Outcome:
    """Of a pair, or what it counts as: none where a side does not apply."""
    if isinstance(minus, NotApplicable):
        return minus
    if not isinstance(plus, Scored):
        return plus
    if not isinstance(minus, Scored):
        return minus
    if plus.imputed or minus.imputed:
        return _PUT_IN
    return Scored(value=plus.value - minus.value)


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
    counts: dict[str, int] = {}
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
        awaits = frozenset[str]().union(*(used[name].awaits for name in without))
        return Cell(None, counts, imputed, reason, signature, awaits)
    value = fn({name: cell.value for name, cell in used.items() if cell.value is not None})
    return Cell(value, counts, imputed, "", signature)


def _pooled(column: Column, how: Pooled, mine: Sequence[Row], pool: _Pool) -> Cell:
    plain = _mean(column, Mean(how.of), mine)
    signature = _signature(column, f"pooled({how.of})", how.of, pool.rows)
    signature |= {"pool": "+".join(sorted(pool.models))}
    try:
        transform = how.fit(pool.values(how.of))
    except ValueError as error:
        waits = awaited(plain.counts)
        return Cell(None, plain.counts, plain.imputed, str(error), signature, waits)
    values = [transform(one.value) for one in _scored(mine, how.of)]
    value = math.fsum(values) / len(values) if values else None
    return Cell(value, plain.counts, plain.imputed, plain.reason, signature, plain.awaits)


def _scored(rows: Iterable[Row], dimension: str) -> Iterator[Scored]:
    outcomes = (row.outcomes[dimension] for row in rows)
    return (outcome for outcome in outcomes if isinstance(outcome, Scored))


def _weighted_mean(values: Values, weights: Mapping[str, int]) -> float:
    total = sum(weights[name] for name in values)
    return math.fsum(value * weights[name] for name, value in values.items()) / total


def _signature(column: Column, aggregation: str, dimension: str, rows: Iterable[Row]) -> Signature:
    """Of a column over one dimension: every signature its values have, by digest."""
    signatures = (row.signatures.get(dimension) for row in rows)
    # A run has few signatures and many rows that share them: a digest for each would be slow.
    distinct = {id(one): one for one in signatures if one is not None}
    return Signature.of(
        {
            "column": column.id,
            "protocol": column.protocol,
            "aggregation": aggregation,
            "of": "+".join(sorted({one.digest for one in distinct.values()})),
        }
    )
