"""`editjudge down`: end the local stack."""

from __future__ import annotations

import click

from editjudge.base.local import running_stack
from editjudge.base.screen import say

from ..runtime.supervisor import down


@click.command("down")
def command() -> int:
    """End the local stack and free its ports."""
    if running_stack() is None:
        say("no local stack is running")
        return 0
    state = down()
    say(f"ended {' and '.join(state.urls)}" if state else "no local stack is running")
    return 0
