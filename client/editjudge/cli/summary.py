"""`editjudge summary`: the table of the paper, from a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import json_option, rules_of, rules_option

if TYPE_CHECKING:
    from ..benchmarks.replicas import Replicas


@click.command("summary")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--single-image",
    "single_image",
    multiple=True,
    metavar="MODEL",
    help="A model that takes one image only: the paper's rule holds where it gave no output to "
    "several; may be given several times.",
)
@rules_option
@json_option
def command(
    run: Path,
    single_image: tuple[str, ...],
    protocol: str | None,
    with_: tuple[str, ...],
    without: tuple[str, ...],
    weights: str | None,
    as_json: bool,
) -> int:
    """Show a run as the table of its benchmark's paper; nothing is called.

    Every number has its coverage: on how many of the verdicts asked for it rests. Works beside
    a run that goes on. With other rules than the run's own (--with, --without, --weights)
    composites are made anew from the verdicts there are.
    """
    from ..benchmarks.registry import benchmark as benchmark_of
    from ..report.columns import agreement_tables, reasons, results_table
    from ..report.result import dumps
    from ..report.table import console, untrained_line
    from ..run.results import as_json as as_data
    from ..run.results import results
    from ..run.store import RunStore

    with RunStore.open(run, read_only=True) as store:
        benchmark = benchmark_of(store.header.benchmark)
        rules = rules_of(benchmark, protocol, with_, without, weights, store.header.protocol)
        found = results(store, single_image, rules)
    if as_json:
        click.echo(dumps(as_data(found)))
        return 0
    about = [found.benchmark.title, found.benchmark.table, found.protocol, f"{found.items:,} items"]
    if found.words:
        about.append(f"prompts: {found.words}")
    click.echo(", ".join(filter(None, about)))
    for role, identity in found.identities.items():
        click.echo(f"{role}: {identity}")
    if warning := untrained_line(found.identities):
        click.secho(warning, fg="red", bold=True)
    if found.beside.replicas.each and any(r.startswith("generalist.") for r in found.identities):
        click.echo(_judges(found.beside.replicas))
    screen = console()
    screen.print(
        results_table(found.columns, found.cells, found.beside, screen.width, benchmark.decimals)
    )
    for line in reasons(found.columns, found.cells):
        click.echo(line)
    if any(cell.imputed for row in found.cells.values() for cell in row.values()):
        click.echo("* imputed: a rule of the benchmark put in what no judge said")
    if found.beside.agreement:
        screen.print(agreement_tables(found.beside.agreement))
    return 0


def _judges(replicas: Replicas) -> str:
    """Whose the numbers are."""
    names = ", ".join(replicas.judges)
    text = f"judged by {names}" if len(replicas.judges) == 1 else f"means of the judges {names}"
    if replicas.repeats > 1:
        text += f", {replicas.repeats} repeats each; ± is the standard deviation over repeats"
    return text
