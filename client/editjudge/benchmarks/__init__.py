"""Benchmarks: each a package of declarations."""
