"""`editjudge down`: end the local stack."""

from __future__ import annotations

import click

from ..local import running_stack


@click.command("down")
def command() -> int:
    """End the local stack and free its ports."""
    if running_stack() is None:
        click.echo("no local stack is running")
        return 0
    from editjudge_services.runtime.supervisor import down

    state = down()
    click.echo(f"ended {' and '.join(state.urls)}" if state else "no local stack is running")
    return 0
