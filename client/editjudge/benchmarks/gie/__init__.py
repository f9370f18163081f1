"""GIE-Bench: grounded evaluation of text-guided image editing."""

from ..benchmark import read_benchmark
from .switches import GieSwitches

BENCHMARK = read_benchmark(__package__, GieSwitches)
