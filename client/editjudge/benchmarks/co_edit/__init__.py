"""Co-EditBench: edits judged by reasoning and by specialists, capped by completeness."""

from ..benchmark import PAPER, Benchmark
from .switches import CoEditSwitches

BENCHMARK = Benchmark(
    "co_edit",
    "Co-EditBench",
    "editjudge.benchmarks.co_edit.dataset:CoEditData",
    "editjudge.benchmarks.co_edit.dimensions:dimensions",
    "editjudge.benchmarks.co_edit.columns:columns",
    table="tables 1, 7 and 13",
    paper_items=1118,
    version=3,
    switches=CoEditSwitches,
    protocols={PAPER: CoEditSwitches(specialists=True, reasoning=True)},
    no_official_reason="its authors have released no code",
)
