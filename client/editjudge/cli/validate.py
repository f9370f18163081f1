"""`editjudge validate`: is everything there and readable, and what would a run call?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from .options import (
    config_option,
    dimension_option,
    json_option,
    judge_option,
    pairs_of,
    replicas_of,
    root_option,
    rules_of,
    rules_option,
    settings_of,
)

_SHOWN = 20


@click.command("validate")
@click.argument("benchmark")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="As for run.")
@click.option(
    "--outputs", "outputs", multiple=True, metavar="MODEL=DIR", help="As for run; may be left out."
)
@click.option(
    "--single-image",
    "single_image",
    multiple=True,
    metavar="MODEL",
    help="A model that takes one image only, and needs no output to several.",
)
@root_option
@rules_option
@dimension_option
@judge_option
@click.option("--repeats", type=click.IntRange(1, 1000), help="As for run.")
@config_option
@json_option
def command(
    benchmark: str,
    data: Path,
    outputs: tuple[str, ...],
    single_image: tuple[str, ...],
    roots: tuple[str, ...],
    protocol: str | None,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    weights: str | None,
    patterns: tuple[str, ...],
    judges: tuple[str, ...],
    repeats: int | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Check data and outputs before a run; nothing is called.

    Fields, ids and files of the data; outputs that are missing, that belong to no item, cannot
    be read or are not what they are named. Exit code 2 when something is wrong.
    """
    from ..benchmarks.registry import benchmark as benchmark_of
    from ..report.result import dumps
    from ..run.opened import dataset_of, ordered
    from ..run.validate import as_json as as_data
    from ..run.validate import validated
    from .run import check_judges, models_of

    chosen = benchmark_of(benchmark)
    rules = rules_of(chosen, protocol, with_, without, weights)
    dataset = dataset_of(chosen, data, pairs_of("--root", roots))
    replicas = replicas_of(judges, repeats)
    settings = settings_of(config)
    if settings.generalists:
        check_judges(settings, replicas.judges if judges else ())
    order = ordered(chosen, rules, dataset, models_of(outputs), patterns, replicas=replicas)
    found = validated(order, settings, single_image)
    if as_json:
        click.echo(dumps(as_data(found)))
    else:
        _show(found)
    return 2 if found.wrong else 0


def _show(found: Any) -> None:
    from ..run.estimate import call_lines

    click.echo(f"{found.items:,} items can be used")
    for model, count in found.outputs.items():
        click.echo(f"{model}: {count:,} outputs")
    shown: Counter[tuple[str, str]] = Counter()
    for one in found.problems:
        shown[one.where, one.kind] += 1
        if shown[one.where, one.kind] <= _SHOWN:
            kind = f"{one.kind}, only noted" if one.note else one.kind
            click.echo(f"{one.where}: {kind}: {one.what}")
    for (where, kind), count in shown.items():
        if count > _SHOWN:
            click.echo(f"{where}: {kind}: and {count - _SHOWN:,} more")
    if found.estimate is not None:
        for line in (*call_lines(found.estimate), *found.estimate.notes):
            click.echo(line)
    click.secho("something is wrong" if found.wrong else "all is well")
