"""Every dimension there is: ours, and those that other packages add.

A package adds dimensions by an entry point in the group `editjudge.dimensions` that
names an iterable of `Dimension`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import entry_points

from ..dimension import Dimension
from ..errors import ConfigError

GROUP = "editjudge.dimensions"


@cache
def dimensions() -> dict[str, Dimension]:
    """All dimensions by id, in the order they are declared.

    Raises:
        ConfigError: two of them have the same id.
    """
    from .core.dimensions import DIMENSIONS

    found: dict[str, Dimension] = {}
    added = (d for point in entry_points(group=GROUP) for d in point.load())
    for dimension in (*DIMENSIONS, *added):
        if dimension.id in found:
            raise ConfigError(f"two dimensions are called {dimension.id}")
        found[dimension.id] = dimension
    return found


def select(patterns: Iterable[str]) -> tuple[Dimension, ...]:
    """The dimensions that any of the patterns names; all for no pattern.

    Args:
        patterns: Ids, or globs such as `core.psnr.*`.

    Raises:
        ConfigError: a pattern matches nothing.
    """
    known = dimensions()
    patterns = tuple(patterns) or ("*",)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = get_close_matches(pattern, known, n=3, cutoff=0.4)
            mend = f"did you mean {', '.join(near)}?" if near else "see: editjudge list dimensions"
            raise ConfigError(f"no dimension matches {pattern!r}", mend)
    return tuple(
        d for name, d in known.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
