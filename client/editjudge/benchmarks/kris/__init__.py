"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import read_benchmark
from .switches import KrisSwitches

BENCHMARK = read_benchmark(__package__, KrisSwitches)
