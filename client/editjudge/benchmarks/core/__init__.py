"""The generic dimensions, for data of one's own."""

from ..benchmark import Benchmark
from ..items import ItemsFile
from .dimensions import DIMENSIONS

BENCHMARK = Benchmark("core", "Generic dimensions", ItemsFile, lambda _: DIMENSIONS)
"""Data of one's own."""
