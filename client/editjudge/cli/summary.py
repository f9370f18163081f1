"""`editjudge summary`: the table of the paper, from a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.console import Console, RenderableType

from ..app.published import PublishedBeside, published_beside
from ..app.view import RunView
from ..app.wire.base import text_of
from ..app.wire.results import Summary
from ..benchmarks.rounds import JudgeRounds
from ..report.columns import agreement_tables, comparability, reasons, results_table
from ..report.table import console, untrained_line
from .options import RulesOptions, json_option, options, single_image_option


@click.command("summary")
@click.argument("run", type=click.Path(path_type=Path))
@single_image_option
@options(RulesOptions, "asked")
@click.option(
    "--published",
    "with_published",
    is_flag=True,
    help="Set the rows that the paper prints beside the run's, and say which can be compared.",
)
@json_option
def command(
    run: Path,
    single_image: tuple[str, ...],
    asked: RulesOptions,
    with_published: bool,
    as_json: bool,
) -> int:
    """Show a run as the table of its benchmark's paper; nothing is called.

    Every number has its coverage: how many of the verdicts asked for have a number. Works while
    the run goes on. Other rules than the run's own (--protocol, --with, --without, --weights)
    make composites anew from the verdicts there are.
    """
    with RunView(run) as view:
        results = view.results(single_image, asked.rules(view.spec))
    printed = published_beside(results) if with_published else None
    if as_json:
        click.echo(text_of(Summary.of(results, printed)))
        return 0
    about = [
        results.benchmark.title,
        results.benchmark.table,
        results.protocol,
        f"{results.items:,} items",
    ]
    if results.words:
        about.append(f"prompts: {results.words}")
    click.echo(", ".join(filter(None, about)))
    for role, identity in results.identities.items():
        click.echo(f"{role}: {identity}")
    if warning := untrained_line(results.identities):
        click.secho(warning, fg="red", bold=True)
    if results.beside.judge_rounds.each and any(role.is_generalist for role in results.identities):
        click.echo(_judges(results.beside.judge_rounds))
    screen = console()
    show = partial(results_table, cells=results.cells, beside=results.beside, width=screen.width)
    if printed is None:
        screen.print(show(results.columns, decimals=results.benchmark.decimals))
    else:
        _show_published(printed, partial(show, decimals=results.benchmark.decimals), screen)
    for line in reasons(printed.columns if printed else results.columns, results.cells):
        click.echo(line)
    if any(cell.imputed for row in results.cells.values() for cell in row.values()):
        click.echo("* imputed: a rule of the benchmark put these numbers in, no judge did")
    if results.beside.agreement:
        screen.print(agreement_tables(results.beside.agreement))
    return 0


def _show_published(
    printed: PublishedBeside, show: Callable[..., RenderableType], screen: Console
) -> None:
    """Each table of the paper beside the run's numbers, then what can be compared."""
    for table in printed.tables:
        note = f" ({table.note})" if table.note else ""
        click.echo(f"† published: {printed.title}, {table.source}, judge: {table.judge}{note}")
        rows = {f"† {model}": row for model, row in table.models.items()}
        screen.print(show(printed.columns_of(table), published=rows))
    for line in comparability(printed):
        click.echo(line)


def _judges(judge_rounds: JudgeRounds) -> str:
    """Name the judges whose numbers these are."""
    names = ", ".join(judge_rounds.judges)
    text = f"judged by {names}" if len(judge_rounds.judges) == 1 else f"means of the judges {names}"
    if judge_rounds.rounds > 1:
        text += f", {judge_rounds.rounds} rounds each; ± is the standard deviation over rounds"
    return text
