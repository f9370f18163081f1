"""GIE-Bench: grounded evaluation of text-guided image editing."""

from ..benchmark import OFFICIAL, PAPER, Benchmark
from .switches import GieSwitches

BENCHMARK = Benchmark(
    "gie",
    "GIE-Bench",
    "editjudge.benchmarks.gie.dataset:data",
    "editjudge.benchmarks.gie.dimensions:dimensions",
    "editjudge.benchmarks.gie.columns:columns",
    table="tables 2 and 3",
    paper_items=1080,
    version=3,
    switches=GieSwitches,
    protocols={PAPER: GieSwitches(), OFFICIAL: GieSwitches.all_but()},
    has_official_paths=True,
)
