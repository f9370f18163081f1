"""Tables and displays on a terminal; see `screen`."""

from __future__ import annotations

import sys
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

from .terminal import escape_control, fit_encoding

WIDTH = 200
"""Wide enough to keep a table's rows whole, where there is no terminal."""


class _Screen(Console):
    """Takes strings as they are: no markup, no emoji by name, no escape codes."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(fit_encoding(escape_control(text), self.file), **how)


class _Encodable:
    """A stream to which what its encoding lacks is written otherwise, our own marks too."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As `IO.write`."""
        return self._stream.write(fit_encoding(text, self._stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_console(*, err: bool = False, width: int | None = None) -> Console:
    """For tables; strings in them are shown as they are.

    Args:
        err: Of standard error.
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
    """A line with a style, for a console."""
    return Text(escape_control(text), style)
