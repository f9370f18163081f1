"""GIE-Bench: grounded evaluation of text-guided image editing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...base.errors import ConfigError
from ..benchmark import OFFICIAL, PAPER, Benchmark, Rules
from ..dataset import Dataset, mapped
from ..items import USUAL as OWN
from .columns import columns
from .compact import OFFICIAL_FILE, RECORDS
from .dataset import GieData
from .dimensions import dimensions
from .official import OFFICIAL_PROMPTS
from .own import OwnItems
from .switches import GieSwitches


def data(path: Path, roots: Mapping[str, str] | None = None) -> Dataset:
    """The official data, as it is or converted, or `items.jsonl` of one's own.

    A folder is one's own where it holds `items.jsonl` and neither form of the official data.

    Raises:
        ConfigError: `items.jsonl` names no official paths, which roots could map.
        InputError: there is nothing to read.
    """
    if not _is_own(path):
        return GieData(path, roots)
    if mapped(roots):
        raise ConfigError(
            "--root OLD=NEW is for gie_bench.json, not for items.jsonl", "give --root FOLDER"
        )
    return OwnItems(path, roots)


def _is_own(path: Path) -> bool:
    if path.is_dir():
        official = any((path / name).is_file() for name in (RECORDS, OFFICIAL_FILE))
        return (path / OWN).is_file() and not official
    return path.suffix == ".jsonl"


def _rules(switches: GieSwitches) -> Rules:
    return Rules(dimensions(switches), columns(switches))


BENCHMARK = Benchmark(
    "gie",
    "GIE-Bench",
    data,
    _rules,
    table="tables 2 and 3",
    version=3,
    switches=GieSwitches,
    protocols={PAPER: GieSwitches(), OFFICIAL: GieSwitches.all_on()},
    official_prompts=OFFICIAL_PROMPTS,
    remaps=True,
)
