"""A run's table as text for a paper: LaTeX, Markdown, or CSV for further work."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypeVar

from ..app.export import inert
from ..app.results import Results
from ..base.errors import ConfigError
from ..base.identity import untrained
from ..benchmarks.cell import Cell
from ..benchmarks.column import Column
from .table import arrow, best_and_second, carried, legend, not_finished, rounded, sure_text

Form: TypeAlias = Literal["latex", "markdown", "csv"]
_T = TypeVar("_T")
_BEST, _SECOND = 1, 2
_LAST_LATIN = 0x17F
"""Of the characters that pdflatex has without further packages, nearly."""
_WIDE = 6
"""Columns that fit on a page; more of them become rows where there are fewer models."""
_CSV = (
    *("model", "column", "group", "title", "value", "deviation", "scored", "asked", "imputed"),
    *("low", "high", "error", "clusters", "method", "capped", "other_items"),
)


@dataclass(frozen=True, slots=True)
class Number:
    """A cell of the table.

    Attributes:
        text: As papers print it; "-" where there is none.
        place: 1 for the best of its column, 2 for the second, 0 for others and where there is
            only one model. Numbers that are printed alike share a place.
        mark: Of the footnote about its coverage; "" where it has none.
        beside: Half of its interval and further signs; see `sure_text`.
    """

    text: str
    place: int = 0
    mark: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A row: a column of the paper where these have groups, else a model."""

    group: str
    name: str
    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class PaperTable:
    """What is typeset.

    Attributes:
        heads: Above the numbers.
        lines: The rows, those of a group together.
        footnotes: By mark.
        notes: What else a reader has to know, a line each.
        made_of: What the numbers were made of and by, a line each.
    """

    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    footnotes: Mapping[str, str]
    notes: tuple[str, ...]
    made_of: tuple[str, ...]


