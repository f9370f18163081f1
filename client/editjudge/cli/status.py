"""`editjudge status`: is a local stack running, and what does it serve?"""

from __future__ import annotations

import asyncio
import time

import click

from ..config import load_settings
from ..local import running_stack
from ..panel import Panel
from ..report.result import dumps
from .options import json_option


@click.command("status")
@json_option
def command(as_json: bool) -> int:
    """Show the local stack: address, uptime, models. Exit code 1 where none runs."""
    state = running_stack()
    if state is None:
        click.echo(dumps({"running": False}) if as_json else "no local stack is running")
        return 1
    services, problem = asyncio.run(_services(state.grpc))
    seconds = max(0.0, time.time() - state.started)
    if as_json:
        shown = {"running": True, **state.model_dump(mode="json"), "uptime_seconds": seconds}
        click.echo(dumps({**shown, "services": services, "problem": problem}))
        return 1 if problem else 0
    click.echo(f"running for {seconds:.0f} s, pid {state.pid}")
    click.echo(f"  gRPC     {state.grpc}\n  HTTP     {state.http}\n  metrics  {state.metrics}")
    click.echo(f"  log      {state.log}")
    for name, identity in services.items():
        click.echo(f"  {name:<14} {identity}")
    if problem:
        click.secho(f"  {problem}", fg="red", err=True)
    return 1 if problem else 0


async def _services(url: str) -> tuple[dict[str, str], str]:
    async with Panel(load_settings().at(url)) as panel:
        return panel.identities(), "; ".join(panel.problems.values())
