"""`editjudge run` killed at any moment: nothing that was kept is lost, nothing is paid twice."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
from pathlib import Path
from typing import Any

from editjudge.base.errors import ConfigError

from ..e2e.conftest import CommandResult, await_end, process
from ..e2e.test_run import CALLS, LEVELS, PIXELS, QUESTIONS, Data, Slow
from .trials import Attack, Violation, dice

_ITEMS, _IN_FLIGHT = 12, 4


def trial(seed: int, number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_kill_run(Data(Path(folder)), dice("kills", seed, number)))


async def _kill_run(data: Data, rng: random.Random) -> str:
    data.make(_ITEMS)
    server = Slow(0.0)
    kills, kept = 0, _verdicts(data)
    async with server.serving() as url:

        def start(out: Path | None = None) -> Any:
            asked = [*data.arguments(PIXELS, LEVELS, QUESTIONS, out=out), "--generalist", url]
            variables = {"CONCURRENCY": str(_IN_FLIGHT), "STATE_DIR": str(data.folder)}
            own = {f"EDITJUDGE_{name}": value for name, value in variables.items()}
            return process("run", *asked, **own)

        done = await await_end(start(data.folder / "whole"))
        if done.code != 0:
            raise Violation(f"undisturbed it ends with {done.code}: {done.err[-300:]}")
        calls, server.seen, server.seconds = server.seen, 0, 0.02
        if calls != 1 + _ITEMS * (1 + sum(CALLS.values())):
            raise Violation(f"undisturbed it makes {calls} calls")
        for _ in range(rng.randint(2, 8)):
            with start() as running:
                moment = server.seen + rng.randrange(15)
                while server.seen < moment and running.poll() is None:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(rng.random() * 0.05)
                running.send_signal(signal.SIGKILL)
                await await_end(running)
            kills += running.returncode == -signal.SIGKILL
            now = _verdicts(data)
            if lost := kept.keys() - now.keys():
                raise Violation(f"lost what was kept: {sorted(lost)[:3]}")
            kept = now
        server.seconds = 0.0
        done = await await_end(start())
    _check(data, done, kept)
    # How the judge answers is asked before the first verdict, so by each session that ended there.
    if server.seen > calls + kills * (_IN_FLIGHT + 1):
        raise Violation(f"{server.seen} calls for {calls}, after {kills} kills")
    return f"{kills} kills, {min(server.seen - calls, 99)} calls again"


def _check(data: Data, done: CommandResult, kept: dict[Any, Any]) -> None:
    if done.code != 0:
        raise Violation(f"it does not go on: {done.err[-300:]}")
    if data.verdicts() != data.verdicts(data.folder / "whole"):
        raise Violation("other numbers than undisturbed")
    if any(data.verdicts()[key] != verdict for key, verdict in kept.items()):
        raise Violation("what was kept is another")


def _verdicts(data: Data) -> dict[Any, Any]:
    """What a run holds by now; nothing before it has begun."""
    try:
        return data.verdicts()
    except ConfigError as error:
        if "no run" not in str(error):
            raise
        return {}


KILLS = Attack("kills", trial, full=20, small=2, seconds=180, mib=512)
