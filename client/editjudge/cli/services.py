"""`editjudge doctor`, `status` and `canary`."""

import asyncio
from pathlib import Path
from typing import Any

from ..app import canary
from ..app.client import add_local_stack
from ..app.dimensions import missing_services, missing_services_line
from ..app.doctor import NO_KNOWN_ANSWER, NOT_CHECKED_HERE, Finding, check_services, load_panel_file
from ..base.terminal import print_notice, print_text
from ..report.table import Head, Row, Table
from .local_stack import list_default_roles, provide_services
from .options import check_judges, parse_judges, settings_from
from .output import print_json, print_tables

_COLOURS = {"steady": "green", "shifted": "red", "disordered": "red", "unchecked": "yellow"}
_EXIT = {"steady": 0, "shifted": 3, "disordered": 3, "unchecked": 1}


def doctor_command(expect: Path | None, *, json: bool, **options: Any) -> int:
    """Check every service; return the exit code."""
    expected_services = None if expect is None else load_panel_file(expect)
    settings = add_local_stack(settings_from(options))
    check_judges(parse_judges(options), settings)
    findings: list[Finding] = []

    def add_unloaded(model: str, why: str) -> None:
        fix = "see the log of the local stack; editjudge models verify checks its weights"
        service = model.replace("_", ".", 1)
        findings.append(Finding(service=service, problem=f"could not be loaded: {why}", fix=fix))

    roles = list_default_roles(settings)
    with provide_services(settings, roles=roles, say=print_notice, on_unloaded=add_unloaded) as available:
        findings += asyncio.run(check_services(available, expected_services))
    if json:
        print_json(findings)
    else:
        for finding in findings:
            _print_finding(finding)
        service_names = {finding.service for finding in findings if not finding.problem}
        if service_names and (line := missing_services_line(missing_services(service_names))):
            print_text(line)
    return 1 if any(finding.problem for finding in findings) else 0


def _print_finding(finding: Finding) -> None:
    if finding.problem:
        where = "" if finding.endpoint in finding.problem else f" {finding.endpoint}"
        print_text(f"✗ {finding.service:<14}{where} {finding.problem}", fg="red")
        print_text(f"  fix: {finding.fix}")
        if finding.note:
            print_text(f"  {finding.note}")
        return
    # Green means a correct answer; a yellow ? means that the answer was not checked.
    is_unchecked = finding.answer in {NO_KNOWN_ANSWER, NOT_CHECKED_HERE}
    mark, colour = ("?", "yellow") if is_unchecked else ("✓", "green")
    print_text(f"{mark} {finding.service:<14}", fg=colour, nl=False)
    print_text(
        f" {finding.endpoint} ({finding.server}), round trip {finding.round_trip_ms:.2f} ms, "
        f"{finding.answer}\n  {finding.identity}"
    )
    if finding.note:
        print_text(f"  {finding.note}", fg="yellow")
    if finding.team:
        print_text(f"  the front door identifies you as team {finding.team}")


def canary_command(rounds: int, *, new_baseline: bool, json: bool, **options: Any) -> int:
    """Check judges on the canaries; return the exit code."""
    settings = settings_from(options)
    results = canary.check_canaries(settings, tuple(parse_judges(options)), rounds, new_baseline=new_baseline)
    if json:
        print_json(results)
    else:
        for result in results:
            _print_canaries(result, canary.checks_file(settings))
    return max((_EXIT[each.state] for each in results), default=0)


def _print_canaries(result: canary.CanaryResult, file: Path) -> None:
    """Print a table of the canaries, and the result in one line."""
    if any(score.now is not None or score.failure for score in result.canaries):
        print_tables([_canary_table(result)])
    cost = "" if result.cost is None else f", cost {result.cost:.4g}"
    took = f" ({result.calls:,} calls{cost})"
    why = result.why
    if result.first and result.state == "steady":
        why = f"baseline stored in {file}; later checks are compared with it"
        if result.other:
            why = f"new {why}. The last one was of {result.other}. Nobody checked this judge against that one"
    tau = "" if result.tau is None else f"; order: tau {result.tau:.2f}"
    print_text(f"{result.service}: {why}{tau}{took}", fg=_COLOURS[result.state])


def _canary_table(result: canary.CanaryResult) -> Table:
    figures = ("place", "baseline", "now", "difference")
    heads = (Head("canary"), *(Head(name, right=True) for name in figures))
    since = f"scores from 1 to 5; baseline: {result.since or 'none'}"
    return Table(heads, [*map(_canary_row, result.canaries)], notes=[since])


def _canary_row(score: canary.CanaryScore) -> Row:
    before = by = "-"
    if score.before is not None:
        before = f"{score.before:.2f}" + ("" if score.sd is None else f" ± {score.sd:.2f}")
    if score.now is None:
        cells = (score.canary, score.place, before, score.failure or "-", by)
        return Row(cells, style="yellow")
    if score.before is not None:
        by = f"{score.now - score.before:+.2f}"
    return Row((score.canary, score.place, before, f"{score.now:.2f}", by))
