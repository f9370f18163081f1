"""Omni IIE Bench: consistency across semantic scales, in one turn and in dialogues."""

from ..benchmark import OFFICIAL, PAPER, Benchmark
from .columns import columns
from .dataset import OmniData
from .dimensions import dimensions
from .switches import OmniSwitches

BENCHMARK = Benchmark(
    "omni_iie",
    "Omni IIE Bench",
    OmniData,
    dimensions,
    columns,
    table="tables 2 to 5",
    paper_items=2856,
    switches=OmniSwitches,
    protocols={PAPER: OmniSwitches(), OFFICIAL: OmniSwitches.all_but()},
    decimals=3,
    has_official_paths=True,
)
