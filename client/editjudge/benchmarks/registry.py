"""All benchmarks and dimensions: the built-in ones, and those that other packages add.

A package adds a benchmark by an entry point in the group `editjudge.benchmarks` that names a
`Benchmark`, and dimensions by one in the group `editjudge.dimensions` that names an iterable of
`Dimension`. A benchmark is loaded when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from ..base.errors import ConfigError
from ..base.identity import ServiceName
from .benchmark import Benchmark, Rules

if TYPE_CHECKING:
    from .dimension import Dimension

GROUP = "editjudge.dimensions"
BENCHMARKS = "editjudge.benchmarks"
CORE = "core"
"""The generic dimensions: listed first."""
_list_points = cache(entry_points)
"""What all packages add to others; each look reads a file of every package."""


@cache
def _points() -> Mapping[str, EntryPoint]:
    """Return the entry point of each benchmark by name, `core` first."""
    points = {point.name: point for point in _list_points().select(group=BENCHMARKS)}
    return {name: points[name] for name in sorted(points, key=lambda name: (name != CORE, name))}


@cache
def load_benchmark(name: str) -> Benchmark:
    """Load a benchmark by name, and no other one.

    Raises:
        ConfigError: there is none of this name, or it is called otherwise, or cannot be loaded.
    """
    if name not in _points():
        raise ConfigError(f"no benchmark is called {name!r}", f"there are {', '.join(_points())}")
    where = f"benchmark {name} ({_points()[name].value})"
    try:
        entry = _points()[name].load()
    except Exception as error:  # whatever the module of a package of somebody's raises
        raise ConfigError(f"the {where} cannot be loaded: {error}") from error
    if not isinstance(entry, Benchmark) or entry.name != name:
        raise ConfigError(f"the {where} is {entry!r}", f"name a Benchmark called {name!r}")
    return entry


def load_benchmarks() -> dict[str, Benchmark]:
    """Load all benchmarks, by name, `core` first."""
    return {name: load_benchmark(name) for name in _points()}


@cache
def _dimensions_of(name: str) -> tuple[Dimension, ...]:
    return load_benchmark(name).dimensions


@cache
def _load_plugin_dimensions() -> tuple[Dimension, ...]:
    return tuple(d for point in _list_points().select(group=GROUP) for d in point.load())


def load_dimensions(names: Iterable[str] | None = None) -> dict[str, Dimension]:
    """Load dimensions by id, in the order of their declaration; those of other packages last.

    Args:
        names: Ids and patterns. The dimensions of `core` are loaded, and those of each benchmark
            whose name one of them begins with. If all are ids of dimensions that compare pixels,
            only these are loaded. By default all are loaded.

    Raises:
        ConfigError: two of them have the same id.
    """
    plugins = _load_plugin_dimensions()
    benchmarks = {*_points()}
    if names is not None:
        operands = (operand for dimension in plugins for operand in dimension.operands)
        requested_ids = {*names, *operands} - {dimension.id for dimension in plugins}
        benchmarks &= {CORE, *(name.partition(".")[0] for name in requested_ids)}
    by_id: dict[str, Dimension] = {}
    ours: Iterable[Dimension] = (d for name in _points() if name in benchmarks for d in _dimensions_of(name))
    if names is not None and requested_ids:
        from .pixel_dimensions import PIXEL_DIMENSIONS

        pixel_ids = {i for d in PIXEL_DIMENSIONS for i in (d.id, d.id.removeprefix(f"{CORE}."))}
        ours = PIXEL_DIMENSIONS if requested_ids <= pixel_ids else ours
    for dimension in (*ours, *plugins):
        if dimension.id in by_id:
            raise ConfigError(f"two dimensions are called {dimension.id}")
        by_id[dimension.id] = dimension
    return by_id


def make_specialist_dimensions(services: Sequence[ServiceName]) -> tuple[Dimension, ...]:
    """Make the dimensions of custom specialists."""
    if not services:
        return ()
    from .core.dimensions import specialist_dimensions

    return specialist_dimensions(services)


def add_specialists(rules: Rules, services: Sequence[ServiceName]) -> Rules:
    """Add the dimensions of custom specialists to those that may be asked for."""
    return replace(rules, extra_dimensions=make_specialist_dimensions(services))


def select_dimensions(patterns: Iterable[str], rules: Rules | None = None) -> tuple[Dimension, ...]:
    """Select the dimensions that any of the patterns matches.

    Args:
        patterns: Ids, with or without their benchmark; globs such as `core.psnr.*`; a part of an id
            such as `ssim`; the title of a column in the table of `rules`; a benchmark's name. All
            for none.
        rules: For no pattern the dimensions of this benchmark alone, by these rules; to those of
            `core` come the ones that other packages add.

    Raises:
        ConfigError: a pattern matches nothing, or dimensions of several benchmarks by a part.
    """
    patterns = tuple(patterns)
    if rules is None:
        by_id = load_dimensions(patterns or None)
    else:
        by_id = rules.dimensions_by_id(load_dimensions([rules.protocol, *patterns]))
    if rules is not None and not patterns:
        chosen_ids = {d.id for d in rules.dimensions}
        if any(name.startswith(f"{CORE}.") for name in chosen_ids):
            chosen_ids |= {d.id for d in (*rules.extra_dimensions, *_load_plugin_dimensions())}
        return tuple(d for name, d in by_id.items() if name in chosen_ids)
    if not patterns:
        return tuple(by_id.values())
    matches = frozenset().union(*(_match_pattern(pattern, by_id, rules) for pattern in patterns))
    return tuple(d for name, d in by_id.items() if name in matches)


def list_requests(dimensions: str | Dimension | Iterable[str | Dimension]) -> tuple[str | Dimension, ...]:
    """List the dimensions that a caller asks for; one alone needs no list.

    Raises:
        ConfigError: there is none, or one is no id, glob or `Dimension`.
    """
    from .dimension import Dimension

    is_several = isinstance(dimensions, Iterable) and not isinstance(dimensions, str)
    requests = tuple(dimensions) if is_several else (dimensions,)  # type: ignore[arg-type]
    if not requests:
        raise ConfigError(
            "no dimension is selected: dimensions is empty",
            "name some, or leave it out for those of the benchmark (of core, for single edits)",
        )
    for each in requests:
        if not isinstance(each, str | os.PathLike | Dimension):
            raise ConfigError(f"dimensions: {type(each).__name__} is no id, glob or Dimension")
    return requests  # type: ignore[return-value]


def select_among(
    dimensions: Iterable[Dimension], patterns: Iterable[str], rules: Rules | None = None
) -> tuple[Dimension, ...]:
    """Select those dimensions of a run that any of the patterns matches; all without patterns.

    Args:
        patterns: As of `select`.

    Raises:
        ConfigError: a pattern names none of them.
    """
    by_id = {d.id: d for d in dimensions}
    patterns = tuple(patterns)
    matches = frozenset().union(*(_match_pattern(pattern, by_id, rules) for pattern in patterns))
    return tuple(d for name, d in by_id.items() if not patterns or name in matches)


def _match_pattern(pattern: str, by_id: Mapping[str, Dimension], rules: Rules | None) -> frozenset[str]:
    """Return the ids that a pattern matches, by the first way of matching that finds any.

    Raises:
        ConfigError: it names none, or parts of ids of several benchmarks.
    """
    own = {d.id for d in rules.dimensions} if rules else set[str]()
    short = pattern.strip().rstrip("↑↓ ").casefold()
    word = short.replace(" ", "_")
    title_matches = (
        name
        for column in (rules.columns if rules else ())
        if short == column.title.casefold()
        for name in column.dimensions
    )
    # `core.psnr.source.whole` is printed, and may be typed, as `psnr.source.whole`.
    tails = {name: name.partition(".")[2] for name in by_id}
    in_parts = [name for name, tail in tails.items() if f".{word}." in f".{tail}."]
    glob_matches = [name for name, tail in tails.items() if fnmatchcase(tail, word)]
    ways: tuple[Iterable[str], ...] = (
        (name for name in by_id if fnmatchcase(name, pattern)),
        title_matches,
        *((name for name in names if name in own) for names in (glob_matches, in_parts)),
        *((n for n in names if n.startswith(f"{CORE}.")) for names in (glob_matches, in_parts)),
        *(_of_one_benchmark(names, pattern) for names in (glob_matches, in_parts)),
        (name for name in by_id if name.startswith(f"{word}.")),  # of a benchmark, or `core.psnr`
    )
    for way in ways:
        if names := frozenset(way) & by_id.keys():
            return names
    parts = {part for name in by_id for part in name.split(".")}
    near = get_close_matches(word, parts, cutoff=0.7)
    near = near or get_close_matches(pattern, by_id, n=3, cutoff=0.4)
    fix = f"did you mean {', '.join(near)}?" if near else "see: editjudge list dimensions"
    fix = "give --dimension once for each" if "," in pattern else fix
    raise ConfigError(f"no dimension matches {pattern!r}", fix)


def _of_one_benchmark(names: Iterable[str], pattern: str) -> Iterator[str]:
    """Yield the names, provided that they are all of one benchmark.

    Raises:
        ConfigError: they are of several; once it is asked for any.
    """
    by_benchmark = {name.partition(".")[0]: name for name in names}
    if len(by_benchmark) > 1:
        ids = ", ".join(sorted(by_benchmark.values()))
        what = f"{pattern!r} matches dimensions of several benchmarks: {ids}"
        raise ConfigError(what, "give an id, or a glob")
    yield from names
