"""The generic dimensions, for data of one's own."""

from ..benchmark import Benchmark, one_protocol
from .dataset import CoreData
from .dimensions import DIMENSIONS

BENCHMARK = Benchmark("core", "Generic dimensions", CoreData, one_protocol(*DIMENSIONS))
