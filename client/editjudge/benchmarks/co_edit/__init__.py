"""Co-EditBench: edits judged by reasoning and by specialists, capped by completeness."""

from ..benchmark import read_benchmark
from .switches import CoEditSwitches

BENCHMARK = read_benchmark(__package__, CoEditSwitches)
