"""I2I-Bench: single-image and multi-image editing in 30 dimensions."""

from ..benchmark import PAPER, Benchmark, Parts, Switch
from .columns import columns
from .dataset import I2iData
from .dimensions import (
    CONSISTENCY_LEVELS,
    INVERTED_ELEMENTS,
    LOST_SCORES_ZERO,
    ME_ARTIFACTS,
    TRANSFER_YES_NO,
    dimensions,
)

BENCHMARK = Benchmark(
    "i2i",
    "I2I-Bench",
    I2iData,
    lambda on: Parts(dimensions(on), columns(on)),
    table="tables 1 and 2",
    version=2,
    decimals=3,
    switches=(
        Switch(
            TRANSFER_YES_NO,
            "cross-source transfer is one question with yes or no, not a list of them",
            "appendix C.3.4, dimension 1",
        ),
        Switch(
            CONSISTENCY_LEVELS,
            "inter-subject consistency is one of five levels, not a list of questions",
            "appendix C.3.4, dimension 2",
        ),
        Switch(
            INVERTED_ELEMENTS,
            "non-edited elements of several images: what lies outside of them is compared",
            "section 3.2.2",
        ),
        Switch(
            ME_ARTIFACTS,
            "editing artifacts are judged and tabled for multi-image editing too",
            "appendix F.2.1",
        ),
        Switch(
            LOST_SCORES_ZERO,
            "a subject or detail found in its source and not in the edited image counts as 0",
            "not in the paper, which says nothing of regions that are not found",
        ),
    ),
    protocols={PAPER: frozenset()},
    unreleased="its authors have released neither code nor data",
)
