"""Tables and displays on a terminal; see `screen`."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from .screen import encodable, printable

WIDTH = 200
"""Wide enough to keep a table's rows whole, where there is no terminal."""


class _Screen(Console):
    """Takes strings as they are: no markup, no emoji by name, no escape codes."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(encodable(printable(text), self.file), **how)


def console(*, err: bool = False, width: int | None = None) -> Console:
    """For tables; strings in them are shown as they are.

    Args:
        err: Of standard error.
        width: In characters; by default the terminal's, or `WIDTH` where there is none.
    """
    stream = sys.stderr if err else sys.stdout
    screen = _Screen(stderr=err, width=width, markup=False, emoji=False, highlight=False)
    if width is None and not stream.isatty():
        screen.width = WIDTH
    return screen


def styled(text: str, style: str = "") -> Text:
    """A line with a style, for a console."""
    return Text(printable(text), style)
