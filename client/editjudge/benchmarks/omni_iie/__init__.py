"""Omni IIE Bench: consistency across semantic scales, in one turn and in dialogues."""

from ..benchmark import read_benchmark
from .switches import OmniSwitches

BENCHMARK = read_benchmark(__package__, OmniSwitches)
