"""Consoles of rich, for tables and displays on a terminal; see `terminal`."""

from __future__ import annotations

import sys
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

from .terminal import escape_control, fit_encoding

WIDTH = 200
"""Characters of a line where there is no terminal: enough for a table's rows."""


class _Screen(Console):
    """A console that prints strings as they are: no markup, no emoji names, no escape codes."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(fit_encoding(escape_control(text), self.file), **how)


class _Encodable:
    """A stream that replaces characters which its encoding lacks; see `fit_encoding`."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As `IO.write`."""
        return self._stream.write(fit_encoding(text, self._stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_console(*, err: bool = False, width: int | None = None) -> Console:
    """Make a console for tables; strings in them are shown as they are.

    Args:
        err: Print on standard error.
        width: In characters; by default the terminal's, or `WIDTH` where there is none.
    """
    stream = sys.stderr if err else sys.stdout
    # The marks of tables that are cut are put in after strings were made encodable.
    file = cast("IO[str]", _Encodable(stream))
    screen = _Screen(file=file, width=width, markup=False, emoji=False, highlight=False)
    if width is None and not stream.isatty():
        screen.width = WIDTH
    return screen


def style_text(text: str, style: str = "") -> Text:
    """Give a line a style of rich."""
    return Text(escape_control(text), style)
