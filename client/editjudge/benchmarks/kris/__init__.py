"""KRIS-Bench: knowledge-based reasoning in image editing."""

from ..benchmark import OFFICIAL, PAPER, Benchmark, Rules
from .columns import columns
from .dataset import KrisData
from .dimensions import LOW, dimensions
from .switches import KrisSwitches


def _rules(switches: KrisSwitches) -> Rules:
    single_image = None if switches.missing_skipped else LOW
    return Rules(dimensions(switches), columns(switches), single_image)


BENCHMARK = Benchmark(
    "kris",
    "KRIS-Bench",
    KrisData,
    _rules,
    table="table 2",
    switches=KrisSwitches,
    protocols={PAPER: KrisSwitches(), OFFICIAL: KrisSwitches.official()},
    official_prompts="kris",
)
