"""What papers print: their tables of results, to be set beside a run and never mixed into it.

Each benchmark's `published.toml` holds the numbers with the table they stand in and the judge they
are by, and says which of its columns can be compared with a run's, by which switches, and why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

from pydantic.dataclasses import dataclass as result

from ..base.errors import ConfigError
from ..base.strict import STRICT


@result(frozen=True, slots=True, config=STRICT)
class PublishedTable:
    """A table of a paper, as far as its columns are ours.

    Attributes:
        source: Which table it is.
        judge: By which generalist.
        models: By model under test and id of our column, the number as it is printed.
        note: What is odd about what is printed; empty for nothing.
    """

    source: str
    judge: str
    models: Mapping[str, Mapping[str, float]]
    note: str = ""


@result(frozen=True, slots=True, config=STRICT)
class Comparison:
    """Whether columns of a run can be compared with the printed ones.

    Attributes:
        columns: Globs of column ids.
        why: What makes them comparable, or keeps them apart.
        on: Switches that must be on.
        off: Switches that must be off.
        never: By no switches.
    """

    columns: tuple[str, ...]
    why: str
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    never: bool = False

    def holds(self, switches: Collection[str]) -> bool:
        """Whether they can by these switches that are on."""
        off = set(self.off).isdisjoint(switches)
        return not self.never and off and set(self.on) <= set(switches)


@dataclass(frozen=True, slots=True)
class Published:
    """What a paper prints.

    Attributes:
        title: Of the benchmark.
    """

    title: str
    tables: tuple[PublishedTable, ...]
    comparisons: tuple[Comparison, ...]

    def comparison(self, column: str) -> Comparison:
        """What is said of a column.

        Raises:
            KeyError: nothing is.
        """
        for comparison in self.comparisons:
            if any(fnmatchcase(column, pattern) for pattern in comparison.columns):
                return comparison
        raise KeyError(column)


@cache
def published(benchmark: str) -> Published:
    """What the paper of a benchmark prints.

    Raises:
        ConfigError: nothing is kept of it.
    """
    file = files(__package__) / benchmark / "published.toml"
    if not file.is_file():
        raise ConfigError(f"{benchmark} has no published numbers", "leave --published out")
    told = tomllib.loads(file.read_text("utf-8"))
    return Published(
        told["title"],
        tuple(
            PublishedTable(
                table["source"],
                table["judge"],
                {
                    model: dict(zip(table["columns"], numbers, strict=True))
                    for model, numbers in table["models"].items()
                },
                table.get("note", ""),
            )
            for table in told["tables"]
        ),
        tuple(Comparison(**one) for one in told["comparisons"]),
    )
