"""Tables, and their form for a terminal, in Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.cells import cell_len

from ..base.parse import package_tables
from ..base.templates import make_templates
from ..base.terminal import escape_control
from ..base.text import escape_formula

if TYPE_CHECKING:
    from rich.table import Table as Terminal

TextFormat: TypeAlias = Literal["latex", "markdown", "csv"]
Lead: TypeAlias = Literal["", "best", "sure"]
_LATEX_CHARACTERS: dict[str, str] = package_tables(__package__, "forms/latex.toml")
_BETWEEN_CELLS = 3
_NAME = 24
"""Characters that a column of names keeps where it is broken into lines."""
_LAST_LATIN = 0x17F
"""Last character, roughly, that pdflatex prints without further packages."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is printed, with its uncertainty and coverage.

    Attributes:
        text: The number; "-" where there is none.
        lead: `sure` for the best of its column if its model is significantly better than each
            other one, `best` for the best otherwise, "" for all others.
        suffix: Half of its interval and further signs.
        coverage: Coverage as a terminal shows it, `3/4`.
        footnote: Coverage as a paper shows it; equal footnotes share a mark.
    """

    text: str
    lead: Lead = ""
    suffix: str = ""
    coverage: str = ""
    footnote: str = ""

    def __str__(self) -> str:
        return f"{self.text}{self.suffix}{self.coverage and f' ({self.coverage})'}"


Plain: TypeAlias = str | int | float | bool | None
Content: TypeAlias = Plain | Number | Sequence[str]


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column.

    Attributes:
        title: Text above the column.
        right: Align the cells to the right, as for numbers.
        fold: A terminal may break the cells into lines.
    """

    title: str
    right: bool = False
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of cells, in the order of the columns.

    Attributes:
        style: Style on a terminal, such as `dim` or `yellow`.
    """

    cells: Sequence[Content]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with heads, rows and notes.

    Attributes:
        title: Title above the table on a terminal.
        has_groups: The first column names groups; each name is printed once.
        notes: Notes below the table, a line each.
        about: How the numbers were made, a line each, for a paper.
    """

    heads: Sequence[Head]
    rows: Sequence[Row]
    title: str = ""
    has_groups: bool = False
    notes: Sequence[str] = ()
    about: Sequence[str] = ()

    def to_text(self, form: TextFormat) -> str:
        """Write the table as text that ends with a newline."""
        return _csv(self) if form == "csv" else _fill_template(self, form)

    def to_html(self) -> str:
        """The table as HTML, each text escaped: for a notebook."""
        return _fill_template(self, "html")

    @property
    def widths(self) -> list[int]:
        """The width of each column on a terminal, in characters."""
        lines = [[head.title for head in self.heads], *(texts for _, _, texts in self._lines())]
        return [max(map(cell_len, column)) + _BETWEEN_CELLS for column in zip(*lines, strict=True)]

    @property
    def least_width(self) -> int:
        """The width of the whole table on a terminal that breaks names into lines."""
        pairs = zip(self.widths, self.heads, strict=True)
        return 1 + sum(min(width, _NAME) if head.fold else width for width, head in pairs)

    def fit(self, width: int, leading: int = 0) -> list[Table]:
        """Divide the table into parts that fit a terminal; the columns of names stand in each.

        No number is cut: a part with a single column of numbers may still be too wide.

        Args:
            leading: How many columns of numbers, from the first, stand in each part too, unless
                they take more than half of the width.
        """
        first = next((i for i, head in enumerate(self.heads) if head.right), None)
        if self.least_width <= width or first is None:
            return [self]
        names = [*range(first + leading)]
        if leading and self._select(names).least_width > width // 2:
            names = [*range(first)]
        parts = [names]
        for place in range(len(names), len(self.heads)):
            more = [*parts[-1], place]
            if parts[-1] != names and self._select(more).least_width > width:
                more = [*names, place]
                parts.append(more)
            parts[-1] = more
        tables = [self._select(part) for part in parts]
        tables[0] = replace(tables[0], title=self.title)
        tables[-1] = replace(tables[-1], notes=self.notes)
        return tables

    def _select(self, columns: Sequence[int]) -> Table:
        """The table with these columns alone, and without its title and notes."""
        rows = [replace(row, cells=[row.cells[i] for i in columns]) for row in self.rows]
        return replace(self, heads=[self.heads[i] for i in columns], rows=rows, title="", notes=())

    def to_terminal(self) -> Terminal:
        """Make the table for a terminal."""
        from rich.table import Table as Terminal
        from rich.text import Text

        table = Terminal(title=self.title or None, title_justify="left")
        for head in self.heads:
            side: Literal["left", "right"] = "right" if head.right else "left"
            overflow: Literal["fold", "ellipsis"] = "fold" if head.fold else "ellipsis"
            table.add_column(head.title, justify=side, no_wrap=not head.fold, overflow=overflow)
        for row, begins, texts in self._lines():
            if begins:
                table.add_section()
            table.add_row(*(Text(text, row.style) for text in texts))
        table.caption, table.caption_justify = "\n".join(self.notes) or None, "left"
        return table

    def _lines(self) -> Iterator[tuple[Row, bool, list[str]]]:
        """Yield each row, whether it begins another group, and its cells as text."""
        above: str | None = None
        for row in self.rows:
            texts = [_cell_text(cell) for cell in row.cells]
            group = texts[0] if self.has_groups else None
            begins = self.has_groups and above not in {None, group}
            if self.has_groups and group == above:
                texts[0] = ""
            above = group
            yield row, begins, texts


