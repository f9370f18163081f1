"""`editjudge score`: judge one edit."""

from __future__ import annotations

from pathlib import Path

import click

from . import importing
from .options import (
    GatewayOptions,
    cost_option,
    dimension_option,
    json_option,
    ledger_option,
    options,
    prompts_option,
    rubric_option,
    texts_in,
    with_rubrics,
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
@rubric_option
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
    rubrics: tuple[Path, ...],
    services: GatewayOptions,
    repeats: int | None,
    max_cost: float | None,
    ledger: Path | None,
    as_json: bool,
) -> int:
    """Judge one edit with every dimension whose inputs and services are at hand.

    For every other dimension the reason is given. Exit code 3 when a service failed.
    """
    with importing():
        from ..app.client import make_edit
        from ..prompts.rubrics import rubric_files
        from .scoring import score

    own = rubric_files(rubrics)
    texts = {**(texts_in(prompts) if prompts else {}), **own}

    settings = services.settings(repeats=repeats, max_cost=max_cost, ledger=ledger)
    edit = make_edit(
        source=sources,
        edited=edited,
        instruction=instruction,
        mask=mask,
        target=target,
        target_text=target_text,
    )
    return score(edit, with_rubrics(patterns, own), texts, settings, as_json=as_json)
