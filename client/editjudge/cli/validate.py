"""`editjudge validate`: is everything there and readable, and what would a run call?"""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from ..app.estimate import call_lines
from ..app.spec import Resolved
from ..app.validate import Validation, validated
from ..base.screen import say, say_json
from ..base.strict import text_of
from ..base.words import counted
from ..panel.services import own_services
from .options import SPEC, check_judges, settings_of, spec_of, takes

_SHOWN = 20


@click.command("validate")
@click.argument("benchmark")
@takes(
    *SPEC,
    "as_named",
)
@takes("json")
def command(benchmark: str, *, json: bool, **asked: Any) -> int:
    """Check data and outputs before a run; nothing is called.

    Fields, ids and files of the data; outputs that are missing, that belong to no item, cannot
    be read, are not what they are named, or are those of the items beside their own. Exit code 2
    when something is wrong.
    """
    settings = settings_of()
    spec = spec_of(benchmark, asked, services=own_services(settings))
    if settings.generalists:
        check_judges(asked["judge"], settings)
    order = Resolved(spec).order
    validation = validated(order, settings, spec.single_image, as_named=asked["as_named"])
    if json:
        say_json(text_of(validation))
    else:
        _show(validation)
    return 2 if validation.wrong else 0


def _show(validation: Validation) -> None:
    say(f"{counted(validation.items, 'item')} can be used")
    for model, count in validation.outputs.items():
        say(f"{model}: {counted(count, 'output')}")
    shown: Counter[tuple[str, str]] = Counter()
    for problem in validation.problems:
        shown[problem.where, problem.kind] += 1
        if shown[problem.where, problem.kind] <= _SHOWN:
            kind = f"{problem.kind}, only noted" if problem.note else problem.kind
            say(f"{problem.where}: {kind}: {problem.what}")
    for (where, kind), count in shown.items():
        if count > _SHOWN:
            say(f"{where}: {kind}: and {count - _SHOWN:,} more")
    if validation.estimate is not None:
        for line in (*call_lines(validation.estimate), *validation.estimate.notes):
            say(line)
    if validation.wrong:
        say("something is wrong: mend it, or judge what can be used with editjudge run")
    else:
        say("all is well; next: editjudge run")
