"""`editjudge run` killed at any moment: nothing that was kept is lost, nothing is paid twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from editjudge.app.view import RunView

from ..e2e.test_run import CALLS, LEVELS, PIXELS, QUESTIONS, Data, Slow
from .trials import Attack, Broken, dice

_ITEMS, _IN_FLIGHT = 12, 4
_DIMENSIONS = (PIXELS, LEVELS, QUESTIONS)


def trial(seed: int, number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_killed(Path(folder), dice("kills", seed, number)))


async def _killed(folder: Path, rng: random.Random) -> str:
    data = Data(folder)
    data.items(_ITEMS)
    data.model("a", _ITEMS)
    server = Slow(0.0)
    kills = 0
    async with server.serving() as url:
        whole = _run(data, url, folder / "whole")
        _, err = await asyncio.to_thread(whole.communicate)
        if whole.returncode != 0:
            raise Broken(f"undisturbed it ends with {whole.returncode}: {err[-300:]}")
        calls, server.seen, server.seconds = server.seen, 0, 0.02
        if calls != 1 + _ITEMS * (1 + sum(CALLS.values())):
            raise Broken(f"undisturbed it makes {calls} calls")
        kept: dict[Any, Any] = {}
        for _ in range(rng.choice((1, 1, 2, 3))):
            process, moment = _run(data, url), server.seen + rng.randrange(30)
            while server.seen < moment and process.poll() is None:
                await asyncio.sleep(0.005)
            await asyncio.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.communicate)
            kills += process.returncode == -signal.SIGKILL
            now = _verdicts(data.out)
            if lost := kept.keys() - now.keys():
                raise Broken(f"lost what was kept: {sorted(lost)[:3]}")
            kept = now
        server.seconds = 0.0
        resumed = _run(data, url)
        _, err = await asyncio.to_thread(resumed.communicate)
    if resumed.returncode != 0:
        raise Broken(f"it does not go on: {err[-300:]}")
    if data.verdicts() != data.verdicts(folder / "whole"):
        raise Broken("other numbers than undisturbed")
    if any(data.verdicts()[key] != verdict for key, verdict in kept.items()):
        raise Broken("what was kept is another")
    # How the judge answers is asked before the first verdict, so by each session that ended there.
    if server.seen > calls + kills * (_IN_FLIGHT + 1):
        raise Broken(f"{server.seen} calls for {calls}, after {kills} kills")
    return f"{kills} kills, {min(server.seen - calls, 99)} calls again"


def _run(data: Data, url: str, out: Path | None = None) -> subprocess.Popen[str]:
    arguments = [*data.arguments(*_DIMENSIONS, out=out), "--generalist", url]
    variables = {"EDITJUDGE_CONCURRENCY": str(_IN_FLIGHT), "EDITJUDGE_STATE_DIR": str(data.folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "editjudge", "run", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )


def _verdicts(out: Path) -> dict[Any, Any]:
    if not (out / "run.sqlite").exists():
        return {}
    try:
        with RunView(out) as view:
            return {(v.model, v.item, v.dimension): v.verdict.model_dump() for v in view.verdicts()}
    except Exception as error:
        if "holds no run" in str(error) or "no run" in str(error):
            return {}
        raise


KILLS = Attack("kills", trial, full=20, small=0, seconds=180, mib=512)
