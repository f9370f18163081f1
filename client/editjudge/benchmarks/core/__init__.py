"""The generic dimensions, for data of one's own."""

from ..benchmark import Benchmark, one_protocol
from ..items import ItemsFile
from .dimensions import DIMENSIONS


class CoreData(ItemsFile):
    """Items of one's own, judged by the generic dimensions."""

    name = "core"


BENCHMARK = Benchmark("core", "Generic dimensions", CoreData, one_protocol(*DIMENSIONS))
"""Data of one's own."""
