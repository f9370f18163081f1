"""Tables as data, and how they are written: for a terminal, as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..base.words import inert

if TYPE_CHECKING:
    from rich.table import Table as Terminal

Form: TypeAlias = Literal["latex", "markdown", "csv", "json"]
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
    place: int = 0
    beside: str = ""
    coverage: str = ""
    footnote: str = ""

    def __str__(self) -> str:
        return f"{self.text}{self.beside}{self.coverage and f' ({self.coverage})'}"


Plain: TypeAlias = str | int | float | bool | None
Content: TypeAlias = Plain | Number | Sequence[str]


@dataclass(frozen=True, slots=True)
class Head:
    """A column.

    Attributes:
        title: Above it.
        key: Its name in CSV and JSON; the title by default.
        right: Its cells stand on the right, as numbers do.
        fold: A terminal may break its cells into lines.
    """

    title: str
    key: str = ""
    right: bool = False
    fold: bool = False

    @property
    def name(self) -> str:
        """Its name in CSV and JSON."""
        return self.key or self.title


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
    grouped: bool = False
    notes: Sequence[str] = ()
    about: Sequence[str] = ()

    def written(self, form: Form) -> str:
        """The table as text that ends with a line."""
        return _FORMS[form](self)

    def terminal(self) -> Terminal:
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
            group = texts[0] if self.grouped else None
            begins = self.grouped and above not in {None, group}
            if self.grouped and group == above:
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


def _plain(cell: Content) -> object:
    """A cell as JSON holds it."""
    if isinstance(cell, Number):
        return cell.text
    return cell if cell is None or isinstance(cell, str | int | float) else list(cell)


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head.name for head in table.heads)
    for row in table.rows:
        plain = (_plain(cell) for cell in row.cells)
        writer.writerow([inert(", ".join(c) if isinstance(c, list) else c) for c in plain])
    return out.getvalue()


def _json(table: Table) -> str:
    names = [head.name for head in table.heads]
    rows = [dict(zip(names, map(_plain, row.cells), strict=True)) for row in table.rows]
    return json.dumps(rows, allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def _footnotes(table: Table) -> dict[str, str]:
    """The mark of each footnote, in order of reading."""
    cells = (cell for row in table.rows for cell in row.cells)
    texts = (cell.footnote for cell in cells if isinstance(cell, Number) and cell.footnote)
    return {text: _letters(number) for number, text in enumerate(dict.fromkeys(texts))}


def _letters(number: int) -> str:
    """As a, b, … z, aa, ab, …."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _cells(
    table: Table, form: Literal["latex", "markdown"], marks: Mapping[str, str]
) -> Iterator[tuple[bool, list[str]]]:
    """Whether a further group begins with a row, and its cells in a markup."""
    escaped, (places, mark) = _ESCAPED[form], _MARKUP[form]
    for row, begins, texts in table._texts():
        cells = []
        for cell, text in zip(row.cells, texts, strict=True):
            if isinstance(cell, Number):
                before, after = places.get(cell.place, ("", ""))
                number = f"{before}{escaped(cell.text)}{after}{escaped(cell.beside)}"
                above = mark.format(marks[cell.footnote]) if cell.footnote else ""
                cells.append(number + above)
            else:
                cells.append(escaped(text))
        yield begins, cells


def _latex(table: Table) -> str:
    marks = _footnotes(table)
    out = [f"% {' '.join(line.split())}" for line in table.about]
    out.append("% needs: \\usepackage{booktabs}")
    if _other_script(table):
        out.append(
            "% other than Latin letters: needs xelatex or lualatex, and a font that has them"
        )
    sides = "".join("r" if head.right else "l" for head in table.heads)
    out += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
    out += [_latex_row(_latex_text(head.title) for head in table.heads), r"\midrule"]
    for begins, cells in _cells(table, "latex", marks):
        if begins:
            out.append(r"\addlinespace")
        out.append(_latex_row(cells))
    out += [r"\bottomrule", r"\end{tabular}"]
    notes = [rf"\textsuperscript{{{m}}}~{_latex_text(text)}" for text, m in marks.items()]
    notes += map(_latex_text, table.notes)
    if notes:
        out += ["", rf"{{\footnotesize {'; '.join(notes)}.\par}}"]
    return "\n".join(out) + "\n"


def _other_script(table: Table) -> bool:
    """Whether a name has letters that pdflatex stops at."""
    names = [head.title for head in table.heads]
    names += [cell for row in table.rows for cell in row.cells if isinstance(cell, str)]
    return any(ord(each) > _LAST_LATIN for each in {*"".join(names)} - _LATEX_CHARACTERS.keys())


def _latex_row(texts: Iterable[str]) -> str:
    row = " & ".join(texts) + r" \\"
    # What ends the row above takes a star or a bracket for an argument of its own.
    return f"{{}}{row}" if row.startswith(("*", "[")) else row


def _one_line(text: str) -> str:
    """Text on one line; what follows a number stays apart from it."""
    return " " * text.startswith(" ") + " ".join(text.split())


def _latex_text(text: str) -> str:
    """Text of which LaTeX takes nothing for a command."""
    return "".join(_LATEX_CHARACTERS.get(each, each) for each in _one_line(text))


def _markdown(table: Table) -> str:
    marks = _footnotes(table)
    rules = ("---:" if head.right else "---" for head in table.heads)
    rows = [[_markdown_text(head.title) for head in table.heads], rules]
    rows += [cells for _, cells in _cells(table, "markdown", marks)]
    out = [f"| {' | '.join(row)} |" for row in rows]
    notes = [f"<sup>{mark}</sup> {text}" for text, mark in marks.items()]
    notes += map(_markdown_text, table.notes)
    if notes:
        out += ["", f"{'; '.join(notes)}."]
    if table.about:
        out += ["", *(f"{_markdown_text(line)}  " for line in table.about)]
    return "\n".join(out) + "\n"


def _markdown_text(text: str) -> str:
    """Text of which Markdown and HTML take nothing for a mark."""
    escaped = "".join(f"\\{each}" if each in "\\`*_[]|#~$" else each for each in _one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
_ESCAPED = {"latex": _latex_text, "markdown": _markdown_text}
_MARKUP = {
    "latex": (
        {1: (r"\textbf{", "}"), 2: (r"\underline{", "}")},
        r"\textsuperscript{{{}}}",
    ),
    "markdown": ({1: ("**", "**"), 2: ("<u>", "</u>")}, "<sup>{}</sup>"),
}
"""What stands around the best and the second number of a column, and how a mark is raised."""
_FORMS = {"latex": _latex, "markdown": _markdown, "csv": _csv, "json": _json}
