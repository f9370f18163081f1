"""Tables 1 and 2 of the paper, the categories of figure 4 and the comparison of figure 5."""

from collections.abc import Iterator

from ..column import Column, Composite, Mean, WeightedMean, Where, of_tasks
from ..fusion import Values
from .switches import I2iSwitches
from .taxonomy import ARTIFACTS, CATEGORIES, DIMENSIONS, SHARED_DIMENSIONS, TABLES, TITLES, Track


def _names(track: Track, switches: I2iSwitches) -> tuple[str, ...]:
    """Return a table's dimensions; table 2 has editing artifacts only by a switch."""
    left_out = track == "me" and not switches.me_editing_artifacts
    return tuple(n for n in DIMENSIONS[track] if not (n == ARTIFACTS and left_out))


def _table(
    track: Track, names: tuple[str, ...], prefix: str, group: str, source: str, where: Where = lambda _: True
) -> Iterator[Column]:
    """Yield a mean for each dimension, then the mean over all pairs of prompt and dimension."""
    for name in names:
        mean = Mean(f"i2i.{track}.{name}", where)
        yield Column(f"{prefix}.{name}", DIMENSIONS[track][name], mean, True, source, group)
    parts = tuple(f"{prefix}.{name}" for name in names)
    how = WeightedMean(parts)
    yield Column(f"{prefix}.overall", "Overall", how, True, source, group)


def _make_loss_columns(switches: I2iSwitches) -> Iterator[Column]:
    """Yield the shares of regions that edits lost; the baseline has no regions."""
    if switches.lmm_baseline:
        return
    for track, table in TABLES.items():
        for name in table["losable"]:
            dimension = f"i2i.{track}.{name}.lost"
            title = f"{DIMENSIONS[track][name]} ({track.upper()})"
            yield Column(dimension, title, Mean(dimension), False, "not in the paper", "Share lost")


def _categories(track: Track, names: tuple[str, ...]) -> Iterator[Column]:
    for category, title in CATEGORIES[track].items():
        prefix, source = f"i2i.{track}.{category}", "I2I-Bench, figure 4"
        yield from _table(track, names, prefix, title, source, of_tasks(category))


def _difference(values: Values) -> float:
    return values["me"] - values["se"]


def _comparison(switches: I2iSwitches) -> Iterator[Column]:
    """Yield the differences between multi-image and single-image editing, by shared dimensions.

    Overall is the mean of the differences, and no difference of the overalls: each of those is
    over dimensions that the other track does not have.
    """
    source, group = "I2I-Bench, figure 5", "Multi less single"
    names = (*SHARED_DIMENSIONS, ARTIFACTS) if switches.me_editing_artifacts else SHARED_DIMENSIONS
    for name in names:
        how = Composite(_difference, {track: f"i2i.{track}.{name}" for track in ("se", "me")})
        title = DIMENSIONS["se"][name]
        yield Column(f"i2i.me_less_se.{name}", title, how, True, source, group)
    parts = tuple(f"i2i.me_less_se.{name}" for name in names)
    overall = WeightedMean(parts)
    yield Column("i2i.me_less_se.overall", "Overall", overall, True, source, group)


def columns(switches: I2iSwitches) -> tuple[Column, ...]:
    """Return the columns for the switches that are on."""
    names: dict[Track, tuple[str, ...]] = {track: _names(track, switches) for track in DIMENSIONS}
    return (
        *(
            column
            for track, title in TITLES.items()
            for column in _table(track, names[track], f"i2i.{track}", title, TABLES[track]["table"])
        ),
        *_make_loss_columns(switches),
        *_comparison(switches),
        *(column for track in TITLES for column in _categories(track, names[track])),
    )
