"""`editjudge agreement`: how far judges agree with each other and with themselves."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ..app.agreement import AgreementTable, compare_judges
from ..base.text import format_count
from ..report.table import Head, Row, Table
from ..stats.agreement import Figure
from .options import open_run
from .output import print_json, print_tables


def agreement_command(runs: tuple[Path, ...], *, json: bool) -> None:
    """Compare the judges of runs with each other, and each with its own rounds."""
    with ExitStack() as stack:
        result = compare_judges([stack.enter_context(open_run(run)) for run in runs])
    if json:
        print_json(result)
    else:
        print_tables(_agreement_table(table) for table in result.tables)


def _agreement_table(table: AgreementTable) -> Table:
    names = dict.fromkeys(name for row in table.rows for name in row.figures)
    heads = [Head("", fold=True), *(Head(name.replace("_", " "), right=True) for name in names)]
    rows = []
    for row in table.rows:
        texts = [_text(row.figures[name]) if name in row.figures else "" for name in names]
        rows.append(Row((row.who, *texts, row.records)))
    reasons = dict.fromkeys(each.reason for row in table.rows for each in row.figures.values())
    notes = [f"-, or no interval: {reason}" for reason in reasons if reason]
    sources = format_count(table.sources, "source")
    title = f"{table.dimension}: {format_count(table.records, 'edit')}, {sources}"
    return Table((*heads, Head("edits", right=True)), rows, title, notes=notes)


def _text(figure: Figure) -> str:
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
