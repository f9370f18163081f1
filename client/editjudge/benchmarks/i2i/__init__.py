"""I2I-Bench: single-image and multi-image editing in 30 dimensions."""

from ..benchmark import PAPER, Benchmark
from .columns import columns
from .dataset import I2iData
from .dimensions import dimensions
from .switches import I2iSwitches

BENCHMARK = Benchmark(
    "i2i",
    "I2I-Bench",
    I2iData,
    dimensions,
    columns,
    table="tables 1 and 2",
    paper_items=1000,
    version=3,
    decimals=3,
    switches=I2iSwitches,
    protocols={PAPER: I2iSwitches()},
    no_official_reason="its authors have released neither code nor data",
)
