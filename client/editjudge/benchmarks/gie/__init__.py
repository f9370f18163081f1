"""GIE-Bench: grounded evaluation of text-guided image editing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...errors import ConfigError
from ..benchmark import OFFICIAL, PAPER, Benchmark, Parts
from ..dataset import Dataset
from ..items import USUAL as OWN
from .columns import columns
from .compact import RECORDS, RELEASED
from .dataset import GieData
from .dimensions import SWITCHES, dimensions
from .official import ORIGINALS
from .own import OwnItems


def data(path: Path, roots: Mapping[str, str] | None = None) -> Dataset:
    """The released data, as it is or converted, or `items.jsonl` of one's own.

    A folder is one's own where it holds `items.jsonl` and neither form of the released data.

    Raises:
        ConfigError: there are roots for `items.jsonl`.
        InputError: there is nothing to read.
    """
    if not _is_own(path):
        return GieData(path, roots)
    if roots:
        raise ConfigError("--root is for gie_bench.json, not for items.jsonl", "leave it out")
    return OwnItems(path)


def _is_own(path: Path) -> bool:
    if path.is_dir():
        released = any((path / name).is_file() for name in (RECORDS, RELEASED))
        return (path / OWN).is_file() and not released
    return path.suffix == ".jsonl"


BENCHMARK = Benchmark(
    "gie",
    "GIE-Bench",
    data,
    lambda on: Parts(dimensions(on), columns(on)),
    table="tables 2 and 3",
    version=2,
    switches=SWITCHES,
    protocols={PAPER: frozenset(), OFFICIAL: frozenset(one.name for one in SWITCHES)},
    originals=ORIGINALS,
    remaps=True,
)
