"""The generic dimensions, for data of one's own."""

from ..benchmark import Benchmark, Rules
from ..items import ItemsFile
from .dimensions import DIMENSIONS


class CoreData(ItemsFile):
    """Items of one's own, judged by the generic dimensions."""

    name = "core"


BENCHMARK = Benchmark("core", "Generic dimensions", CoreData, lambda _: Rules(DIMENSIONS))
"""Data of one's own."""
