"""Tables as data, and how they are written: for a terminal, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..base.terminal import escape_control
from ..base.text import escape_formula

if TYPE_CHECKING:
    from rich.table import Table as Terminal

TextFormat: TypeAlias = Literal["latex", "markdown", "csv"]
_LAST_LATIN = 0x17F
"""Of the characters that pdflatex has without further packages, nearly."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is printed, with what belongs to it.

    Attributes:
        text: "-" where there is none.
        place: 1 for the best of its column, 2 for the second, 0 for all others.
        beside: Half of its interval and further signs.
        coverage: Behind it on a terminal, as `(3/4)`.
        footnote: The same in a paper; equal footnotes share a mark.
    """

    text: str
    rank: int = 0
    suffix: str = ""
    coverage: str = ""
    footnote: str = ""

    def __str__(self) -> str:
        return f"{self.text}{self.suffix}{self.coverage and f' ({self.coverage})'}"


Plain: TypeAlias = str | int | float | bool | None
Content: TypeAlias = Plain | Number | Sequence[str]


@dataclass(frozen=True, slots=True)
class Head:
    """A column.

    Attributes:
        title: Above it.
        right: Its cells stand on the right, as numbers do.
        fold: A terminal may break its cells into lines.
    """

    title: str
    right: bool = False
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Cells in the order of the columns.

    Attributes:
        style: For a terminal, as `dim` or `yellow`.
    """

    cells: Sequence[Content]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: Above it on a terminal.
        grouped: The first column names groups: it is printed once for each.
        notes: Below it, a line each.
        about: What it was made of, a line each, for a paper.
    """

    heads: Sequence[Head]
    rows: Sequence[Row]
    title: str = ""
    has_groups: bool = False
    notes: Sequence[str] = ()
    about: Sequence[str] = ()

    def to_text(self, form: TextFormat) -> str:
        """The table as text that ends with a line."""
        return _csv(self) if form == "csv" else _marked_up(self, form)

    def to_html(self) -> str:
        """The table as HTML, each text escaped: for a notebook."""
        return _marked_up(self, "html")

    def to_terminal(self) -> Terminal:
        """The table for a console."""
        from rich.table import Table as Terminal
        from rich.text import Text

        table = Terminal(title=self.title or None, title_justify="left")
        for head in self.heads:
            side: Literal["left", "right"] = "right" if head.right else "left"
            overflow: Literal["fold", "ellipsis"] = "fold" if head.fold else "ellipsis"
            no_wrap = not (head.fold or head.right)
            table.add_column(head.title, justify=side, no_wrap=no_wrap, overflow=overflow)
        for row, begins, texts in self._texts():
            if begins:
                table.add_section()
            table.add_row(*(Text(text, row.style) for text in texts))
        table.caption, table.caption_justify = "\n".join(self.notes) or None, "left"
        return table

    def _texts(self) -> Iterator[tuple[Row, bool, list[str]]]:
        """Each row, whether a further group begins with it, and its cells as text."""
        above: str | None = None
        for row in self.rows:
            texts = [_text(cell) for cell in row.cells]
            group = texts[0] if self.has_groups else None
            begins = self.has_groups and above not in {None, group}
            if self.has_groups and group == above:
                texts[0] = ""
            above = group
            yield row, begins, texts


def _text(cell: Content) -> str:
    """A cell on one line."""
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
        writer.writerow(map(escape_formula, map(_plain, row.cells)))
    return out.getvalue()


def _plain(cell: Content) -> Plain:
    """A cell as CSV has it, unrounded."""
    if isinstance(cell, Number):
        return cell.text
    return cell if cell is None or isinstance(cell, str | int | float) else ", ".join(cell)


def _marked_up(table: Table, form: Literal["latex", "markdown", "html"]) -> str:
    """The table in a markup, from the template of its form."""
    environment = Environment(
        loader=PackageLoader(__package__, "forms"),
        autoescape=False,  # noqa: S701 - each text is escaped for its own form
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    escape = {"latex": _latex_text, "markdown": _markdown_text, "html": _html_text}[form]
    environment.filters |= {"escaped": escape, "one_line": _one_line}
    environment.tests["number"] = lambda cell: isinstance(cell, Number)
    cells = (cell for row in table.rows for cell in row.cells)
    footnotes = (cell.footnote for cell in cells if isinstance(cell, Number) and cell.footnote)
    return environment.get_template(f"{form}.j2").render(
        table=table,
        rows=[
            (begins, zip(row.cells, texts, strict=True)) for row, begins, texts in table._texts()
        ],
        marks={text: _letters(number) for number, text in enumerate(dict.fromkeys(footnotes))},
        other_script=_other_script(table),
    )


def _letters(number: int) -> str:
    """As a, b, … z, aa, ab, …."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _other_script(table: Table) -> bool:
    """Whether a name has letters that pdflatex stops at."""
    names = [head.title for head in table.heads]
    names += [cell for row in table.rows for cell in row.cells if isinstance(cell, str)]
    return any(ord(each) > _LAST_LATIN for each in {*"".join(names)} - _LATEX_CHARACTERS.keys())


def _one_line(text: str) -> str:
    """Text on one line; what follows a number stays apart from it."""
    return " " * text.startswith(" ") + " ".join(text.split())


def _latex_text(text: str) -> str:
    """Text of which LaTeX takes nothing for a command."""
    return "".join(_LATEX_CHARACTERS.get(each, each) for each in _one_line(text))


def _html_text(text: str) -> str:
    """Text of which a browser takes nothing for a mark."""
    return html.escape(_one_line(escape_control(text)))


def _markdown_text(text: str) -> str:
    """Text of which Markdown and HTML take nothing for a mark."""
    escaped_text = "".join(
        f"\\{each}" if each in "\\`*_[]|#~$" else each for each in _one_line(text)
    )
    return escaped_text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_LATEX_CHARACTERS = {
    **{each: rf"\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
