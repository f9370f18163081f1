"""Table 2 of the paper, metrics by reasoning dimension and their averages; then figure 4."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Literal

from ..column import Aggregation, Column, Composite, Mean, WeightedMean, of_tasks
from ..fusion import mean
from .switches import KrisSwitches
from .taxonomy import REASONING_DIMENSIONS, TABLES, TAXONOMY, TESTS_KNOWLEDGE

METRICS: Mapping[str, str] = TABLES["metrics"]
"""The metrics with their titles."""
TO_PERCENT = (25.0, -25.0)
"""1 to 5 becomes 0 to 100 (section 4.2)."""
_SOURCE = "KRIS-Bench, table 2"


def _words(name: str) -> str:
    return name.replace("_", " ").title()


def _metrics(dimension: str) -> tuple[str, ...]:
    """Return the metrics that apply: three, or four if the dimension tests knowledge."""
    return tuple(m for m in METRICS if m != "knowledge_plausibility" or dimension in TESTS_KNOWLEDGE)


def _ids(dimension: str) -> dict[str, str]:
    """Return the column ids of a reasoning dimension's metrics."""
    return {name: f"kris.{dimension}.{name}" for name in _metrics(dimension)}


def _of_dimension(dimension: str, switches: KrisSwitches) -> Iterator[Column]:
    """Yield the columns of a reasoning dimension: its metrics and their mean."""
    where = of_tasks(*(task for task, of in REASONING_DIMENSIONS.items() if of == dimension))
    how: Aggregation = Composite(mean, _ids(dimension))
    if switches.pooled_metrics and switches.missing_skipped:
        # While every item has all of its metrics, values and metrics weigh the same.
        how = WeightedMean(tuple(_ids(dimension).values()))
    group = _words(dimension)
    for name, column in _ids(dimension).items():
        yield Column(column, METRICS[name], Mean(f"kris.{name}", where, affine=TO_PERCENT), True, _SOURCE, group)
    yield Column(f"kris.{dimension}", "Avg", how, True, _SOURCE, group)


def _average(name: str, dimensions: tuple[str, ...], switches: KrisSwitches) -> Column:
    """Make the average over reasoning dimensions, weighted by items or by metrics' values."""
    count: Literal["scored", "asked"] = "scored" if switches.missing_skipped else "asked"
    if switches.pooled_metrics:
        parts = tuple(c for d in dimensions for c in _ids(d).values())
        how = WeightedMean(parts, count=count)
    else:
        how = WeightedMean(
            tuple(f"kris.{dimension}" for dimension in dimensions),
            by=tuple(f"kris.{dimension}.visual_consistency" for dimension in dimensions),
            count=count,
        )
    return Column(f"kris.{name}", "Average", how, True, _SOURCE, _words(name))


def _of_task(task: str, column: str, dimension: str, group: str, source: str) -> Column:
    how = Mean(f"kris.{dimension}", of_tasks(task), affine=TO_PERCENT)
    return Column(f"kris.task.{column}", _words(task), how, True, source, group)


def _by_task() -> Iterator[Column]:
    for task in REASONING_DIMENSIONS:
        yield _of_task(task, task, "average", "By task", "KRIS-Bench, metrics of figure 3 by task")
    for (metric, short), (task, dimension) in product(METRICS.items(), REASONING_DIMENSIONS.items()):
        if metric in _metrics(dimension):
            yield _of_task(task, f"{task}.{metric}", metric, f"{short} by task", "KRIS-Bench, figure 4")


BY_TASK = tuple(_by_task())
"""The mean of each of the 22 tasks over all metrics of an edit, then of each metric (figure 4)."""


def columns(switches: KrisSwitches) -> tuple[Column, ...]:
    """Return the paper's table, then `BY_TASK`."""
    table: list[Column] = []
    for name, dimensions in TAXONOMY.items():
        for dimension in dimensions:
            table += _of_dimension(dimension, switches)
        table.append(_average(name, tuple(dimensions), switches))
    every = tuple(d for dimensions in TAXONOMY.values() for d in dimensions)
    return (*table, _average("overall", every, switches), *BY_TASK)
