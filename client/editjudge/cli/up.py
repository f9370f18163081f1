"""`editjudge up`: start the local stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..report.result import dumps
from .options import config_option, json_option, settings_of


@click.command("up")
@click.option(
    "--model", "models", multiple=True, help="Load this model only; may be given several times."
)
@click.option(
    "--generalist",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Serve this multimodal LLM with vLLM too; needs the setting vllm_python.",
)
@click.option(
    "--generalist-protocol",
    type=click.Choice(["http", "grpc"]),
    help="http is the OpenAI-compatible API (default), grpc vLLM's own.",
)
@click.option(
    "--generalist-arg",
    "generalist_args",
    multiple=True,
    metavar="ARGUMENT",
    help="Further argument for vLLM, as --generalist-arg=--dtype=float32; may be repeated.",
)
@click.option("--only-generalist", is_flag=True, help="Start vLLM without Triton.")
@config_option
@json_option
def command(
    models: tuple[str, ...],
    only_generalist: bool,
    config: Path | None,
    as_json: bool,
    **generalist: Any,
) -> int:
    """Start the local stack in the background and wait until it is ready."""
    from editjudge_services.runtime.supervisor import up

    settings = settings_of(config)
    given: dict[str, Any] = {name: value for name, value in generalist.items() if value}
    if models:
        given["models"] = models
    if only_generalist:
        given["triton"] = False
    state = up(settings.stack.model_copy(update=given), settings.vllm_python)
    if as_json:
        click.echo(dumps(state.model_dump(mode="json")))
        return 0
    if state.grpc:
        click.echo(f"ready at {state.grpc} (metrics {state.metrics}, log {state.log})")
    if state.generalist:
        local = state.generalist
        click.echo(f"{local.model} ready at {local.url} (log {local.log})")
    return 0
