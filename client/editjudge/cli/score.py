"""`editjudge score`: judge one edit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..app.client import Client, Judgement, make_edit
from ..app.wire.base import text_of
from ..app.wire.verdict import Score
from ..base.config import Settings
from ..base.console import console
from ..base.item import Edit
from ..base.screen import say, say_json, tell
from ..benchmarks.dimension import Dimension
from ..benchmarks.registry import benchmark, select
from ..report.table import judged_by, skipped, verdict_table
from .options import (
    GatewayOptions,
    cost_option,
    dimension_option,
    json_option,
    ledger_option,
    options,
    prompts_option,
    services_at_hand,
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
@click.option("--instruction", required=True, help="The instruction of the edit.")
@click.option("--mask", type=_FILE, help="Where the edit may change the source: white may.")
@click.option("--target", type=_FILE, help="The ground-truth result.")
@click.option("--target-text", help="Text that the result must show.")
@dimension_option
@prompts_option
@options(GatewayOptions, "services")
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    help="How many sampled replies the generalist `judge` averages per question.",
)
@cost_option
@ledger_option
@json_option
def command(
    sources: tuple[Path, ...],
    edited: Path,
    instruction: str,
    mask: Path | None,
    target: Path | None,
    target_text: str | None,
    patterns: tuple[str, ...],
    prompts: Path | None,
    services: GatewayOptions,
    repeats: int | None,
    max_cost: float | None,
    ledger: Path | None,
    as_json: bool,
) -> int:
    """Judge one edit with every dimension whose inputs and services are at hand.

    For every other dimension the reason is given. Exit code 3 when a service failed.
    """
    settings = services.settings(repeats=repeats, max_cost=max_cost, ledger=ledger)
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
        any(not role.is_generalist for role in d.roles) and d.not_applicable(edit.item) is None
        for d in dimensions
    )
    with services_at_hand(settings, start=needed, say=tell) as at_hand:
        judgement = asyncio.run(_judge(at_hand, edit, dimensions, prompts))
    show(judgement, as_json=as_json)
    return 3 if judgement.failed else 0


async def _judge(
    settings: Settings, edit: Edit, dimensions: tuple[Dimension, ...], prompts: Path | None
) -> Judgement:
    async with Client(settings) as client:
        return await client.score(edit, dimensions, prompts)


def show(judgement: Judgement, *, as_json: bool) -> None:
    """Print one judged edit."""
    if as_json:
        say_json(text_of(Score.of(judgement)))
        return
    table = verdict_table(judgement)
    if table.row_count:
        console().print(table)
    for line in judged_by(judgement):
        say(line)
    for reason, names in skipped(judgement).items():
        say(f"not judged, {reason}: {', '.join(names)}")
    item = judgement.edit.item
    image, mask = judgement.edit.image, item.mask
    if image and mask and mask.size != image.size:
        tell(f"note: {mask.name}: {_by(mask.size)}, brought to {_by(image.size)} where it is used")
    pictures = (*item.sources, image, mask, item.target)
    for picture in filter(None, pictures):
        for note in picture.notes:
            tell(f"note: {picture.name}: {note}")


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
