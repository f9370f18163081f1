"""The generic dimensions, for the user's own data."""

from ..benchmark import Benchmark

BENCHMARK = Benchmark(
    "core",
    "Generic dimensions",
    "editjudge.benchmarks.items:ItemsFile",
    "editjudge.benchmarks.core.dimensions:dimensions",
)
"""The benchmark of the generic dimensions, on the user's own data."""
