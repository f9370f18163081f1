"""`editjudge status`: the local stack, and what it serves."""

import asyncio
import time
from typing import Any, Literal

from editjudge.app.client import add_local_stack
from editjudge.app.dimensions import missing_services, missing_services_line
from editjudge.base.identity import format_identities
from editjudge.base.local_stack import StackState, running_stack
from editjudge.base.terminal import print_text
from editjudge.cli.options import settings_from
from editjudge.cli.output import print_json
from editjudge.panel import Panel


class Stack(StackState):
    """`status --json`: the local stack.

    Attributes:
        running: Whether a stack runs; where none does, this is the only field.
        uptime_seconds: Seconds since the stack was started.
        services: Identities by role.
        problem: What is wrong; otherwise empty.
        unserved: The dimensions that need a missing service, by service.
    """

    running: Literal[True] = True
    uptime_seconds: float
    services: dict[str, str]
    problem: str
    unserved: dict[str, tuple[str, ...]]


def status_command(*, json: bool) -> int:
    """Show the local stack; return the exit code."""
    state = running_stack()
    if state is None:
        print_json({"running": False}) if json else print_text("no local stack is running")
        return 1
    services, problem = asyncio.run(_find_services())
    why = state.gateway.problem if state.gateway else ""
    judge_problem = f"the Judge service is not running: {why}" if why else ""
    problem = "; ".join(filter(None, (problem, judge_problem)))
    missing = missing_services(services)
    code = 1 if problem or state.unloaded else 0
    seconds = max(0.0, time.time() - state.started)
    if json:
        texts: dict[str, Any] = {"services": services, "problem": problem, "unserved": missing}
        print_json(Stack(**dict(state), uptime_seconds=seconds, **texts))
        return code
    _print_stack(state, seconds)
    for name, identity in services.items():
        print_text(f"  {name:<14} {identity}")
    for model, why in state.unloaded.items():
        print_text(f"  {model} is not served: {why}", fg="red", err=True)
    if line := missing_services_line(missing):
        print_text(f"  {line}")
    if problem:
        print_text(f"  {problem}", fg="red", err=True)
    return code


def _print_stack(state: StackState, seconds: float) -> None:
    print_text(f"running for {seconds:.0f} s, pid {state.pid}")
    if state.grpc:
        print_text(f"  gRPC     {state.grpc}\n  HTTP     {state.http}\n  metrics  {state.metrics}")
    if state.judge:
        print_text(f"  vLLM     {state.judge.url} (pid {state.judge.pid})")
        print_text(f"  vLLM log {state.judge.log}")
    if gateway := state.gateway:
        print_text(f"  gateway  {gateway.url}, {gateway.http} (log {gateway.log})")
    if front := state.front:
        print_text(f"  front    {front.url} (authority {front.ca}, log {front.log})")
        print_text(f"           its calls: {front.calls}")
    print_text(f"  log      {state.log}")


async def _find_services() -> tuple[dict[str, str], str]:
    # Only the services of the stack, whatever else is configured; identifying them costs nothing.
    changes: dict[str, Any] = {"endpoints": {}, "judges": {}, "max_cost": None, "ledger": None}
    settings = add_local_stack(settings_from().model_copy(update=changes))
    async with Panel(settings) as panel:
        return format_identities(panel.identities()), "; ".join(panel.problems.values())
