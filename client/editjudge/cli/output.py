"""Prints results as strict JSON or as tables."""

from collections.abc import Iterable

from ..base.console import make_console
from ..base.strict import to_json
from ..base.terminal import print_json_text
from ..report.table import Table


def print_json(result: object) -> None:
    """Print one or several results as strict JSON."""
    print_json_text(to_json(result))


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, one below the other."""
    screen = make_console()
    width = screen.width
    for table in tables:
        for part in table.fit(width):
            screen.width = max(width, part.least_width)  # a terminal breaks what is longer
            screen.print(part.to_terminal())
