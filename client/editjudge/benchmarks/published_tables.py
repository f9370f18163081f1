"""Tables of results from papers, which are shown beside a run and never mixed into it.

Each benchmark's `published.toml` holds the numbers with the table they stand in and the judge they
are by, and says which of its columns can be compared with a run's, by which switches, and why.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from pydantic.dataclasses import dataclass as result

from ..base.errors import ConfigError
from ..base.parse import package_tables
from ..base.strict import STRICT


@result(frozen=True, slots=True, config=STRICT)
class PublishedTable:
    """A table of a paper, as far as its columns are ours.

    Attributes:
        source: The table's name in the paper.
        judge: Which judge the numbers are by.
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
        never: They cannot be compared, whatever the switches.
    """

    columns: tuple[str, ...]
    why: str
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    never: bool = False

    def holds(self, switches: Collection[str]) -> bool:
        """Whether the columns can be compared while these switches are on."""
        off = set(self.off).isdisjoint(switches)
        return not self.never and off and set(self.on) <= set(switches)


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """All tables of a paper.

    Attributes:
        title: The benchmark's title.
    """

    title: str
    tables: tuple[PublishedTable, ...]
    comparisons: tuple[Comparison, ...]

    def comparison(self, column: str) -> Comparison:
        """Return whether and why a column can be compared.

        Raises:
            KeyError: the file says nothing about the column.
        """
        for comparison in self.comparisons:
            if any(fnmatchcase(column, pattern) for pattern in comparison.columns):
                return comparison
        raise KeyError(column)


@cache
def load_published_tables(benchmark: str) -> PublishedTables:
    """Load the published tables of a benchmark.

    Raises:
        ConfigError: the benchmark has no published numbers.
    """
    try:
        tables = package_tables(__package__, f"{benchmark}/published.toml")
    except FileNotFoundError:
        raise ConfigError(f"{benchmark} has no published numbers", "leave --published out") from None
    return PublishedTables(
        tables["title"],
        tuple(_table(**table) for table in tables["tables"]),
        tuple(Comparison(**one) for one in tables["comparisons"]),
    )


def list_printed_values(column: str) -> list[float]:
    """List all numbers that the paper of a column prints of it; empty if it prints none."""
    try:
        tables = load_published_tables(column.partition(".")[0]).tables
    except ConfigError:
        return []
    return [row[column] for table in tables for row in table.models.values() if column in row]


def _table(columns: Sequence[str], models: Mapping[str, Sequence[float]], **more: str) -> PublishedTable:
    by_column = {model: dict(zip(columns, row, strict=True)) for model, row in models.items()}
    return PublishedTable(models=by_column, **more)
