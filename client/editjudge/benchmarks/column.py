"""Columns: aggregates over a run, each with its coverage and its own signature."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SkipValidation

from ..base.item import Item
from ..base.signature import Signature
from ..base.verdict import Outcome
from .cell import NO_SCALING, Affine
from .fusion import Values


@dataclass(frozen=True, slots=True)
class Row:
    """One judged edit in the form that columns aggregate.

    Attributes:
        outcomes: By dimension id.
        signatures: Of the outcomes, by dimension id.
        item_index: The item's position in the data, from 0; None if no intervals are computed.
        output: Which of several outputs of the model it is, where the model has several.
    """

    item: Item
    model: str
    outcomes: Mapping[str, Outcome]
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    item_index: int | None = None
    output: str = ""


Where: TypeAlias = Callable[[Item], bool]
"""Says which items a column includes."""


@cache
def of_tasks(*tasks: str) -> Where:
    """Include the items of these tasks. It is one function each time, which tables call once."""
    return lambda item: item.task in tasks


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
        needs_services: The mean has no value while a service that an edit needs is missing, since
            a mean over the other edits would stand for different ones.
    """

    of: str
    where: Where = lambda _: True
    weighted_by: str = ""
    missing_output: float | None = None
    affine: Affine = NO_SCALING
    needs_services: bool = False


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of one dimension between two edits that belong together.

    Each pair counts once. One with a value missing has no difference: it counts as what is
    missing. Nor has one with a value that a rule set, since the difference would measure the
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
class WeightedMean:
    """The mean of other columns, each weighted by how many edits it has.

    An edit without a value stays in the coverage, and a column that asks about no edit takes no
    part. By the edits that have a value, this is of plain means the mean over all values of all
    columns. By those that are asked about, an edit without a value counts as the mean of the
    others of its column.

    A column without any value leaves the whole without one. Weighted by edits with a value, that
    is so only where it awaits one (not served, failed, pending): a mean over the rest would be of
    something else, and would move with the next run. Where all edits were judged, or have no
    output, the column takes no part.

    Attributes:
        of: Column ids.
        by: For each of them the column whose edits are its weight, by default itself. Of a
            column that is made of several metrics, every edit counts once for each metric.
        count: Which edits weigh: those with a value, or those that are asked about.
    """

    of: tuple[str, ...]
    by: tuple[str, ...] = ()
    count: Literal["scored", "asked"] = "scored"


@dataclass(frozen=True, slots=True)
class PooledMean:
    """The mean of a dimension after a transformation fitted to all models' values.

    A number of this kind changes when a model joins the pool, so its signature names it. An
    edit without a value is in neither fit nor mean, and stands in the coverage.

    Attributes:
        fit: From the values of every edit of every model to the transformation.
        of: Dimension id.
    """

    fit: Callable[[Sequence[float]], Callable[[float], float]]
    of: str


Aggregation: TypeAlias = Mean | PairedDifference | Composite | WeightedMean | PooledMean


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a paper's table of results.

    Attributes:
        id: `<benchmark>.<name>`, unique in its benchmark.
        title: What stands above the column.
        how: How its number is made of a model's edits, for example `Mean`.
        higher_is_better: Direction.
        source: Paper and table.
        group: What it belongs to in the paper's table; with `title` it names the column.
        protocol: In full, for example `kris.paper.1`. Its benchmark fills it in.
        decimals: To which the paper prints it; None for those of its benchmark.
    """

    id: str
    title: str
    how: Annotated[SkipValidation[Aggregation], Field(exclude=True)]
    higher_is_better: bool
    source: str = ""
    group: str = ""
    protocol: Annotated[str, Field(exclude=True)] = ""
    decimals: Annotated[int | None, Field(exclude=True)] = None

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The ids of the dimensions that the column reads itself."""
        match self.how:
            case Mean(of=of, weighted_by=weight):
                return (of, weight) if weight else (of,)
            case PairedDifference(of=of) | PooledMean(of=of):
                return (of,)
        return ()

    @property
    def operands(self) -> tuple[str, ...]:
        """The ids of the columns whose values it combines."""
        match self.how:
            case Composite(of=of):
                return tuple(of.values())
            case WeightedMean(of=columns):
                return columns
        return ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The operands, and the columns that weigh them."""
        weights = self.how.by if isinstance(self.how, WeightedMean) else ()
        return (*self.operands, *weights)
