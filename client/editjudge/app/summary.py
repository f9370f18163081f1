"""Computes the mean of each dimension of a run, with coverage, from the stored verdicts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..base.signature import Signature
from ..base.text import group_by_key
from ..base.verdict import Failure, Status
from ..benchmarks.cell import Cell, Tally
from ..benchmarks.column import Column, Mean
from ..benchmarks.dimension import Dimension
from ..engine.run_plan import RunPlan
from ..storage.store import RunStore

Cells = dict[str, dict[str, Cell]]


def mean_columns(
    dimensions: Iterable[Dimension], titles: Mapping[str, str] = MappingProxyType({})
) -> tuple[Column, ...]:
    """Make a column for the mean of each dimension.

    Args:
        titles: The paper's name of a dimension, by id, which is added to the title.
    """
    return tuple(
        Column(d.id, _mean_title(d.id, titles.get(d.id)), Mean(d.id), d.higher_is_better, d.source) for d in dimensions
    )


def column_titles(table: Iterable[Column]) -> dict[str, str]:
    """Map dimensions to the titles of their means in a table, if all its columns agree."""
    titles = group_by_key((column.how.of, column.title) for column in table if isinstance(column.how, Mean))
    return {name: of[0] for name, of in titles.items() if len({*of}) == 1}


def _mean_title(dimension: str, title: str | None) -> str:
    name = dimension.partition(".")[2] or dimension
    shorter = {name.casefold(), name.rpartition(".")[2].replace("_", " ").casefold()}
    return name if title is None or title.casefold() in shorter else f"{name} ({title})"


def mean_cells(store: RunStore, plan: RunPlan) -> Cells:
    """Compute the mean of each model and dimension over the requested items and all its outputs.

    The result equals that of `tabulation.tabulate` over the same outcomes, without loading all of
    them into memory. Verdicts that do not exist yet count as `pending`.

    Args:
        plan: The plan of the session; verdicts with other signatures than its own do not count.
    """
    model_of = store.header.model_of
    tallies: dict[tuple[str, str], Tally] = {}
    # The run may hold more items than were requested.
    places = {plan.ids[index]: index for index in plan.selected_positions}
    for one in store.verdicts(evidence=False):
        is_current = plan.signatures.get(one.dimension) == one.signature
        if not is_current or one.model not in plan.todo or one.item not in places:
            continue
        # An earlier failure that is not judged again has another state by now, which is counted.
        is_due = one.dimension in plan.todo[one.model][places[one.item]]
        if is_due or not isinstance(one.verdict, Failure):
            tallies.setdefault((model_of.get(one.model, one.model), one.dimension), Tally()).add(one.verdict)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for name, row in plan.counts.items():
        for dimension, states in row.items():
            counts.setdefault(model_of.get(name, name), {}).setdefault(dimension, Counter()).update(states)
    return {
        model: {
            d.id: _cell(d, row[d.id], tallies.get((model, d.id), Tally()), plan.signatures[d.id])
            for d in plan.inputs.dimensions
        }
        for model, row in counts.items()
    }


def _cell(dimension: Dimension, plans: Mapping[str, int], tally: Tally, signature: str) -> Cell:
    inputs = Signature.parse(signature).digest if tally.counts else ""
    for status in ("missing_output", "not_served", "unscored"):
        if plans.get(status):
            tally.counts[status] += plans[status]
    total = sum(plans.values()) - tally.not_applicable_count
    if (pending := total - tally.counts.total()) > 0:
        tally.counts["pending"] = pending
    parts = {"column": dimension.id, "aggregation": f"mean({dimension.id})", "of": inputs}
    return tally.make_cell(_why_no_value(tally.counts), Signature.of(parts))


def _why_no_value(counts: Mapping[Status, int]) -> str:
    if not counts:
        return "not applicable to any item"
    words: Mapping[Status, str] = {"missing_output": "no outputs", "not_served": "not served"}
    if counts.get("pending"):
        return "not judged"
    if len(counts) == 1:
        return words.get(next(iter(counts)), "nothing scored")
    return "nothing scored"
