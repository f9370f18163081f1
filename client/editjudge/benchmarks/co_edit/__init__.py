"""Co-EditBench: edits judged by reasoning and by specialists, capped by completeness."""

from ..benchmark import PAPER, Benchmark, Parts, Switch
from .columns import make_columns
from .dataset import CoEditData
from .dimensions import (
    DECAYING,
    PLAIN,
    POOLED,
    REASONING,
    SHIFTED,
    SPECIALISTS,
    UNIFORM,
    make_dimensions,
)

SWITCHES = (
    Switch(
        SPECIALISTS,
        "CLIP, DINO and LPIPS take part; off, the composites are the reasoning's alone",
        "appendix C.2 (w/o TME)",
    ),
    Switch(
        REASONING,
        "the scores of the two calls take part; off, the composites are the specialists' alone, "
        "and nothing caps them",
        "section 3.3; the paper's w/o CoT is plain_questions",
    ),
    Switch(
        PLAIN,
        "the two calls ask for the scores without inspection points and steps",
        "appendix C.2 (w/o CoT)",
    ),
    Switch(UNIFORM, "every part of every composite has weight 1", "appendix C.2 (weight=1.0)"),
    Switch(
        SHIFTED,
        "a cosine counts as 10 (1 + cos) / 2 instead of 10 max(0, cos)",
        "not in the paper, which gives no mapping",
    ),
    Switch(
        DECAYING,
        "a distance counts as 10 exp(-d) instead of 10 (1 - min(1, d))",
        "not in the paper, which gives no mapping",
    ),
    Switch(
        POOLED,
        "a region is averaged over, instead of blacking out all else",
        "not in the paper, which leaves it open",
    ),
)


def _parts(on: frozenset[str]) -> Parts:
    dimensions = make_dimensions(on)
    return Parts(dimensions, make_columns(dimensions))


BENCHMARK = Benchmark(
    "co_edit",
    "Co-EditBench",
    CoEditData,
    _parts,
    table="tables 1, 7 and 13",
    version=2,
    switches=SWITCHES,
    protocols={PAPER: frozenset({SPECIALISTS, REASONING})},
    unreleased="its authors have released no code",
)
