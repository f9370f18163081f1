"""I2I-Bench: single-image and multi-image editing in 30 dimensions."""

from ..benchmark import PAPER, Benchmark
from .switches import I2iSwitches

BENCHMARK = Benchmark(
    "i2i",
    "I2I-Bench",
    "editjudge.benchmarks.i2i.dataset:I2iData",
    "editjudge.benchmarks.i2i.dimensions:dimensions",
    "editjudge.benchmarks.i2i.columns:columns",
    table="tables 1 and 2",
    paper_items=1000,
    version=3,
    decimals=3,
    switches=I2iSwitches,
    protocols={PAPER: I2iSwitches()},
    no_official_reason="its authors have released neither code nor data",
)
