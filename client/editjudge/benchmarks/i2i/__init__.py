"""I2I-Bench: single-image and multi-image editing in 30 dimensions."""

from ..benchmark import read_benchmark
from .switches import I2iSwitches

BENCHMARK = read_benchmark(__package__, I2iSwitches)
