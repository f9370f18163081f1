"""`editjudge down`: end the local stack."""

from editjudge.base.local_stack import running_stack
from editjudge.base.terminal import print_text

from ..runtime.supervisor import down


def down_command() -> None:
    """End the local stack."""
    if running_stack() is None:
        print_text("no local stack is running")
        return
    state = down()
    print_text(f"ended {' and '.join(state.urls)}" if state else "no local stack is running")
