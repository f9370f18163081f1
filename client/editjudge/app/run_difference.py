"""What makes the numbers of two runs differ, cause by cause."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from ..base.differences import compare_signatures
from ..base.errors import ConfigError
from ..base.strict import Strict
from ..base.verdict import Score
from ..benchmarks.column import Row
from ..storage.store import StoredVerdict
from .view import RunView

CAUSES = ("mean", "failures", "items", "reading", "judge")


class RunDifference(Strict):
    """Why the number of a model on a dimension differs in two runs. The parts add up to the difference.

    Attributes:
        second_dimension: The dimension of the second run, where it has another id.
        first: The number in the table of the first run.
        second: The number in that of the second run.
        parts: By cause, what it adds to second - first: the `mean` that is taken, `failures` that one of them
            counts at the worst value, other `items`, another `reading` of the same reply, and the `judge`.
        edits: Number of edits behind `failures`, `items`, `reading` and `judge`.
        causes: In what the signatures differ.
    """

    model: str
    dimension: str
    second_dimension: str
    first: float
    second: float
    parts: dict[str, float]
    edits: dict[str, int]
    causes: tuple[str, ...]


@dataclass
class _Side:
    """The edits of a model on a dimension, by item; `number` is that of the run's table."""

    values: dict[str, float] = field(default_factory=dict)
    replies: dict[str, Sequence[Any]] = field(default_factory=dict)
    signatures: set[str] = field(default_factory=set)
    worst: float | None = None
    number: float = 0.0


def explain_difference(first: RunView, second: RunView, matches: Mapping[str, str] = {}) -> tuple[RunDifference, ...]:
    """Explain the difference of each number that two runs have of one model and dimension.

    Args:
        matches: Dimensions of the second run by those of the first, where they have another id.

    Raises:
        ConfigError: there is no such number.
    """
    ones, others = _read_sides(first), _read_sides(second)
    pairs = [(key, other) for key in ones if (other := (key[0], matches.get(key[1], key[1]))) in others]
    if not pairs:
        raise ConfigError("no model has a number of one dimension in both", "name it: --match DIMENSION=DIMENSION")
    return tuple(_explain(key, ones[key], other, others[other]) for key, other in pairs)


def _read_sides(view: RunView) -> dict[tuple[str, str], _Side]:
    sides: dict[tuple[str, str], _Side] = defaultdict(_Side)

    def read(row: Row, records: Sequence[StoredVerdict]) -> None:
        for record in records:
            side = sides[row.model, record.dimension]
            side.replies[row.item.id] = [call.reply for call in record.replies]
            side.signatures.add(record.signature)
        for name, outcome in row.outcomes.items():
            if isinstance(outcome, Score):
                sides[row.model, name].values[row.item.id] = outcome.value

    cells, dimensions = view.results(each=read, evidence=True).models, view.resolved_spec.dimensions_by_id
    for (model, name), side in sides.items():
        side.worst, cell = dimensions[name].worst_value, cells.get(model, {}).get(name)
        side.number = cell.value if cell and cell.value is not None else fmean(side.values.values() or [0.0])
    return {key: side for key, side in sides.items() if side.values}


def _explain(key: tuple[str, str], first: _Side, other: tuple[str, str], second: _Side) -> RunDifference:
    common = first.values.keys() & second.values.keys()
    same = {item for item in common if first.replies.get(item) and first.replies[item] == second.replies.get(item)}
    parts, edits = dict.fromkeys(CAUSES, 0.0), dict.fromkeys(CAUSES[1:], 0)
    for side, opposite, sign in ((first, second, -1), (second, first, 1)):
        own = side.values.keys() - common
        failures = {item for item in own & opposite.replies.keys() if side.values[item] == side.worst}
        in_common = fmean(side.values[item] for item in common) if common else 0.0
        rest = [side.values[item] for item in side.values.keys() - failures]
        means = (side.number, fmean(side.values.values()), fmean(rest) if rest else in_common, in_common)
        for cause, (value, following) in zip(CAUSES, pairwise(means), strict=False):
            parts[cause] += sign * (value - following)
        edits |= {"failures": edits["failures"] + len(failures), "items": edits["items"] + len(own - failures)}
    for cause, items in (("reading", same), ("judge", common - same)):
        parts[cause] = sum(second.values[item] - first.values[item] for item in items) / max(1, len(common))
        edits[cause] = len(items)
    causes = {str(each) for a, b in product(first.signatures, second.signatures) for each in compare_signatures(a, b)}
    more = {"second_dimension": other[1], "first": first.number, "second": second.number, "causes": sorted(causes)}
    return RunDifference.model_validate(more | {"model": key[0], "dimension": key[1], "parts": parts, "edits": edits})
