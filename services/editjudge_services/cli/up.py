"""`editjudge up`: start the local stack."""

from __future__ import annotations

from pathlib import Path

import click

from editjudge.base.config import load_settings
from editjudge.base.screen import say

from ..runtime.supervisor import up
from .output import json_option, print_json


@click.command("up")
@click.option(
    "--model", "models", multiple=True, help="Load this model only; may be given several times."
)
@click.option(
    "--generalist",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Serve the generalist in this folder with vLLM too; needs the setting vllm_python.",
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
@click.option(
    "--judge", is_flag=True, help="Start the Judge service over them, for other languages."
)
@click.option(
    "--judge-arg",
    "judge_args",
    multiple=True,
    metavar="ARGUMENT",
    help="Further argument for editjudge serve; may be repeated: --judge-arg=--keep-days=30.",
)
@click.option("--front", is_flag=True, help="Start the front door before them, for teams.")
@click.option(
    "--front-address",
    metavar="HOST:PORT",
    help="Where its callers come to; by default a free port of this machine alone.",
)
@click.option(
    "--front-name",
    "front_names",
    multiple=True,
    metavar="NAME",
    help="By which callers reach it, for its certificate; may be repeated.",
)
@click.option(
    "--front-values",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Further values of the front door (YAML).",
)
@click.option("--only-generalist", is_flag=True, help="Start vLLM without Triton.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Settings file instead of ./editjudge.toml.",
)
@json_option
def command(
    models: tuple[str, ...],
    only_generalist: bool,
    config: Path | None,
    as_json: bool,
    **stack: object,
) -> int:
    """Start the local stack in the background and wait until it is ready.

    A model that cannot be loaded is named; the others are served.
    """
    settings = load_settings(config)
    flags: dict[str, object] = {name: value for name, value in stack.items() if value}
    if models:
        flags["models"] = models
    if only_generalist:
        flags["triton"] = False
    state = up(settings.stack.model_copy(update=flags), settings.vllm_python, config)
    for model, why in state.unloaded.items():
        say(f"{model} is not served: {why}", fg="red", err=True)
    if as_json:
        print_json(state)
        return 0
    if state.grpc:
        say(f"ready at {state.grpc} (metrics {state.metrics}, log {state.log})")
    if state.judge:
        say(f"judging at {state.judge.url} and {state.judge.http} (log {state.judge.log})")
    if state.front:
        say(f"front door at {state.front.url} (authority {state.front.ca}, log {state.front.log})")
        say(f"  its calls: {state.front.calls}")
        say("a team's token: editjudge front token --team NAME > NAME.token")
    if state.generalist:
        local = state.generalist
        say(f"{local.model} ready at {local.url} (log {local.log})")
    return 0
