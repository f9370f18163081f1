"""What commands print: strict JSON, or tables."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.console import console
from ..base.strict import text_of
from ..base.terminal import say_json
from ..report.table import Table


def print_json(result: object) -> None:
    """Print a result, or several, as strict JSON."""
    say_json(text_of(result))


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables, one below the other."""
    screen = console()
    for table in tables:
        screen.print(table.to_terminal())
