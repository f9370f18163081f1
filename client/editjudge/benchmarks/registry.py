"""Every benchmark and dimension there is: ours, and dimensions that other packages add.

A package adds dimensions by an entry point in the group `editjudge.dimensions` that
names an iterable of `Dimension`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import entry_points

from ..dimension import Dimension
from ..errors import ConfigError
from .benchmark import Benchmark, Rules

GROUP = "editjudge.dimensions"


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """All benchmarks by name."""
    from . import co_edit, core, gie, i2i, kris, omni_iie

    found = (
        core.BENCHMARK,
        co_edit.BENCHMARK,
        gie.BENCHMARK,
        i2i.BENCHMARK,
        kris.BENCHMARK,
        omni_iie.BENCHMARK,
    )
    return {one.name: one for one in found}


def benchmark(name: str) -> Benchmark:
    """A benchmark by name.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in benchmarks():
        raise ConfigError(f"no benchmark is called {name!r}", f"there is {', '.join(benchmarks())}")
    return benchmarks()[name]


@cache
def dimensions() -> dict[str, Dimension]:
    """All dimensions by id, in the order they are declared.

    Raises:
        ConfigError: two of them have the same id.
    """
    ours = (d for one in benchmarks().values() for d in one.dimensions)
    found: dict[str, Dimension] = {}
    added = (d for point in entry_points(group=GROUP) for d in point.load())
    for dimension in (*ours, *added):
        if dimension.id in found:
            raise ConfigError(f"two dimensions are called {dimension.id}")
        found[dimension.id] = dimension
    return found


def select(patterns: Iterable[str], rules: Rules | None = None) -> tuple[Dimension, ...]:
    """The dimensions that any of the patterns names.

    Args:
        patterns: Ids, or globs such as `core.psnr.*`; all for none.
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
    patterns = patterns or ("*",)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = get_close_matches(pattern, known, n=3, cutoff=0.4)
            mend = f"did you mean {', '.join(near)}?" if near else "see: editjudge list dimensions"
            raise ConfigError(f"no dimension matches {pattern!r}", mend)
    return tuple(
        d for name, d in known.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
