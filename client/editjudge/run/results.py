"""The paper's own table from a run: every edit's outcome, then the benchmark's columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..benchmarks.benchmark import Benchmark, Rules
from ..benchmarks.registry import benchmark as benchmark_of
from ..benchmarks.replicas import is_replica
from ..column import Cell, Column, Row, tabulate
from ..dimension import Derived, Dimension
from ..errors import ConfigError
from ..item import Item
from ..signature import Signature, untrained
from ..verdict import MissingOutput, NotApplicable, NotServed, Outcome, Pending, Scored
from .judge import derive
from .opened import order_of
from .plan import in_order
from .spread import Beside, beside
from .spread import as_json as beside_as_json
from .store import RunStore
from .summary import columns as means
from .work import Order, is_there

ALSO = "also judged"
"""The group of columns that are not in the paper's table."""


@dataclass(frozen=True)
class Results:
    """A run's table.

    Attributes:
        items: How many the data has.
        words: Whose words the prompts are in, `own`, `original` or both; None without prompts.
        identities: Of the services that the columns can rest on.
        beside: What each judge and each repeat says, where there are several.
    """

    benchmark: Benchmark
    protocol: str
    items: int
    words: str | None
    identities: Mapping[str, str]
    columns: tuple[Column, ...]
    cells: Mapping[str, Mapping[str, Cell]]
    beside: Beside


def results(
    store: RunStore, single_image: Collection[str] = (), rules: Rules | None = None
) -> Results:
    """Aggregate a run; nothing is called, and outputs are not looked at.

    Verdicts count that were made by the services of the last session, with today's prompts and
    code. Everything else that was asked for counts as `pending`.

    Args:
        single_image: Models under test that take one image only: what they gave no output for
            counts as the benchmark says, marked as imputed.
        rules: Others than the run's own: what is derived from other dimensions is derived anew,
            and what would have to be read anew counts as `pending`.

    Raises:
        ConfigError: a model is not in the run, or the benchmark has no rule for such models.
        InputError: the data is not there any more.
    """
    header = store.header
    benchmark = benchmark_of(header.benchmark)
    if unknown := [model for model in single_image if model not in header.outputs]:
        raise ConfigError(
            f"the run has no model {unknown[0]!r}", f"it has {', '.join(header.outputs)}"
        )
    rules = rules or benchmark.rules_named(header.protocol)
    if single_image and rules.single_image is None:
        raise ConfigError(
            f"{rules.protocol} has no rule for models that take one image only",
            "leave --single-image out",
        )
    order = order_of(header, rules)
    table = _columns(rules, order)
    rows = list(_rows(store, order, table, rules.single_image, frozenset(single_image)))
    cells = tabulate(table, rows)
    words = {part for d in order.dimensions if d.words for part in d.words.split("+")}
    of = {name for column in table for name in column.dimensions}
    roles = order.roles(name for name in order.known if name in of)
    return Results(
        benchmark,
        rules.protocol,
        len(rows) // max(1, len(header.outputs)),
        "+".join(sorted(words)) or None,
        {role: one for role, one in header.identities.items() if role in roles},
        table,
        cells,
        beside(table, cells, rows, order.replicas, order.known, {d.id for d in order.dimensions}),
    )


def _columns(rules: Rules, order: Order) -> tuple[Column, ...]:
    """The paper's, then the means of what was judged besides."""
    known = {name for column in rules.columns for name in column.dimensions}
    others = means(d for d in order.dimensions if d.id not in known and not is_replica(d.id))
    if not rules.columns:
        return others
    return rules.columns + tuple(
        Column(c.id, c.id, c.how, c.higher_is_better, c.source, ALSO) for c in others
    )


def _rows(
    store: RunStore,
    order: Order,
    table: tuple[Column, ...],
    imputed: float | None,
    single_image: frozenset[str],
) -> Iterator[Row]:
    """Every edit that was asked for."""
    header = store.header
    of = {name for column in table for name in column.dimensions}
    dimensions = in_order((order.known[name] for name in order.known if name in of), order.known)
    today = Order(order.dataset, order.outputs, dimensions, order.known).signatures(
        header.identities
    )
    signatures = {name: Signature.parsed(text) for name, text in today.items()}
    missing = {(e.model, e.item): e.missing for e in store.edits() if e.digest is None}
    unserved = {d.id: order.roles([d.id]) & header.not_served.keys() for d in dimensions}
    judged: dict[tuple[str, str], dict[str, Outcome]] = {}
    for one in store.verdicts(evidence=False):
        if today.get(one.dimension) == one.signature:
            judged.setdefault((one.model, one.item), {})[one.dimension] = one.verdict
    items = [order.dataset.outline(ref) for ref in order.dataset.items()]
    for model in header.outputs:
        for item in items:
            found = judged.get((model, item.id), {})
            why = missing.get((model, item.id))
            alone = model in single_image and len(item.sources) > 1
            rule = imputed if alone and not is_there(why or "") else None
            outcomes: dict[str, Outcome] = {}
            for d in dimensions:
                outcomes[d.id] = found.get(d.id) or _without(
                    d, item, outcomes, why, rule, unserved[d.id]
                )
            yield Row(item, model, outcomes, {name: signatures[name] for name in found})


def _without(
    dimension: Dimension,
    item: Item,
    outcomes: Mapping[str, Outcome],
    missing: str | None,
    rule: float | None,
    unserved: frozenset[str],
) -> Outcome:
    """What stands where there is no verdict."""
    reason = dimension.not_applicable(item)
    if reason is not None:
        return NotApplicable(reason=reason)
    if isinstance(dimension.how, Derived) and not dimension.readings:
        return derive(dimension.how, {n: outcomes[str(p)] for n, p in dimension.how.of.items()})
    if missing is None:
        return NotServed(reason=", ".join(sorted(unserved))) if unserved else Pending()
    if rule is not None:
        return Scored(value=rule, imputed=True)
    return MissingOutput(reason=missing or "the model gave no image")


def as_json(found: Results) -> dict[str, Any]:
    """The table as plain data."""
    from .summary import as_json as cells_as_json

    return {
        "benchmark": found.benchmark.name,
        "protocol": found.protocol,
        "prompts": found.words,
        "items": found.items,
        "services": dict(found.identities),
        "untrained": list(untrained(found.identities)),
        "columns": [
            {
                "id": column.id,
                "group": column.group,
                "title": column.title,
                "higher_is_better": column.higher_is_better,
                "source": column.source,
            }
            for column in found.columns
        ],
        "models": cells_as_json({model: dict(row) for model, row in found.cells.items()}),
        **beside_as_json(found.beside),
    }