def chosen(
    results: Results, columns: Collection[str] = (), models: Collection[str] = ()
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns and models that are meant.

    Args:
        columns: Globs of ids or titles, parts of ids, or words that stand in group, title and id;
            by default all that ask anything of any model.
        models: Names, in the order of the table; by default all.

    Raises:
        ConfigError: a name or glob matches none.
    """
    for model in models:
        if model not in results.cells:
            raise ConfigError(f"no model {model}", f"models: {', '.join(results.cells)}")
    for pattern in columns:
        if not any(_is_meant(column, [pattern]) for column in results.columns):
            titles = ", ".join(column.title for column in results.columns[:6])
            mend = f"give an id, a part of one, a title or a glob: {titles}"
            raise ConfigError(f"no column {pattern}", mend)
    names = tuple(models) or tuple(results.cells)
    meant = (c for c in results.columns if not columns or _is_meant(c, columns))
    return tuple(c for c in meant if any(results.cells[n][c.id].asked for n in names)), names


def narrowed(
    results: Results, columns: Collection[str] = (), models: Collection[str] = ()
) -> Results:
    """The table with these columns and models alone; with all where none are named.

    Args:
        columns: See `chosen`.
        models: The same.

    Raises:
        ConfigError: a name or glob matches none.
    """
    if not columns and not models:
        return results
    meant, names = chosen(results, columns, models)
    agreement = tuple(
        one for one in results.agreement if any(one.dimension in c.dimensions for c in meant)
    )
    ids = {column.id for column in meant}
    return replace(
        results,
        columns=meant,
        cells={name: _of_ids(results.cells[name], ids) for name in names},
        judges={
            name: {judge: _of_ids(row, ids) for judge, row in results.judges[name].items()}
            for name in names
            if name in results.judges
        },
        agreement=agreement,
    )


def _of_ids(row: Mapping[str, _T], ids: Collection[str]) -> dict[str, _T]:
    return {name: one for name, one in row.items() if name in ids}


def typeset(
    results: Results, form: Form, columns: Collection[str] = (), models: Collection[str] = ()
) -> str:
    """The table as text, best numbers bold and second ones underlined.

    Of each number that not all edits asked about have a part in, a footnote says how many have.

    Args:
        form: `latex` needs the package booktabs; `csv` has a line for each number, unrounded.
        columns: See `chosen`.
        models: The same.

    Raises:
        ConfigError: a name or glob matches none.
    """
    columns_meant, names = chosen(results, columns, models)
    if form == "csv":
        return _csv(results, columns_meant, names)
    return _FORMS[form](paper_table(results, columns_meant, names))


def paper_table(results: Results, columns: Sequence[Column], models: Sequence[str]) -> PaperTable:
    """The table of these columns and models."""
    by_column = [_numbers(results, column, models) for column in columns]
    if any(column.group for column in columns) or len(columns) > max(_WIDE, len(models)):
        heads = tuple(models)
        lines = tuple(
            Line(column.group, _titled(column), tuple(numbers))
            for column, numbers in zip(columns, by_column, strict=True)
        )
    else:
        heads = tuple(map(_titled, columns))
        rows = zip(*by_column, strict=True) if by_column else ((),) * len(models)
        lines = tuple(Line("", m, tuple(row)) for m, row in zip(models, rows, strict=True))
    marks: dict[str, str] = {}
    lines = tuple(_marked(line, marks) for line in lines)
    footnotes = {mark: f"{text} have a number" for text, mark in marks.items()}
    notes = tuple(_notes(results, columns, models))
    return PaperTable(heads, lines, footnotes, notes, tuple(_made_of(results)))


def _marked(line: Line, marks: dict[str, str]) -> Line:
    """The same with marks for what footnotes say; equal ones share theirs, in order of reading."""
    numbers = (
        replace(n, mark=marks.setdefault(n.mark, _letters(len(marks)))) if n.mark else n
        for n in line.numbers
    )
    return replace(line, numbers=tuple(numbers))


def _is_meant(column: Column, patterns: Iterable[str]) -> bool:
    names = (column.id.casefold(), column.title.casefold())
    parts = column.id.casefold().split(".")[1:]
    words = f"{column.group} {column.title} {column.id}".casefold()
    return any(
        pattern in parts
        or any(fnmatchcase(name, pattern) for name in names)
        or all(word in words for word in pattern.split())
        for pattern in map(str.casefold, patterns)
    )


def _numbers(results: Results, column: Column, models: Sequence[str]) -> list[Number]:
    """Of one column, each with what its footnote says in the place of the mark."""
    cells = [results.cells[model][column.id] for model in models]
    decimals = _decimals(results, column, cells)
    texts = ["-" if cell.value is None else rounded(cell.value, decimals) for cell in cells]
    values = [cell.value for cell in cells]
    places = best_and_second(texts, values, higher_is_better=column.higher_is_better)
    return [
        Number(
            text,
            place,
            _coverage(cell),
            _beside(results, model, column, decimals),
        )
        for model, text, place, cell in zip(models, texts, places, cells, strict=True)
    ]


def _decimals(results: Results, column: Column, cells: Sequence[Cell]) -> int:
    """As the paper prints; where there is no such table, as many as the numbers carry."""
    if column.decimals is not None:
        return column.decimals
    return results.benchmark.decimals if results.benchmark.table else carried(cells)


def _beside(results: Results, model: str, column: Column, decimals: int) -> str:
    cell = results.cells[model][column.id]
    return "" if cell.value is None else sure_text(cell, decimals)


def _coverage(cell: Cell) -> str:
    if not cell.asked or cell.scored == cell.asked:
        return ""
    return f"{cell.scored:,} of {cell.asked:,} edits"


def _letters(number: int) -> str:
    """As a, b, … z, aa, ab, …."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _titled(column: Column) -> str:
    return f"{column.title} {arrow(column.higher_is_better)}"


def _made_of(results: Results) -> Iterator[str]:
    switches = f" with {', '.join(sorted(results.switches))}" if results.switches else ""
    named = ", ".join(filter(None, [results.benchmark.title, results.protocol]))
    yield f"{named}{switches}, {results.items:,} items"
    yield from (f"{role}: {identity}" for role, identity in results.identities.items())


def _notes(results: Results, columns: Sequence[Column], models: Sequence[str]) -> Iterator[str]:
    cells = [results.cells[model][column.id] for model in models for column in columns]
    if names := untrained(results.identities):
        yield f"UNTRAINED weights, not a result: {', '.join(map(str, names))}"
    yield from legend(cells, mend=False)
    if any(cell.sd is not None for cell in cells):
        yield "sd: standard deviation over rounds"
    yield from counted_lines(results)


def counted_lines(results: Results) -> Iterator[str]:
    """Which edits count otherwise than usual, or not yet."""
    if pending := sum(
        max(map(_pending, row.values()), default=0) for row in results.cells.values()
    ):
        yield not_finished(pending)
    if results.count_missing:
        yield "missing outputs count as the worst value of each metric"
    if results.common:
        yield "each dimension counts the items alone on which all models have a number"


def _pending(cell: Cell) -> int:
    return cell.counts.get("pending", 0)


def _latex(table: PaperTable) -> str:
    grouped = any(line.group for line in table.lines)
    lead = 2 if grouped else 1
    names = [""] * lead
    out = [f"% {line}" for line in map(_one_line, table.made_of)]
    out.append("% needs: \\usepackage{booktabs}")
    if _other_script(table):
        out.append(
            "% other than Latin letters: needs xelatex or lualatex, and a font that has them"
        )
    out += [rf"\begin{{tabular}}{{{'l' * lead}{'r' * len(table.heads)}}}", r"\toprule"]
    out.append(_latex_row([*names, *map(_latex_text, table.heads)]))
    out.append(r"\midrule")
    above = None
    for line in table.lines:
        if grouped and above not in {None, line.group}:
            out.append(r"\addlinespace")
        group = [_latex_text(line.group) if line.group != above else ""] if grouped else []
        above = line.group
        numbers = map(_latex_number, line.numbers)
        out.append(_latex_row([*group, _latex_text(line.name), *numbers]))
    out += [r"\bottomrule", r"\end{tabular}"]
    notes = [rf"\textsuperscript{{{m}}}~{_latex_text(text)}" for m, text in table.footnotes.items()]
    notes += map(_latex_text, table.notes)
    if notes:
        out += ["", rf"{{\footnotesize {'; '.join(notes)}.\par}}"]
    return "\n".join(out) + "\n"


def _other_script(table: PaperTable) -> bool:
    """Whether a name has letters that pdflatex stops at."""
    names = (*table.heads, *(f"{line.group}{line.name}" for line in table.lines))
    return any(ord(each) > _LAST_LATIN for each in {*"".join(names)} - _LATEX_CHARACTERS.keys())


def _latex_row(texts: Iterable[str]) -> str:
    row = " & ".join(texts) + r" \\"
    # What ends the row above takes a star or a bracket for an argument of its own.
    return f"{{}}{row}" if row.startswith(("*", "[")) else row


def _latex_number(number: Number) -> str:
    text = _latex_text(number.text)
    if number.place in _LATEX:
        text = rf"\{_LATEX[number.place]}{{{text}}}"
    mark = rf"\textsuperscript{{{number.mark}}}" if number.mark else ""
    return text + _latex_text(number.beside) + mark


def _latex_text(text: str) -> str:
    """Text of which LaTeX takes nothing for a command."""
    return "".join(_LATEX_CHARACTERS.get(each, each) for each in _on_one_line(text))


def _markdown(table: PaperTable) -> str:
    grouped = any(line.group for line in table.lines)
    names = ["", ""] if grouped else [""]
    heads = [*names, *map(_markdown_text, table.heads)]
    rules = [*("---" for _ in names), *("---:" for _ in table.heads)]
    out = [_markdown_row(heads), _markdown_row(rules)]
    above = None
    for line in table.lines:
        group = [_markdown_text(line.group) if line.group != above else ""] if grouped else []
        above = line.group
        out.append(
            _markdown_row([*group, _markdown_text(line.name), *map(_markdown_number, line.numbers)])
        )
    notes = [f"<sup>{mark}</sup> {text}" for mark, text in table.footnotes.items()]
    notes += map(_markdown_text, table.notes)
    if notes:
        out += ["", f"{'; '.join(notes)}."]
    out += ["", *(f"{_markdown_text(line)}  " for line in table.made_of)]
    return "\n".join(out) + "\n"


def _markdown_row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_number(number: Number) -> str:
    text = _markdown_text(number.text)
    before, after = _MARKDOWN.get(number.place, ("", ""))
    mark = f"<sup>{number.mark}</sup>" if number.mark else ""
    return f"{before}{text}{after}{_markdown_text(number.beside)}{mark}"


def _markdown_text(text: str) -> str:
    """Text of which Markdown and HTML take nothing for a mark."""
    escaped = "".join(f"\\{each}" if each in "\\`*_[]|#~$" else each for each in _on_one_line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _csv(results: Results, columns: Sequence[Column], models: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    for model in models:
        for column in columns:
            cell = results.cells[model][column.id]
            texts = map(inert, (model, column.id, column.group, column.title))
            counted = (cell.scored, cell.asked, cell.imputed)
            writer.writerow([*texts, cell.value, cell.sd, *counted, *_interval(cell)])
    return out.getvalue()


def _interval(cell: Cell) -> tuple[float | int | str | None, ...]:
    of = cell.interval
    how = (of.low, of.high, of.error, of.clusters, of.method) if of else (None,) * 5
    return (*how, cell.capped, int(cell.other_items))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _on_one_line(text: str) -> str:
    """The same, but what follows a number is kept apart from it."""
    return " " * text.startswith(" ") + _one_line(text)


_LATEX = {_BEST: "textbf", _SECOND: "underline"}
_MARKDOWN = {_BEST: ("**", "**"), _SECOND: ("<u>", "</u>")}
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
_FORMS: Mapping[str, Callable[[PaperTable], str]] = {"latex": _latex, "markdown": _markdown}
