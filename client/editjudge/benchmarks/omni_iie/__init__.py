"""Omni IIE Bench: consistency across semantic scales, in one turn and in dialogues."""

from ..benchmark import OFFICIAL, PAPER, Benchmark, Parts
from .columns import columns
from .dataset import OmniData
from .dimensions import dimensions
from .protocol import SWITCHES

BENCHMARK = Benchmark(
    "omni_iie",
    "Omni IIE Bench",
    OmniData,
    lambda on: Parts(dimensions(on), columns(on)),
    table="tables 2 to 5",
    switches=SWITCHES,
    protocols={PAPER: frozenset(), OFFICIAL: frozenset(one.name for one in SWITCHES)},
    decimals=3,
    remaps=True,
)