def _cell_text(cell: Content) -> str:
    """Format a cell on one line."""
    match cell:
        case None:
            return ""
        case str():
            return cell
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:.4g}"
        case Number():
            return str(cell)
    return ", ".join(cell)


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head.title for head in table.heads)
    for row in table.rows:
        writer.writerow(map(escape_formula, map(_plain_cell, row.cells)))
    return out.getvalue()


def _plain_cell(cell: Content) -> Plain:
    """Return a cell for CSV, unrounded."""
    if isinstance(cell, Number):
        return cell.text
    return cell if cell is None or isinstance(cell, str | int | float) else ", ".join(cell)


def _fill_template(table: Table, form: Literal["latex", "markdown", "html"]) -> str:
    """Write the table in a markup language, from the template of its form."""
    # Each text is escaped for its own form.
    environment = make_templates(__package__).overlay(autoescape=False)
    escape = {"latex": _latex_text, "markdown": _markdown_text, "html": _html_text}[form]
    environment.filters |= {"escaped": escape, "one_line": _one_line}
    environment.tests["number"] = lambda cell: isinstance(cell, Number)
    cells = (cell for row in table.rows for cell in row.cells)
    footnotes = (cell.footnote for cell in cells if isinstance(cell, Number) and cell.footnote)
    return environment.get_template(f"forms/{form}.j2").render(
        table=table,
        rows=[(begins, zip(r.cells, texts, strict=True)) for r, begins, texts in table._lines()],
        marks=dict(zip(dict.fromkeys(footnotes), _list_marks(), strict=False)),
        other_script=_has_other_script(table),
    )


def _list_marks() -> Iterator[str]:
    """Yield the marks of footnotes: a, b, … z, aa, ab, …."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _has_other_script(table: Table) -> bool:
    """Whether a name has letters that pdflatex cannot print."""
    names = [head.title for head in table.heads]
    names += [cell for row in table.rows for cell in row.cells if isinstance(cell, str)]
    return any(ord(each) > _LAST_LATIN for each in {*"".join(names)} - _LATEX_CHARACTERS.keys())


def _one_line(text: str) -> str:
    """Put text on one line; a leading space is kept."""
    return " " * text.startswith(" ") + " ".join(text.split())


def _latex_text(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX_CHARACTERS.get(each, each) for each in _one_line(text))


def _html_text(text: str) -> str:
    """Text of which a browser takes nothing for a mark."""
    return html.escape(_one_line(escape_control(text)))


def _markdown_text(text: str) -> str:
    """Escape text for Markdown and HTML."""
    safe = "".join(f"\\{each}" if each in "\\`*_[]|#~$" else each for each in _one_line(text))
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
