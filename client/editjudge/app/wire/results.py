"""Tables of a run as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Self

from ...base.identity import printed, untrained
from ...benchmarks import cell as of
from ...engine.items import ItemChanges
from .. import agreement, spread
from ..published import PublishedBeside
from ..results import Results
from .base import Status, Wire


class CellInterval(Wire):
    """How sure a number is, if other source pictures had been drawn.

    Attributes:
        low: Where the 95 % interval begins; null where there is none, and `reason` says why.
        high: Where it ends.
        error: The standard error.
        clusters: Groups of edits that share no source picture with each other.
        method: `clustered` of means; `jackknife`, over the same clusters, of what is made of them.
    """

    low: float | None
    high: float | None
    error: float | None
    clusters: int
    method: Literal["clustered", "jackknife"]
    reason: str = ""

    @classmethod
    def of(cls, interval: of.Interval) -> Self:
        """As JSON."""
        return cls.model_validate(interval, from_attributes=True)


class Cell(Wire):
    """A column's number for a model, with its coverage.

    Attributes:
        value: Null where there is none; `reason` says why.
        scored: On how many edits it rests.
        asked: How many it asks about.
        counts: Of these, by status; without those that it does not apply to. With `--common`,
            `left_out` are those on which another model has no number.
        imputed: How many of the scored a rule put in.
        signature: What the number depends on.
        interval: Of `summary` alone; null elsewhere, and where there is no value.
        capped: How many of the scored are the largest that their metric can say.
        other_items: The number rests on items on which not all models have one.
    """

    value: float | None
    scored: int
    asked: int
    counts: dict[Status | Literal["left_out"], int]
    imputed: int
    reason: str
    signature: str
    interval: CellInterval | None = None
    capped: int = 0
    other_items: bool = False

    @classmethod
    def of(cls, cell: of.Cell) -> Self:
        """As JSON."""
        return cls.model_validate(
            {
                "value": cell.value,
                "scored": cell.scored,
                "asked": cell.asked,
                "counts": dict(cell.counts),
                "imputed": cell.imputed,
                "reason": cell.reason,
                "signature": str(cell.signature),
                "interval": CellInterval.of(cell.interval) if cell.interval else None,
                "capped": cell.capped,
                "other_items": cell.other_items,
            }
        )


def table(cells: Mapping[str, Mapping[str, of.Cell]]) -> dict[str, dict[str, Cell]]:
    """Cells by model and column."""
    return {
        model: {name: Cell.of(cell) for name, cell in row.items()} for model, row in cells.items()
    }


class Counted(Wire):
    """How many there are, and the first; null where there is none."""

    count: int
    first: str | None

    @classmethod
    def of(cls, names: Collection[str]) -> Self:
        """As JSON."""
        return cls(count=len(names), first=next(iter(names), None))


class DataChanges(Wire):
    """What became of a run's items since they were judged.

    Attributes:
        changed: They say or show something else: what was judged of them is to be judged again.
        new: The run did not know them.
        gone: They were judged, and are not in the data any more: they count no more.
        outputs: By model under test, outputs that are others than those that were judged.
    """

    changed: Counted
    new: Counted
    gone: Counted
    outputs: dict[str, Counted]

    @classmethod
    def of(cls, changes: ItemChanges) -> Self:
        """As JSON."""
        return cls(
            changed=Counted.of(changes.changed),
            new=Counted.of(changes.new),
            gone=Counted.of(changes.gone),
            outputs={model: Counted.of(items) for model, items in changes.outputs.items()},
        )


class Column(Wire):
    """A column of a table."""

    id: str
    group: str
    title: str
    higher_is_better: bool
    source: str


class Spread(Wire):
    """A column's number by some judges, and by each round of theirs.

    Attributes:
        value: Of each edit's mean over the rounds.
        sd: The sample standard deviation over rounds; null with one round.
        rounds: The number of each round; empty with one.
    """

    value: float | None
    sd: float | None
    rounds: tuple[float | None, ...]
    scored: int
    asked: int
    reason: str

    @classmethod
    def of(cls, of_column: spread.Spread) -> Self:
        """As JSON."""
        return cls(
            value=of_column.cell.value,
            sd=of_column.deviation,
            rounds=of_column.rounds,
            scored=of_column.cell.scored,
            asked=of_column.cell.asked,
            reason=of_column.cell.reason,
        )


class Figure(Wire):
    """A figure of agreement, or why there is none."""

    value: float | None
    reason: str

    @classmethod
    def of(cls, figure: agreement.Figure) -> Self:
        """As JSON."""
        return cls(value=figure.value, reason=figure.reason)


class Agreement(Wire):
    """How far two judges agree, or one with itself."""

    dimension: str
    judges: tuple[str, ...]
    edits: int
    figures: dict[str, Figure]

    @classmethod
    def of(cls, agreed: spread.Agreement) -> Self:
        """As JSON."""
        figures = {name: Figure.of(figure) for name, figure in agreed.figures.items()}
        return cls(
            dimension=agreed.dimension, judges=agreed.judges, edits=agreed.edits, figures=figures
        )


class PublishedTable(Wire):
    """Numbers that a paper prints, by model and column; in no number of the run.

    Attributes:
        source: Which table of the paper.
        judge: By which generalist.
    """

    source: str
    judge: str
    note: str
    models: dict[str, dict[str, float]]


class Comparability(Wire):
    """Whether a column of the run can be compared with the printed one, and why."""

    comparable: bool
    why: str


class Published(Wire):
    """`summary --published --json`: what the paper prints of the run's columns."""

    tables: tuple[PublishedTable, ...]
    columns: dict[str, Comparability]

    @classmethod
    def of(cls, beside: PublishedBeside) -> Self:
        """As JSON."""
        return cls(
            tables=tuple(
                PublishedTable.model_validate(one, from_attributes=True) for one in beside.tables
            ),
            columns={
                name: Comparability(comparable=one.comparable, why=one.why)
                for name, one in beside.comparability.items()
            },
        )


