"""`editjudge status`: is a local stack running, and what does it serve?"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import click

from ..app.client import with_local_stack
from ..app.dimensions import unserved as lacking_services
from ..app.dimensions import unserved_line
from ..base.config import load_settings
from ..base.identity import printed
from ..base.local import StackState, running_stack
from ..base.screen import say, say_json
from ..base.strict import Strict, text_of
from ..panel import Panel
from .options import takes


class Stack(StackState):
    """`status --json`: the local stack.

    Attributes:
        services: Identities, by role.
        problem: Empty where all is well.
        unserved: By service that is not there, the dimensions that need it.
    """

    running: Literal[True] = True
    uptime_seconds: float
    services: dict[str, str]
    problem: str
    unserved: dict[str, tuple[str, ...]]


class NoStack(Strict):
    """`status --json` where no local stack runs."""

    running: Literal[False] = False


@click.command("status")
@takes("json")
def command(*, json: bool) -> int:
    """Show the local stack: address, uptime, models. Exit code 1 where none runs."""
    state = running_stack()
    if state is None:
        say_json(text_of(NoStack())) if json else say("no local stack is running")
        return 1
    services, problem = asyncio.run(_services())
    why = state.judge.problem if state.judge else ""
    away = f"the Judge service is away: {why}" if why else ""
    problem = "; ".join(filter(None, (problem, away)))
    lacking = lacking_services(services)
    seconds = max(0.0, time.time() - state.started)
    if json:
        stack = Stack(
            **dict(state),
            uptime_seconds=seconds,
            services=services,
            problem=problem,
            unserved=lacking,
        )
        say_json(text_of(stack))
        return 1 if problem else 0
    _show(state, seconds)
    for name, identity in services.items():
        say(f"  {name:<14} {identity}")
    for model, why in state.unloaded.items():
        say(f"  {model} is not served: {why}", fg="red", err=True)
    if line := unserved_line(lacking):
        say(f"  {line}")
    if problem:
        say(f"  {problem}", fg="red", err=True)
    return 1 if problem else 0


def _show(state: StackState, seconds: float) -> None:
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
        say(f"           its calls: {state.front.calls}")
    say(f"  log      {state.log}")


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
