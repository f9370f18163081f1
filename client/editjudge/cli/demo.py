"""`editjudge demo`: judge the built-in edits and write a report."""

from __future__ import annotations

from pathlib import Path

from ..app.run import run
from ..app.view import RunView
from ..base.console import console
from ..base.output_files import check_free, on_disk, put
from ..base.strict import text_of
from ..base.terminal import say, tell
from ..demo import DEMO, EDITORS, write_demo_set
from ..demo.files import ITEMS, is_demo
from ..demo.page import page_content
from ..report.display import format_progress, make_display
from ..report.site import write_report
from ..report.summary import build_results_tables
from .options import settings_from
from .output import print_tables
from .services import provide_services


def demo_command(out: Path) -> int:
    """Judge the built-in edits and write a report; returns the exit code."""
    settings = settings_from()
    data, at, report, page = (out / name for name in ("set", "run", "results.json", "report.html"))
    for file in (data / ITEMS, report, page):
        check_free(file, lambda _: is_demo(data / ITEMS), "file of an earlier demo")
    with on_disk(out):
        spec = write_demo_set(data)
    with (
        make_display(as_json=False) as shown,
        provide_services(settings, start=True, say=shown.show_message) as at_hand,
    ):
        done = run(spec, out=at, settings=at_hand, progress=shown, every=shown.seconds_between)
    with RunView(at) as view:
        results, words = view.results(), page_content(view)
    say(f"{results.items} edits by {len(EDITORS)} editors")
    some = [column for column in results.columns if column.id in DEMO["page"]["columns"]]
    print_tables(build_results_tables(some, results.models, width=console().width))
    with on_disk(out):
        put(report, text_of(results).encode())
    write_report([at], page, about=words)
    tell(format_progress(done.finished))
    say(f"wrote {report} and {page}")
    return done.finished.exit_code
