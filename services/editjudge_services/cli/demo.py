"""`editjudge demo`: judge the built-in edits and write a report."""

from pathlib import Path

from editjudge.app.run import run
from editjudge.app.view import RunView
from editjudge.base.console import make_console
from editjudge.base.output_files import check_overwrite, wrap_disk_errors, write_file
from editjudge.base.strict import to_json
from editjudge.base.terminal import print_notice, print_text
from editjudge.cli.local_stack import provide_services
from editjudge.cli.options import settings_from
from editjudge.cli.output import print_tables
from editjudge.report.display import format_progress, make_display
from editjudge.report.page import PageOptions
from editjudge.report.site import write_report
from editjudge.report.summary import build_results_tables

from ..demo import DEMO, EDITORS, write_demo_set
from ..demo.files import ITEMS, is_demo


def demo_command(out: Path) -> int:
    """Judge the built-in edits and write a report; return the exit code."""
    settings = settings_from()
    data, folder, table, page = map(out.joinpath, ("set", "run", "results.json", "report.html"))
    for file in (data / ITEMS, table, page):
        check_overwrite(file, lambda _: is_demo(data / ITEMS), "file of an earlier demo")
    edits = f"edits by {len(EDITORS)} editors"
    print_notice(f"1 of 4: drawing the {edits} into {data} …")
    with wrap_disk_errors(out):
        spec = write_demo_set(data)
    print_notice("2 of 4: starting what judges them …")
    with make_display(as_json=False) as progress, provide_services(settings, say=progress.show_message) as available:
        progress.show_message(f"3 of 4: judging the {edits} into {folder} …")
        every = progress.seconds_between
        result = run(spec, out=folder, settings=available, progress=progress, every=every)
    print_notice(f"4 of 4: computing the tables and writing {page} …")
    with RunView(folder) as view:
        results = view.results()
    print_text(f"{results.items} edits by {len(EDITORS)} editors")
    some = [column for column in results.columns if column.id in DEMO["page"]["columns"]]
    print_tables(build_results_tables(some, results.models, width=make_console().width))
    with wrap_disk_errors(out):
        write_file(table, to_json(results).encode())
    introduction = [(part["heading"], part["text"]) for part in DEMO["page"]["introduction"]]
    options = PageOptions("editjudge demo", introduction=introduction)
    write_report([folder], page, options=options)
    print_notice(format_progress(result.last_event))
    print_text(f"wrote {table} and {page}")
    return result.last_event.exit_code
