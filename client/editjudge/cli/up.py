"""`editjudge up`: start the local stack."""

from __future__ import annotations

from pathlib import Path

import click

from ..report.result import dumps
from .options import config_option, json_option, settings_of


@click.command("up")
@click.option(
    "--model", "models", multiple=True, help="Load this model only; may be given several times."
)
@config_option
@json_option
def command(models: tuple[str, ...], config: Path | None, as_json: bool) -> int:
    """Start the local stack in the background and wait until it is ready."""
    from editjudge_services.runtime.supervisor import up

    stack = settings_of(config).stack
    state = up(stack.model_copy(update={"models": models}) if models else stack)
    if as_json:
        click.echo(dumps(state.model_dump(mode="json")))
    else:
        click.echo(f"ready at {state.grpc} (metrics {state.metrics}, log {state.log})")
    return 0
