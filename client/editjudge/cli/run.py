"""`editjudge run`: judge models on a data set, and go on where it ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..base.errors import InputError
from . import importing
from .options import (
    GatewayOptions,
    SpecOptions,
    as_named_option,
    concurrency_option,
    cost_option,
    json_option,
    ledger_option,
    options,
    shard_of,
)

if TYPE_CHECKING:
    from ..app.run import Retry


@click.command("run")
@options(SpecOptions, "asked")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder of the run; kept."
)
@click.option(
    "--retry",
    type=click.Choice(["unscored"]),
    help="Ask again what has no number, instead of taking the stored replies.",
)
@click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")
@click.option(
    "--fail-on-error",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="End when more than this share of verdicts failed, for example 0.05.",
)
@click.option(
    "--shard",
    default="0/1",
    metavar="I/N",
    help="Only every N-th item, from the I-th on, counted from 0 by their place in the data;"
    " editjudge merge puts the N runs together.",
)
@as_named_option
@options(GatewayOptions, "services")
@concurrency_option
@cost_option
@ledger_option
@json_option
def command(
    asked: SpecOptions,
    out: Path,
    retry: Retry | None,
    dry_run: bool,
    fail_on_error: float | None,
    shard: str,
    as_named: bool,
    services: GatewayOptions,
    concurrency: str | None,
    max_cost: float | None,
    ledger: Path | None,
    as_json: bool,
) -> int:
    """Judge what models made of a data set; the same command resumes the run.

    BENCHMARK is core for data of your own, or one that editjudge list benchmarks shows.

    Exit code 3 when verdicts failed, nothing could be judged, or the run ended early
    (--fail-on-error, --max-cost).
    """
    if not asked.outputs:
        raise InputError("--outputs", "no model is given", "give --outputs MODEL=DIR")
    with importing():
        from ..app.run import spec_of
        from ..panel.services import own_services
        from .running import dry_run as foretold
        from .running import judged

    settings = services.settings(max_cost=max_cost, ledger=ledger, concurrency=concurrency)
    spec = asked.spec(spec_of(out), own_services(settings))
    asked.check_judges(settings)
    part = shard_of(shard)
    if dry_run and retry:
        raise InputError(
            "--dry-run", f"does not foresee --retry {retry}", "leave one of the two out"
        )
    if dry_run:
        return foretold(spec, out, settings, part, as_named=as_named, as_json=as_json)
    return judged(
        spec,
        out,
        settings,
        part,
        retry=retry,
        fail_on_error=fail_on_error,
        as_named=as_named,
        as_json=as_json,
    )
