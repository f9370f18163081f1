"""`editjudge report` and `bundle`: write runs as a page for the browser."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import track

from ..base.console import make_console
from ..base.errors import ConfigError
from ..base.terminal import print_notice, print_text
from ..base.text import format_count
from ..report.bundle import write_bundle
from ..report.pictures import SIDE
from ..report.site import WrittenPage, write_report
from .options import open_quietly, open_run

_MAX_LISTED = 3
"""Number of omitted pictures that are listed by name."""


def report_command(runs: tuple[Path, ...], out: Path, size: int, *, published: bool, **options: Any) -> None:
    """Write runs as a page."""
    if len(runs) > 1 and any(options.values()):
        raise ConfigError("--data and --root say where the pictures of one run are", "name one RUN")
    _print_data_notes(runs, options)
    report = write_report(
        runs,
        out,
        with_published=published,
        pictures=size > 0,
        side=size or SIDE,
        progress=show_progress,
        open_run=partial(open_quietly, options=options),
    )
    _print_problems(report)
    print_text(f"wrote {report.page}: {format_count(report.edits, 'edit')}")


def bundle_command(run: Path, out: Path, *, originals: bool, **options: Any) -> None:
    """Write a run with its pictures and its page to one file."""
    _print_data_notes((run,), options)
    bundle = write_bundle(
        run, out, originals=originals, progress=show_progress, open_run=partial(open_quietly, options=options)
    )
    _print_problems(bundle.page)
    pictures = f", {format_count(bundle.originals, 'original picture')}" if originals else ""
    edits = format_count(bundle.page.edits, "edit")
    print_text(f"wrote {out}: {edits}{pictures}, {bundle.size / 1e6:,.1f} MB")
    print_notice("unpacked, it is the folder of a run for every command; its page is index.html")


def _print_data_notes(runs: Iterable[Path], options: Mapping[str, Any]) -> None:
    """Say of which runs the data is gone or another, so that pictures may be missing."""
    for run in runs:
        open_run(run, options).close()


def _print_problems(report: WrittenPage) -> None:
    print_notice(*(f"not shown: {line}" for line in report.picture_problems[:_MAX_LISTED]))
    if len(report.picture_problems) > _MAX_LISTED:
        print_notice(f"and {len(report.picture_problems) - _MAX_LISTED:,} more pictures")


def show_progress(pictures: Iterable[str | None], total: int) -> Iterator[str | None]:
    """Show a progress bar on stderr if it is a terminal."""
    screen = make_console(err=True)
    is_disabled = not screen.is_terminal or not total
    return iter(track(pictures, "pictures", total=total, console=screen, disable=is_disabled))
