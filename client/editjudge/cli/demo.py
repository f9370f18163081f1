"""`editjudge demo`: judge the built-in edits and write a report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import click
from rich.progress import track

from ..app.wire.base import text_of
from ..base.console import console
from ..base.screen import say, tell
from ..base.verdict import Failed
from ..base.words import counted
from ..base.writing import check_free, on_disk, put
from ..benchmarks.tabulation import tabulate
from ..demo import judging
from ..demo.editors import EDITORS
from ..demo.files import ITEMS, is_demo
from ..demo.page import write_page
from ..report.summary import results_tables
from .options import FOLDER, path, settings_of, takes
from .services import services_at_hand

T = TypeVar("T")


@click.command("demo")
@takes(
    out=path(
        "PATH",
        "Where the pictures, results.json and report.html go.",
        type=FOLDER,
        default=Path("out/demo"),
        show_default=True,
    ),
)
def command(out: Path) -> int:
    """Judge a set of edits made from scikit-image's photographs by three known editors.

    Exit code 3 when a service failed.
    """
    settings = settings_of()
    results, report = out / "results.json", out / "report.html"
    items = out / "set" / ITEMS
    for file in (items, results, report):
        check_free(file, lambda _: is_demo(items), "file of an earlier demo")
    with on_disk(out):
        edits = judging.prepare(out)
    with services_at_hand(settings, start=True, say=tell) as at_hand:
        judgements = asyncio.run(judging.judge_all(at_hand, edits, _progress))
    cells = tabulate(judging.COLUMNS, judging.rows(judgements))
    say(f"{len(edits) // len(EDITORS)} edits by {len(EDITORS)} editors")
    screen = console()
    for table in results_tables(judging.COLUMNS, cells, width=screen.width):
        screen.print(table.terminal())
    with on_disk(out):
        put(results, text_of(judging.results(judgements, cells)).encode())
        write_page(report, judgements, judging.COLUMNS, cells, judging.HIGHLIGHTS)
    say(f"wrote {results} and {report}")
    failures = [o for j in judgements for o in j.outcomes.values() if isinstance(o, Failed)]
    if not failures:
        return 0
    tell(f"{counted(len(failures), 'verdict')} failed (first: {failures[0].reason})")
    return 3


def _progress(finished: Iterable[T], total: int) -> Iterator[T]:
    """Draw a bar on a terminal's error output, and nothing elsewhere."""
    drawing = console(err=True)
    return iter(
        track(finished, "judging", total=total, console=drawing, disable=not drawing.is_terminal)
    )
