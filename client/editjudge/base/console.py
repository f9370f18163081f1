"""Consoles of rich, for tables and displays on a terminal; see `terminal`."""

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from .terminal import escape_control

WIDTH = 200
"""Characters of a line where there is no terminal: enough for a table's rows."""


class _Screen(Console):
    """A console that prints strings as they are: no markup, no emoji names, no escape codes."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(escape_control(text), **how)


def make_console(*, err: bool = False, width: int | None = None) -> Console:
    """Make a console for tables; strings in them are shown as they are.

    Args:
        err: Print on standard error.
        width: In characters; by default the terminal's, or `WIDTH` where there is none.
    """
    stream = sys.stderr if err else sys.stdout
    screen = _Screen(file=stream, width=width, markup=False, emoji=False, highlight=False)
    if width is None and not stream.isatty():
        screen.width = WIDTH
    return screen


def style_text(text: str, style: str = "") -> Text:
    """Give a line a style of rich."""
    return Text(escape_control(text), style)
