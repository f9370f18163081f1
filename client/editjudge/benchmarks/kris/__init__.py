"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import PAPER, Benchmark, Parts
from .columns import COLUMNS
from .dataset import KrisData
from .dimensions import DIMENSIONS, LOW

BENCHMARK = Benchmark(
    "kris",
    "KRIS-Bench",
    KrisData,
    lambda _: Parts(DIMENSIONS, COLUMNS),
    table="table 2",
    protocols={PAPER: frozenset()},
    single_image=LOW,
)
