"""A terminal that a command is run on, and what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

import pyte

from ..patience import patience

Screen = list[str]


class Terminal:
    """Runs a command on a terminal.

    Attributes:
        screens: What was shown, one after another: the lines of the screen without the space at
            their ends.
        written: All that was written.
    """

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self._size = rows, columns
        self._screen = pyte.HistoryScreen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.screens: list[Screen] = []
        self.written = b""

    def run(self, *arguments: str | Path, interrupt_at: Callable[[Screen], bool] | None = None) -> int:
        """Run a command; returns its exit code.

        Args:
            interrupt_at: Says at which screen Ctrl-C is pressed.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *self._size, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
        process = subprocess.Popen(
            [sys.executable, "-m", "editjudge", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**env, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(theirs)

        def read() -> None:
            pressed = False
            while data := _read(ours):
                self.written += data
                self._stream.feed(data)
                self.screens.append([line.rstrip() for line in self._screen.display])
                if interrupt_at is not None and not pressed and interrupt_at(self.screens[-1]):
                    pressed = True
                    process.send_signal(signal.SIGINT)

        reader = threading.Thread(target=read)
        reader.start()
        code = process.wait(timeout=patience(60))
        reader.join(timeout=patience(10))
        os.close(ours)
        return code

    @property
    def text(self) -> str:
        """All that was written, as text."""
        return self.written.decode(errors="replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that nobody writes any more
        return b""
