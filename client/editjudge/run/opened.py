"""What a run is about, from what was asked for or from the header of one that is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..benchmarks.benchmark import Benchmark, Rules
from ..benchmarks.dataset import Dataset
from ..benchmarks.registry import benchmark as benchmark_of
from ..benchmarks.registry import dimensions as all_dimensions
from ..benchmarks.registry import select
from ..benchmarks.replicas import Replicas, replicated, with_replicas
from ..dimension import Dimension
from ..errors import ConfigError
from .judge import roles_of
from .store import RunHeader
from .work import Order


def dataset_of(benchmark: Benchmark, path: Path, roots: Mapping[str, str] | None = None) -> Dataset:
    """The data of a benchmark.

    Args:
        roots: Where files lie that the data names by its authors' paths.

    Raises:
        ConfigError: there are roots, and this data names no such files.
        InputError: there is nothing to read.
    """
    if not benchmark.remaps:
        if roots:
            raise ConfigError(f"the data of {benchmark.name} has no roots", "leave --root out")
        return benchmark.data(path)
    return benchmark.data(path, roots=dict(roots or {}))


def ordered(
    benchmark: Benchmark,
    rules: Rules,
    dataset: Dataset,
    outputs: Mapping[str, Path],
    patterns: Iterable[str] = (),
    *,
    limit: int | None = None,
    tasks: Iterable[str] = (),
    replicas: Replicas | None = None,
) -> Order:
    """An order.

    Args:
        patterns: Ids or globs of dimensions; the benchmark's own without.

    Raises:
        ConfigError: a pattern matches nothing, or prompts that are asked are not imported.
    """
    chosen = select(patterns, rules)
    for one in chosen:
        _ = one.words  # ends here where the authors' prompts that it asks are not imported
    replicas = replicas or Replicas()
    known = replicated(rules.known(all_dimensions()), replicas)
    return Order(
        dataset,
        outputs,
        with_replicas(chosen, known),
        known,
        rules.protocol,
        limit,
        tuple(tasks),
        replicas,
    )


def known_of(header: RunHeader, rules: Rules | None = None) -> dict[str, Dimension]:
    """All dimensions by id, as a run has them.

    Args:
        rules: Others than the run's own.
    """
    rules = rules or benchmark_of(header.benchmark).rules_named(header.protocol)
    replicas = Replicas(header.judges, header.repeats)
    return replicated(rules.known(all_dimensions()), replicas)


def waiting(header: RunHeader) -> dict[str, str]:
    """The dimensions of a run that wait for a service no session had, each with the reason.

    Nothing of a run by an older reading of its benchmark: its dimensions are not known any more.
    """
    if not header.not_served:
        return {}
    try:
        known = known_of(header)
    except ConfigError:
        return {}
    found = {}
    for name in (name for name in header.dimensions if name in known):
        absent = sorted(roles_of(known[name], known) & header.not_served.keys())
        if absent:
            found[name] = "; ".join(f"{role}: {header.not_served[role]}" for role in absent)
    return found


def order_of(header: RunHeader, rules: Rules | None = None) -> Order:
    """What a run was asked for, as its header says.

    Args:
        rules: Others than the run's own.

    Raises:
        ConfigError: it has dimensions that this editjudge does not know, or its data changed.
        InputError: its data is not there any more.
    """
    benchmark = benchmark_of(header.benchmark)
    known = known_of(header, rules)
    # What the run's own rules have and these do without is left out.
    own = {d.id for d in benchmark.rules_named(header.protocol).dimensions} if rules else set()
    names = [n for n in header.dimensions if n in known or n.partition("@")[0] not in own]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"the run has dimensions that are not known here: {', '.join(unknown)}",
            "install the package that adds them",
        )
    dataset = dataset_of(benchmark, Path(header.data), header.roots)
    if dataset.digest != header.data_digest:
        raise ConfigError(f"{header.data} is not what it was when the run began", "restore it")
    return Order(
        dataset,
        {model: Path(folder) for model, folder in header.outputs.items()},
        tuple(known[name] for name in names),
        known,
        rules.protocol if rules else header.protocol,
        replicas=Replicas(header.judges, header.repeats),
    )
