"""Co-EditBench: edits judged by reasoning and by specialists, capped by completeness."""

from ..benchmark import PAPER, Benchmark
from .columns import columns
from .dataset import CoEditData
from .dimensions import dimensions
from .switches import CoEditSwitches

BENCHMARK = Benchmark(
    "co_edit",
    "Co-EditBench",
    CoEditData,
    dimensions,
    columns,
    table="tables 1, 7 and 13",
    paper_items=1118,
    version=3,
    switches=CoEditSwitches,
    protocols={PAPER: CoEditSwitches(specialists=True, reasoning=True)},
    no_official_reason="its authors have released no code",
)
