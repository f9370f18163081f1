"""A run that is there, with all that it is about."""

from __future__ import annotations

from pathlib import Path

from ..benchmarks.dataset import Dataset
from ..benchmarks.registry import benchmark as benchmark_of
from ..benchmarks.registry import dimensions as all_dimensions
from ..errors import ConfigError
from .store import RunHeader
from .work import Order


def dataset_of(benchmark: str, path: Path) -> Dataset:
    """The data of a benchmark.

    Raises:
        ConfigError: there is no such benchmark.
        InputError: there is nothing to read.
    """
    return benchmark_of(benchmark).data(path)


def order_of(header: RunHeader) -> Order:
    """What a run was asked for, as its header says.

    Raises:
        ConfigError: it has dimensions that this editjudge does not know, or its data changed.
        InputError: its data is not there any more.
    """
    known = all_dimensions()
    if unknown := [name for name in header.dimensions if name not in known]:
        raise ConfigError(
            f"the run has dimensions that are not known here: {', '.join(unknown)}",
            "install the package that adds them",
        )
    dataset = dataset_of(header.benchmark, Path(header.data))
    if dataset.digest != header.data_digest:
        raise ConfigError(f"{header.data} is not what it was when the run began", "restore it")
    outputs = {model: Path(folder) for model, folder in header.outputs.items()}
    dimensions = tuple(known[name] for name in header.dimensions)
    return Order(dataset, outputs, dimensions, known)
