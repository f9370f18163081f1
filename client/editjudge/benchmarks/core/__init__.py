"""The generic dimensions, for the user's own data."""

from ..benchmark import Benchmark
from ..items import ItemsFile
from .dimensions import DIMENSIONS

BENCHMARK = Benchmark("core", "Generic dimensions", ItemsFile, lambda _: DIMENSIONS)
"""The benchmark of the generic dimensions, on the user's own data."""
