"""`editjudge up`: start the local stack."""

import sys
from pathlib import Path

import click

from editjudge.base.terminal import print_notice, print_text
from editjudge.cli.options import settings_from
from editjudge.cli.output import print_json

from ..runtime.supervisor import up


def up_command(model: tuple[str, ...], judge: Path | None, *, gateway: bool, front: bool, json: bool) -> int:
    """Start the local stack, wait until it is ready, and return the exit code."""
    settings, root = settings_from(), click.get_current_context().find_root().params
    options = {"models": model, "judge": judge, "gateway": gateway, "front": front}
    further = tuple(f"--set={one}" for one in root.get("set_", ()))
    changes = {name: value for name, value in options.items() if value}
    changes["gateway_args"] = (*further, *settings.stack.gateway_args)
    stack = settings.stack.model_copy(update=changes)
    report = print_notice if sys.stderr.isatty() else None
    state = up(stack, settings.vllm_python, root.get("config"), report)
    for name, why in state.unloaded.items():
        print_text(f"{name} is not served: {why}", fg="red", err=True)
    code = 1 if state.unloaded.keys() & set(model) else 0
    if json:
        print_json(state)
        return code
    if state.grpc:
        print_text(f"ready at {state.grpc} (metrics {state.metrics}, log {state.log})")
    if state.gateway:
        service = state.gateway
        print_text(f"Judge service at {service.url} and {service.http} (log {service.log})")
    if state.front:
        print_text(f"front door at {state.front.url} (authority {state.front.ca}, log {state.front.log})")
        print_text(f"  its calls: {state.front.calls}")
        print_text("a team's token: editjudge front token --team NAME > NAME.token")
    if state.judge:
        local = state.judge
        print_text(f"{local.model} ready at {local.url} (log {local.log})")
    return code
