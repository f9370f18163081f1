"""`editjudge score`: judge one edit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from ..benchmarks.registry import benchmark, select
from ..client import Client, make_edit
from ..config import Settings
from ..dimension import Dimension
from ..item import Edit
from ..report.result import as_json, dumps
from ..run.judge import Judgement
from .options import (
    asking_options,
    config_option,
    dimension_option,
    endpoint_option,
    generalist_option,
    json_option,
    ledger_option,
    services_at_hand,
    settings_of,
    with_generalist,
)

_FILE = click.Path(path_type=Path)


@click.command("score")
@click.option(
    "--source",
    "sources",
    multiple=True,
    required=True,
    type=_FILE,
    help="The image before the edit; may be given several times.",
)
@click.option("--edited", required=True, type=_FILE, help="The image after the edit.")
@click.option("--instruction", required=True, help="What the editing model was told.")
@click.option("--mask", type=_FILE, help="Where the edit may change the source: white may.")
@click.option("--target", type=_FILE, help="The ground-truth result.")
@click.option("--target-text", help="Text that the result must show.")
@dimension_option
@endpoint_option
@generalist_option
@asking_options
@ledger_option
@config_option
@json_option
def command(
    sources: tuple[Path, ...],
    edited: Path,
    instruction: str,
    mask: Path | None,
    target: Path | None,
    target_text: str | None,
    patterns: tuple[str, ...],
    endpoints: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    **asking: Any,
) -> int:
    """Judge one edit with every dimension whose inputs and services are at hand.

    For every other dimension the reason is given. Exit code 3 when a service failed.
    """
    settings = with_generalist(settings_of(config, endpoints), **asking)
    dimensions = select(patterns, benchmark("core").rules())
    edit = make_edit(
        source=sources,
        edited=edited,
        instruction=instruction,
        mask=mask,
        target=target,
        target_text=target_text,
    )
    needed = any(
        any(not role.startswith("generalist.") for role in d.roles)
        and d.not_applicable(edit.item) is None
        for d in dimensions
    )
    with services_at_hand(
        settings, start=needed, say=lambda text: click.echo(text, err=True)
    ) as at_hand:
        judgement = asyncio.run(_judge(at_hand, edit, dimensions))
    show(judgement, as_json=as_json)
    return 3 if judgement.failed else 0


async def _judge(settings: Settings, edit: Edit, dimensions: tuple[Dimension, ...]) -> Judgement:
    async with Client(settings) as client:
        return await client.score(edit, dimensions)


def show(judgement: Judgement, *, as_json: bool) -> None:
    """Print one judged edit."""
    if as_json:
        click.echo(dumps(_as_json(judgement)))
        return
    from ..report.table import console, judged_by, skipped, verdict_table

    console().print(verdict_table(judgement))
    for line in judged_by(judgement):
        click.echo(line)
    for reason, names in skipped(judgement).items():
        click.echo(f"not judged, {reason}: {', '.join(names)}")
    item = judgement.edit.item
    pictures = (*item.sources, judgement.edit.image, item.mask, item.target)
    for picture in filter(None, pictures):
        for line in picture.notes:
            click.echo(f"note: {picture.name}: {line}", err=True)


_as_json = as_json
