"""`editjudge doctor`: is every service reachable, ready and right?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from ..app.client import with_local_stack
from ..app.dimensions import unserved, unserved_line
from ..app.doctor import NEEDED, NOT_ASKED, NOT_KNOWN, Finding, examine, expected_in
from ..base.screen import say, say_json, tell
from ..base.strict import text_of
from .options import path, settings_of, takes
from .services import services_at_hand


@click.command("doctor")
@takes(
    "generalist",
    "judge_model",
    "endpoint",
    "gateway",
    "json",
    expect=path(
        "FILE",
        "A panel file: what is served otherwise than it says is wrong (docs/deploying.md).",
    ),
)
def command(expect: Path | None, *, json: bool, **asked: Any) -> int:
    """Check every service: reachable, version, ready, round trip, and a known answer.

    It says what it checked: a service may have no known answer, a server may let anybody in. Exit
    code 1 when something is wrong, with the mend.
    """
    expected = None if expect is None else expected_in(expect)
    settings = with_local_stack(settings_of(asked))
    findings: list[Finding] = []

    def without(model: str, why: str) -> None:
        mend = "see the log of the local stack; editjudge models verify checks its weights"
        service = model.replace("_", ".", 1)
        findings.append(Finding(service=service, problem=f"could not be loaded: {why}", mend=mend))

    # Whoever names a generalist only asks about that, or about the stack that runs already.
    start = not settings.generalists
    with services_at_hand(settings, start=start, say=tell, without=without) as at_hand:
        findings += asyncio.run(examine(at_hand, expected))
    if json:
        say_json(text_of(findings))
    else:
        for finding in findings:
            _show(finding)
        served = {finding.service for finding in findings if not finding.problem}
        if served and (line := unserved_line(unserved(served))):
            say(line)
    return 1 if any(finding.problem for finding in findings) else 0


def _show(finding: Finding) -> None:
    if finding.problem:
        say(f"✗ {finding.service:<14} {finding.endpoint} {finding.problem}", fg="red")
        say(f"  mend: {finding.mend}")
        return
    # Green is what was found right; of what was not checked it says so.
    unchecked = finding.answer in {NOT_KNOWN, NOT_ASKED}
    mark, colour = ("?", "yellow") if unchecked else ("✓", "green")
    say(f"{mark} {finding.service:<14}", fg=colour, nl=False)
    say(
        f" {finding.endpoint} ({finding.server}), round trip {finding.round_trip_ms:.2f} ms, "
        f"{finding.answer}\n  {finding.identity}"
    )
    if finding.team:
        say(f"  known to the front door as team {finding.team}")
    if finding.access:
        say(
            f"  key and headers: {finding.access}",
            fg=None if finding.access == NEEDED else "yellow",
        )
