"""What `editjudge run` does: judges in a process of its own, with signals and exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from ..app.canary import last_checks
from ..app.dimensions import naming, need_models
from ..app.estimate import lines
from ..app.events import Finished
from ..app.run import Running, RunResult, foreseen
from ..app.spec import RunSpec
from ..app.summary import columns, titles_of
from ..base.config import Settings
from ..base.console import console
from ..base.screen import say, say_json, tell
from ..base.strict import text_of
from ..base.words import counted
from ..report.live import display, summary
from ..report.numbers import untrained_line, usage_text
from ..report.summary import results_tables, with_something
from .services import services_at_hand

_RESUME = "the same command goes on where this ended"
_WAIT_FOR_CALLS = 10.0
"""Seconds after an interruption until the process ends whatever still hangs."""
_WAIT_FOR_THREADS = 1.0
"""Seconds after an interruption for what runs in threads: a line that is written takes less."""
_EARLY = {
    "interrupted": "interrupted",
    "failures": "ended: too many verdicts failed",
    "judge": "ended: a judge cannot be used",
    "cost": "ended before max_cost was passed; with a higher --max-cost",
}


def judged(
    spec: RunSpec,
    out: Path,
    settings: Settings,
    *,
    as_json: bool,
    **how: Any,
) -> int:
    """Judge what is left of a run, and show it; returns the exit code.

    Args:
        how: As `Running` takes it.
    """
    with (
        display(as_json=as_json) as shown,
        Running(spec, out, settings, tell=shown, every=shown.every, **how) as running,
    ):
        result = _outcome(running, settings)
    if result is None:
        tell(f"interrupted; {_RESUME}")
        return 130
    if not as_json:
        _show(result, running.unasked, titles_of(running.resolved.rules.columns))
        if checks := last_checks(result.services, settings=settings):
            tell(checks)
    return result.finished.exit_code


def _outcome(running: Running, settings: Settings) -> RunResult | None:
    """Judge what is left; None where that was interrupted."""
    if not running.left.edits:
        return running.nothing_left()
    start = any(not role.is_generalist for role in running.left.roles)
    with services_at_hand(settings, start=start, say=running.say) as at_hand:
        try:
            return asyncio.run(_interruptible(running, at_hand))
        except asyncio.CancelledError:
            return None


class _Threads(ThreadPoolExecutor):
    """The event loop's threads.

    Whoever looks up the name of a server that is not there hangs for half a minute, and nothing
    ends that: after an interruption nobody waits for it.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="run")
        self.interrupted = False
        self._submitted: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As every executor's."""
        future = super().submit(fn, *args, **kwargs)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As every executor's, but waits for a second at most where the run was interrupted."""
        super().shutdown(wait and not self.interrupted, cancel_futures=cancel_futures)
        if self.interrupted:
            _wait_for(self._submitted)


def _wait_for(futures: set[Future[Any]]) -> None:
    wait(list(futures), _WAIT_FOR_THREADS)


async def _interruptible(running: Running, at_hand: Settings) -> RunResult:
    # Edits are side by side already: further threads within OpenCV's functions would only wait for
    # each other. It is read at its first use, and cannot be changed safely while others use it.
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
    threads = _Threads()
    asyncio.get_running_loop().set_default_executor(threads)
    judging = asyncio.ensure_future(running.judge(at_hand))
    with _signals(judging, threads):
        return await judging


@contextlib.contextmanager
def _signals(judging: asyncio.Future[RunResult], threads: _Threads) -> Iterator[None]:
    """Let SIGINT and SIGTERM cancel the judging, and the second of them end the process."""
    loop = asyncio.get_running_loop()
    seen = 0

    def interrupt() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(130)
        threads.interrupted = True
        judging.cancel()
        loop.call_later(_WAIT_FOR_CALLS, os._exit, 130)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Not in a thread, and not on Windows, where asyncio.run itself sees to SIGINT.
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for number in before:
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def dry_run(spec: RunSpec, out: Path, settings: Settings, *, as_json: bool, **how: Any) -> int:
    """Say what a session would take; returns the exit code."""
    estimate, work = foreseen(spec, out, settings, **how)
    if as_json:
        say_json(text_of(estimate))
        return 0
    for line in lines(estimate, work):
        say(line)
    return 0


def _show(result: RunResult, unasked: Sequence[str], titles: Mapping[str, str]) -> None:
    finished = result.finished
    judged = [d for d in result.dimensions if _was_asked(result, d.id) and not d.round_of]
    screen = console()
    shown, _ = with_something(columns(judged, titles), result.cells, result.out)
    if shown:
        for table in results_tables(shown, result.cells, result.beside, screen.width):
            screen.print(table.terminal())
    if warning := untrained_line(result.services_of(d.id for d in judged)):
        say(warning, fg="red", bold=True)
    for line in unasked:
        say(line)
    for line in _unserved(result, told=bool(shown)):
        say(line)
    if finished.usage:
        say(f"generalists took {usage_text(finished.usage)}")
    for line in (_done(result), *_ending(finished), f"kept in {result.out}", *_next(result)):
        tell(line)


def _unserved(result: RunResult, *, told: bool) -> Iterator[str]:
    """What waits for models, in one line, and why what this machine lacks was not judged.

    Where nothing was judged, also for which models and why.
    """
    here = {dimension.lacking for dimension in result.dimensions}
    waiting = 0
    for reason, names in result.finished.not_served.items():
        if reason in here or not told:
            yield f"not judged, {reason}: {counted(len(names), 'dimension')}"
        waiting += 0 if reason in here else len(names)
    if waiting:
        yield f"{need_models(waiting, 'dimension')}: {naming(result.out)}"


def _next(result: RunResult) -> Iterator[str]:
    """What people do next with a run that has numbers."""
    run, models = shlex.quote(str(result.out)), [*result.cells]
    if result.finished.ended != "done" or not any(
        cell.scored for row in result.cells.values() for cell in row.values()
    ):
        return
    if len(models) > 1:
        first, second = map(shlex.quote, models[:2])
        yield f"next: editjudge compare {run} {first} {second}"
    else:
        yield f"next: editjudge summary {run}"


def _done(result: RunResult) -> str:
    """Say what this session did, in one line."""
    if result.finished.edits:
        return summary(result.finished)
    counts = (cell.counts for row in result.cells.values() for cell in row.values())
    waiting = sum(count.get("not_served", 0) for count in counts)
    if waiting:
        verdicts = counted(waiting, "verdict waits", "verdicts wait")
        return f"nothing could be judged: {verdicts} for a service"
    return "nothing was left to do"


def _was_asked(result: RunResult, name: str) -> bool:
    return any(set(row[name].counts) - {"not_served"} for row in result.cells.values())


def _ending(finished: Finished) -> list[str]:
    by_count = sorted(finished.unscored.items(), key=lambda kind: -kind[1].count)
    lines = [
        f"{counted(kind.count, 'verdict has', 'verdicts have')} no number, {name}"
        f" (first: {kind.first})"
        for name, kind in by_count
    ]
    failed = sum(line.failed for line in finished.verdicts.values())
    if failed:
        lines.append(f"{counted(failed, 'verdict')} failed (first: {finished.first_failure})")
    why = _EARLY.get(finished.ended)
    if why or failed:
        lines.append(f"{why}; {_RESUME}" if why else _RESUME)
    return lines