class Summary(Wire):
    """`summary --json`: a run as its benchmark's table.

    Attributes:
        prompts: Whose words the judges were asked in: `own`, `original`, `custom`, or several
            joined by `+`; null without.
        services: Identities of those that the columns can rest on.
        untrained: Those of them with random weights.
        count_missing: Whether missing outputs count as the worst value.
        common: Whether dimensions count the items alone on which all models have a number.
        sources: Groups of items that share no source picture with each other.
        data: What became of the items; what changed is `pending`.
        models: Cells by model and column.
        rounds: How often each judge judged.
        ensemble: By model and column; empty where one judge judged once, like the next two.
        judges: By model, judge and column.
        agreement: By dimension: each two judges, then each judge's rounds.
        published: With `--published` what the paper prints; null without.
        unserved: With `--unserved` the dimensions that wait for models, by reason; null without.
    """

    benchmark: str
    protocol: str
    prompts: str | None
    items: int
    services: dict[str, str]
    untrained: tuple[str, ...]
    count_missing: bool
    common: bool
    sources: int
    data: DataChanges
    columns: tuple[Column, ...]
    models: dict[str, dict[str, Cell]]
    rounds: int
    ensemble: dict[str, dict[str, Spread]]
    judges: dict[str, dict[str, dict[str, Spread]]]
    agreement: tuple[Agreement, ...]
    published: Published | None = None
    unserved: dict[str, tuple[str, ...]] | None = None

    @classmethod
    def of(
        cls,
        results: Results,
        beside_it: PublishedBeside | None = None,
        unserved: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """As JSON.

        Args:
            beside_it: What the paper prints.
            unserved: Dimensions that nobody serves, by reason.
        """
        beside = results.beside
        return cls(
            benchmark=results.benchmark.name,
            protocol=results.protocol,
            prompts=results.words,
            items=results.items,
            services=printed(results.identities),
            untrained=tuple(map(str, untrained(results.identities))),
            count_missing=results.count_missing,
            common=results.common,
            sources=results.sources,
            data=DataChanges.of(results.changes),
            columns=tuple(
                Column.model_validate(one, from_attributes=True) for one in results.columns
            ),
            models=table(results.cells),
            rounds=beside.judge_rounds.rounds,
            ensemble={model: _spreads(row) for model, row in beside.ensemble.items()},
            judges={
                model: {judge: _spreads(of[model]) for judge, of in beside.judges.items()}
                for model in beside.ensemble
            },
            agreement=tuple(map(Agreement.of, beside.agreement)),
            published=Published.of(beside_it) if beside_it else None,
            unserved=None if unserved is None else {why: tuple(n) for why, n in unserved.items()},
        )


def _spreads(row: Mapping[str, spread.Spread]) -> dict[str, Spread]:
    return {name: Spread.of(one) for name, one in row.items()}
