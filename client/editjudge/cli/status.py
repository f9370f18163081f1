"""`editjudge status`: is a local stack running, and what does it serve?"""

from __future__ import annotations

import asyncio
import time

import click

from ..app.client import with_local_stack
from ..app.wire.base import text_of
from ..app.wire.services import NoStack, Stack
from ..base.config import load_settings
from ..base.identity import printed
from ..base.local import running_stack
from ..base.screen import say, say_json
from ..panel import Panel
from .options import json_option


@click.command("status")
@json_option
def command(as_json: bool) -> int:
    """Show the local stack: address, uptime, models. Exit code 1 where none runs."""
    state = running_stack()
    if state is None:
        say_json(text_of(NoStack())) if as_json else say("no local stack is running")
        return 1
    services, problem = asyncio.run(_services())
    why = state.judge.problem if state.judge else ""
    away = f"the Judge service is away: {why}" if why else ""
    problem = "; ".join(filter(None, (problem, away)))
    seconds = max(0.0, time.time() - state.started)
    if as_json:
        stack = Stack(**dict(state), uptime_seconds=seconds, services=services, problem=problem)
        say_json(text_of(stack))
        return 1 if problem else 0
    say(f"running for {seconds:.0f} s, pid {state.pid}")
    if state.grpc:
        say(f"  gRPC     {state.grpc}\n  HTTP     {state.http}\n  metrics  {state.metrics}")
    if state.generalist:
        say(f"  vLLM     {state.generalist.url} (pid {state.generalist.pid})")
        say(f"  vLLM log {state.generalist.log}")
    if state.judge:
        say(f"  judge    {state.judge.url}, {state.judge.http} (log {state.judge.log})")
    if state.front:
        say(f"  front    {state.front.url} (authority {state.front.ca}, log {state.front.log})")
    say(f"  log      {state.log}")
    for name, identity in services.items():
        say(f"  {name:<14} {identity}")
    for model, why in state.unloaded.items():
        say(f"  {model} is not served: {why}", fg="red", err=True)
    if problem:
        say(f"  {problem}", fg="red", err=True)
    return 1 if problem else 0


async def _services() -> tuple[dict[str, str], str]:
    # The stack's own, whatever else is configured; asking for names costs nothing.
    alone: dict[str, object] = {
        "endpoints": {},
        "generalists": {},
        "max_cost": None,
        "ledger": None,
    }
    settings = with_local_stack(load_settings().model_copy(update=alone))
    async with Panel(settings) as panel:
        return printed(panel.identities()), "; ".join(panel.problems.values())
