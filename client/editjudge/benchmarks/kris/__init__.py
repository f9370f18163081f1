"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import OFFICIAL, PAPER, Benchmark, Parts
from .columns import columns
from .dataset import KrisData
from .dimensions import LOW, dimensions
from .official import ORIGINALS, SWITCHES

BENCHMARK = Benchmark(
    "kris",
    "KRIS-Bench",
    KrisData,
    lambda on: Parts(dimensions(on), columns(on), None if "missing_skipped" in on else LOW),
    table="table 2",
    switches=SWITCHES,
    protocols={PAPER: frozenset(), OFFICIAL: frozenset(one.name for one in SWITCHES)},
    originals=ORIGINALS,
)
