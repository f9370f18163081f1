"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import OFFICIAL, PAPER, Benchmark
from .switches import KrisSwitches

BENCHMARK = Benchmark(
    "kris",
    "KRIS-Bench",
    "editjudge.benchmarks.kris.dataset:KrisData",
    "editjudge.benchmarks.kris.dimensions:dimensions",
    "editjudge.benchmarks.kris.columns:columns",
    "editjudge.benchmarks.kris.dimensions:get_single_image_value",
    table="table 2",
    paper_items=1267,
    switches=KrisSwitches,
    protocols={PAPER: KrisSwitches(), OFFICIAL: KrisSwitches.all_but("simple_prompts")},
)
