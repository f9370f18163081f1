"""Omni IIE Bench: consistency across semantic scales, in one turn and in dialogues."""

from ..benchmark import OFFICIAL, PAPER, Benchmark
from .switches import OmniSwitches

BENCHMARK = Benchmark(
    "omni_iie",
    "Omni IIE Bench",
    "editjudge.benchmarks.omni_iie.dataset:OmniData",
    "editjudge.benchmarks.omni_iie.dimensions:dimensions",
    "editjudge.benchmarks.omni_iie.columns:columns",
    table="tables 2 to 5",
    paper_items=2856,
    switches=OmniSwitches,
    protocols={PAPER: OmniSwitches(), OFFICIAL: OmniSwitches.all_but()},
    decimals=3,
    has_official_paths=True,
)
