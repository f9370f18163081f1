"""`editjudge validate`: is everything there and readable, and what would a run call?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from ..app.estimate import call_lines
from ..app.spec import Resolved
from ..app.validate import Validation, validated
from ..app.wire.base import text_of
from ..app.wire.checks import Validation as ValidationJson
from .options import (
    SpecOptions,
    config_option,
    json_option,
    options,
    settings_of,
)

_SHOWN = 20


@click.command("validate")
@options(SpecOptions, "asked")
@config_option
@json_option
def command(asked: SpecOptions, config: Path | None, as_json: bool) -> int:
    """Check data and outputs before a run; nothing is called.

    Fields, ids and files of the data; outputs that are missing, that belong to no item, cannot
    be read or are not what they are named. Exit code 2 when something is wrong.
    """
    spec = asked.spec()
    settings = settings_of(config)
    if settings.generalists:
        asked.check_judges(settings)
    validation = validated(Resolved(spec).order, settings, spec.single_image)
    if as_json:
        click.echo(text_of(ValidationJson.of(validation)))
    else:
        _show(validation)
    return 2 if validation.wrong else 0


def _show(validation: Validation) -> None:
    click.echo(f"{validation.items:,} items can be used")
    for model, count in validation.outputs.items():
        click.echo(f"{model}: {count:,} outputs")
    shown: Counter[tuple[str, str]] = Counter()
    for problem in validation.problems:
        shown[problem.where, problem.kind] += 1
        if shown[problem.where, problem.kind] <= _SHOWN:
            kind = f"{problem.kind}, only noted" if problem.note else problem.kind
            click.echo(f"{problem.where}: {kind}: {problem.what}")
    for (where, kind), count in shown.items():
        if count > _SHOWN:
            click.echo(f"{where}: {kind}: and {count - _SHOWN:,} more")
    if validation.estimate is not None:
        for line in (*call_lines(validation.estimate), *validation.estimate.notes):
            click.echo(line)
    click.secho("something is wrong" if validation.wrong else "all is well")
