"""`editjudge up`: start the local stack."""

from __future__ import annotations

from pathlib import Path

import click

from editjudge.base.screen import say, say_json
from editjudge.base.strict import text_of
from editjudge.cli.options import base_settings, flag, path, takes

from ..runtime.supervisor import up


@click.command("up")
@takes(
    "json",
    model="Load this model only.",
    generalist=path(
        "FOLDER",
        "Serve the generalist in this folder with vLLM too; needs the setting vllm_python.",
    ),
    judge=flag("Start the Judge service over them, for other languages."),
    front=flag("Start the front door before them, for teams."),
)
def command(
    model: tuple[str, ...], generalist: Path | None, *, judge: bool, front: bool, json: bool
) -> int:
    """Start the local stack in the background and wait until it is ready.

    A model that cannot be loaded is named; the others are served. All else is set in the table
    [stack] of the settings (docs/configuration.md), or by --set stack.NAME=VALUE.
    """
    settings, root = base_settings(), click.get_current_context().find_root().params
    asked = {"models": model, "generalist": generalist, "judge": judge, "front": front}
    further = tuple(f"--set={one}" for one in root.get("set_", ()))
    changed = {name: value for name, value in asked.items() if value}
    changed["judge_args"] = (*further, *settings.stack.judge_args)
    stack = settings.stack.model_copy(update=changed)
    state = up(stack, settings.vllm_python, root.get("config"))
    for name, why in state.unloaded.items():
        say(f"{name} is not served: {why}", fg="red", err=True)
    if json:
        say_json(text_of(state))
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
