"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import OFFICIAL, PAPER, Benchmark
from .columns import columns
from .dataset import KrisData
from .dimensions import LOW, dimensions
from .switches import KrisSwitches

BENCHMARK = Benchmark(
    "kris",
    "KRIS-Bench",
    KrisData,
    dimensions,
    columns,
    lambda on: None if on.missing_skipped else LOW,
    table="table 2",
    paper_items=1267,
    switches=KrisSwitches,
    protocols={PAPER: KrisSwitches(), OFFICIAL: KrisSwitches.all_but("simple_prompts")},
)
