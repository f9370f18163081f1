"""Every benchmark and dimension there is: ours, and dimensions that other packages add.

A package adds dimensions by an entry point in the group `editjudge.dimensions` that
names an iterable of `Dimension`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from ..base.errors import ConfigError
from .benchmark import Benchmark, Rules
from .dimension import Dimension

GROUP = "editjudge.dimensions"
CORE = "core"
"""The generic dimensions: listed first."""


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """All benchmarks by name, `core` first: the packages beside this module."""
    here = __name__.rpartition(".")[0]
    packages = sorted(one.parent.name for one in Path(__file__).parent.glob("*/__init__.py"))
    packages.sort(key=lambda name: name != CORE)
    modules = [import_module(f"{here}.{name}") for name in packages]
    return {one.BENCHMARK.name: one.BENCHMARK for one in modules}


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in benchmarks():
        raise ConfigError(
            f"no benchmark is called {name!r}", f"there are {', '.join(benchmarks())}"
        )
    return benchmarks()[name]


@cache
def dimensions() -> dict[str, Dimension]:
    """All dimensions by id, in the order they are declared.

    Raises:
        ConfigError: two of them have the same id.
    """
    ours = (d for one in benchmarks().values() for d in one.dimensions)
    by_id: dict[str, Dimension] = {}
    added = (d for point in entry_points(group=GROUP) for d in point.load())
    for dimension in (*ours, *added):
        if dimension.id in by_id:
            raise ConfigError(f"two dimensions are called {dimension.id}")
        by_id[dimension.id] = dimension
    return by_id


def select(patterns: Iterable[str], rules: Rules | None = None) -> tuple[Dimension, ...]:
    """The dimensions that any of the patterns names.

    Args:
        patterns: Ids, globs such as `core.psnr.*`, a part of an id such as `ssim`, or the title of
            a column in the table of `rules`; all for none.
        rules: For no pattern the dimensions of this benchmark alone, by these rules; to those of
            `core` come the ones that other packages add.

    Raises:
        ConfigError: a pattern matches nothing.
    """
    known = dimensions() if rules is None else rules.known(dimensions())
    patterns = tuple(patterns)
    if rules is not None and not patterns:
        ours = {d.id for one in benchmarks().values() for d in one.dimensions}
        chosen = {d.id for d in rules.dimensions}
        if any(name.startswith("core.") for name in chosen):
            chosen |= known.keys() - ours
        return tuple(d for name, d in known.items() if name in chosen)
    if not patterns:
        return tuple(known.values())
    meant = frozenset().union(*(_meant(pattern, known, rules) for pattern in patterns))
    return tuple(d for name, d in known.items() if name in meant)


def _meant(pattern: str, known: Mapping[str, Dimension], rules: Rules | None) -> frozenset[str]:
    """The ids that a pattern names: the first way in which it names any decides.

    Raises:
        ConfigError: it names none.
    """
    own = {d.id for d in rules.dimensions} if rules else set[str]()
    short = pattern.casefold()
    titled = (
        name
        for column in (rules.columns if rules else ())
        if short == column.title.casefold()
        for name in column.dimensions
    )
    in_parts = [name for name in known if short in name.split(".")[1:]]
    ways: tuple[Iterable[str], ...] = (
        (name for name in known if fnmatchcase(name, pattern)),
        titled,
        (name for name in in_parts if name in own),
        (name for name in in_parts if name.startswith(f"{CORE}.")),
        in_parts,
    )
    for way in ways:
        if names := frozenset(way) & known.keys():
            return names
    near = get_close_matches(pattern, known, n=3, cutoff=0.4)
    mend = f"did you mean {', '.join(near)}?" if near else "see: editjudge list dimensions"
    raise ConfigError(f"no dimension matches {pattern!r}", mend)
