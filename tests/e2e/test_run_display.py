"""What `run` shows on a terminal."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from .terminal import Screen, Terminal
from .test_run import LEVELS, PIXELS, Data, Slow

EDITS = re.compile(r"(\d+)/(\d+) edits")


def edits(screen: Screen) -> int | None:
    """How many edits a screen shows as done while they are judged; None where it shows none."""
    found = [EDITS.search(line) for line in screen if "│" not in line and "━" in line]
    return next((int(match[1]) for match in found if match), None)


async def test_progress_is_drawn_interrupted_and_goes_on(tmp_path: Path) -> None:
    data = Data(tmp_path)
    data.items(12)
    data.model("a", 12)
    first, second = Terminal(), Terminal()
    async with Slow(0.3).serving() as url:
        asked = [*data.arguments(PIXELS, LEVELS), "--generalist", url, "--set", "concurrency=2"]
        code = await asyncio.to_thread(first.run, "run", *asked, interrupt_at=lambda screen: (edits(screen) or 0) >= 4)
        assert code == 130, first.text
        assert await asyncio.to_thread(second.run, "run", *asked) == 0, second.text
    for terminal in (first, second):
        assert "Traceback" not in terminal.text
        assert f"{url} " in terminal.text, "how many calls are in flight"
        # No line of what was drawn is left behind, and none was pushed out of the screen.
        assert sum("in flight" in line for line in terminal.screens[-1]) == 0
        assert max(sum("in flight" in line for line in screen) for screen in terminal.screens) == 1
        assert "stored in" in "".join(terminal.screens[-1])
    ended = "\n".join(first.screens[-1])
    assert "interrupted; repeat the command to resume" in ended
    assert " left" not in ended, "nothing is waited for after Ctrl-C"
    resumed = next(filter(None, map(edits, second.screens)))
    assert resumed >= 4, "the second session begins where the first one ended"
    assert "12/12 edits" in second.text
    assert "24/24 verdicts" in "\n".join(second.screens[-1])
