"""What `run` shows on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

from ..patience import patience
from .test_run import LEVELS, PIXELS, Data, Slow


def on_a_terminal(*arguments: str | Path) -> tuple[int, str]:
    """Exit code of a command, and all that it wrote to its terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "editjudge", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"},
    )
    os.close(theirs)
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # Linux's way to say that nobody writes any more
                return
            seen.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    code = process.wait(timeout=patience(60))
    reader.join(timeout=patience(10))
    os.close(ours)
    return code, b"".join(seen).decode(errors="replace")


async def test_progress_is_drawn_and_gone_at_the_end(tmp_path: Path) -> None:
    data = Data(tmp_path)
    data.items(12)
    data.model("a", 12)
    async with Slow(0.3).serving() as url:
        asked = [*data.arguments(PIXELS, LEVELS), "--generalist", url]
        code, shown = await asyncio.to_thread(on_a_terminal, "run", *asked)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert f"{url} " in shown, "how many calls are in flight"
    assert "12/12 edits, 24/24 verdicts" in shown
    assert "kept in" in shown
