"""Tables 1 and 2 of the paper, the categories of figure 4 and the comparison of figure 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ...column import Column, Composite, InstanceWeighted, Mean
from ...fusion import Values
from ...item import Item
from .dimensions import ME_ARTIFACTS
from .taxonomy import ARTIFACTS, CATEGORIES, DIMENSIONS, SHARED, TITLES, Track

_TABLES: dict[Track, str] = {"se": "I2I-Bench, table 1", "me": "I2I-Bench, table 2"}


def _names(track: Track, on: frozenset[str]) -> tuple[str, ...]:
    """The dimensions of a table: of table 2 without editing artifacts, unless asked for."""
    left_out = track == "me" and ME_ARTIFACTS not in on
    return tuple(n for n in DIMENSIONS[track] if not (n == ARTIFACTS and left_out))


def _table(
    track: Track,
    names: tuple[str, ...],
    prefix: str,
    group: str,
    source: str,
    where: Callable[[Item], bool] = lambda _: True,
) -> Iterator[Column]:
    """A mean for each dimension, then that of all pairs of a prompt and a dimension."""
    for name in names:
        how = Mean(f"i2i.{track}.{name}", where)
        yield Column(f"{prefix}.{name}", DIMENSIONS[track][name], how, True, source, group)
    parts = tuple(f"{prefix}.{name}" for name in names)
    yield Column(f"{prefix}.overall", "Overall", InstanceWeighted(parts), True, source, group)


def _in(category: str, item: Item) -> bool:
    return item.task == category


def _categories(track: Track, names: tuple[str, ...]) -> Iterator[Column]:
    for category, title in CATEGORIES[track].items():
        prefix, where = f"i2i.{track}.{category}", partial(_in, category)
        yield from _table(track, names, prefix, title, "I2I-Bench, figure 4", where)


def _difference(values: Values) -> float:
    return values["me"] - values["se"]


def _comparison() -> Iterator[Column]:
    """What several source images cost, by the dimensions that both tracks have."""
    for name in (*SHARED, "overall"):
        title = DIMENSIONS["se"].get(name, "Overall")
        how = Composite(_difference, {track: f"i2i.{track}.{name}" for track in ("se", "me")})
        column = f"i2i.me_less_se.{name}"
        yield Column(column, title, how, True, "I2I-Bench, figure 5", "Multi less single")


def columns(on: frozenset[str]) -> tuple[Column, ...]:
    """The tables, given the switches that are on."""
    names: dict[Track, tuple[str, ...]] = {track: _names(track, on) for track in DIMENSIONS}
    return (
        *(
            column
            for track, title in TITLES.items()
            for column in _table(track, names[track], f"i2i.{track}", title, _TABLES[track])
        ),
        *_comparison(),
        *(column for track in TITLES for column in _categories(track, names[track])),
    )
