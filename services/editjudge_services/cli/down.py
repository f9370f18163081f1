"""`editjudge down`: end the local stack."""

from __future__ import annotations

from editjudge.base.local_stack import running_stack
from editjudge.base.terminal import say

from ..runtime.supervisor import down


def down_command() -> None:
    """End the local stack."""
    if running_stack() is None:
        say("no local stack is running")
        return
    state = down()
    say(f"ended {' and '.join(state.urls)}" if state else "no local stack is running")
