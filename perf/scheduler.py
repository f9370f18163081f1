"""How busy an endpoint is kept: refill with a limit that adapts, windows, and a thread pool.

The endpoint is made up: a fixed number of places, a fixed time per call, a short queue, and
beyond it a refusal. All make the same calls: an edit takes one to six, of which those after the
first round depend on it. Compared is the share of the places that is taken, over all of the time
and over the middle: without the first and the last tenth of the calls.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from editjudge.base.errors import Overload
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import Replica
from editjudge.panel.retry import RetryPolicy, call_with_retries

EditCalls = tuple[int, int]
"""Calls of an edit: side by side at first, and after them."""


@dataclass(frozen=True)
class Load:
    """What is measured.

    Attributes:
        places: Calls that the endpoint serves at once.
        queue: Calls that wait there; more are refused.
        seconds: Of one call.
    """

    places: int
    queue: int
    seconds: float
    edits: tuple[EditCalls, ...]

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(map(sum, self.edits))


class Server:
    """The endpoint, for asynchronous and for blocking clients."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.busy_spans: list[tuple[float, float]] = []
        self.refusal_count = 0
        self._inside = 0
        self._places = asyncio.Semaphore(load.places)
        self._blocking = threading.Semaphore(load.places)

    async def call(self) -> None:
        """One call; refused where the queue is full."""
        if self._inside >= self.load.places + self.load.queue:
            self.refusal_count += 1
            raise Overload("queue full", service="fake")
        self._inside += 1
        try:
            async with self._places:
                start = time.perf_counter()
                await asyncio.sleep(self.load.seconds)
                self.busy_spans.append((start, time.perf_counter()))
        finally:
            self._inside -= 1

    def call_blocking(self) -> None:
        """One call from a thread; it waits where the queue is full."""
        with self._blocking:
            start = time.perf_counter()
            time.sleep(self.load.seconds)
            self.busy_spans.append((start, time.perf_counter()))


def made_up(calls: int, seed: int, **load: Any) -> Load:
    """Edits of one to six calls until there are enough."""
    dice = random.Random(seed)
    edits: list[EditCalls] = []
    while sum(map(sum, edits)) < calls:
        count = dice.randint(1, 6)
        after = dice.randint(0, count - 1)
        edits.append((count - after, after))
    return Load(edits=tuple(edits), **load)


async def refill(server: Server, most: int) -> None:
    """A bounded number of edits in flight, twice the limit; the next begins when one is done."""
    replica = Replica("fake", lambda _: server, most)
    policy = RetryPolicy(attempts=20, first_wait=0.005, note_retry=replica.note_retry)
    pool = EndpointPool([replica])
    left = iter(server.load.edits)
    running: set[asyncio.Task[None]] = set()

    async def one() -> None:
        await pool.run(lambda there: call_with_retries(lambda _: there.call(), policy))

    while True:
        while len(running) < 2 * replica.measure_load().limit and (edit := next(left, None)) is not None:
            running.add(asyncio.create_task(judge_edit(edit, one)))
        if not running:
            return
        ended_tasks, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended_tasks:
            task.result()


async def windows(server: Server, most: int) -> None:
    """As many edits as there are places at a time, gathered: the slowest holds up all others."""
    size = server.load.places
    for start in range(0, len(server.load.edits), size):
        window = server.load.edits[start : start + size]
        policy = RetryPolicy(attempts=20, first_wait=0.005)

        async def one(policy: RetryPolicy = policy) -> None:
            await call_with_retries(lambda _: server.call(), policy)

        await asyncio.gather(*(judge_edit(edit, one) for edit in window))


async def judge_edit(edit: EditCalls, one: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """An edit's calls: the first round side by side, then what depends on it."""
    first, after = edit
    await asyncio.gather(*(one() for _ in range(first)))
    await asyncio.gather(*(one() for _ in range(after)))


def threads(server: Server, workers: int) -> None:
    """A pool of threads, each with one edit at a time and one call after the other."""

    def judge(edit: EditCalls) -> None:
        for _ in range(sum(edit)):
            server.call_blocking()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(judge, server.load.edits))


def shares(server: Server, start: float) -> tuple[float, float]:
    """The share of the places that was taken, for all of the time and for the middle of it.

    Of what calls really took: timers are late by up to a millisecond.
    """
    ends = sorted(end for _, end in server.busy_spans)
    assert len(ends) == server.load.calls
    tenth = len(ends) // 10
    return busy(server, start, ends[-1]), busy(server, ends[tenth], ends[-tenth - 1])


def busy(server: Server, low: float, high: float) -> float:
    """The share of the places that was taken between two times."""
    busy_seconds = sum(max(0.0, min(end, high) - max(start, low)) for start, end in server.busy_spans)
    return busy_seconds / (server.load.places * (high - low))


@click.command()
@click.option("--calls", default=2000, show_default=True)
@click.option("--places", default=16, show_default=True)
@click.option("--queue", default=16, show_default=True)
@click.option("--milliseconds", default=20.0, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(calls: int, places: int, queue: int, milliseconds: float, rounds: int, as_json: bool) -> None:
    """Print how busy each way keeps the endpoint."""
    ways: dict[str, Callable[[Server], object]] = {
        "refill, adaptive limit": lambda server: asyncio.run(refill(server, 64)),
        "one window at a time": lambda server: asyncio.run(windows(server, 64)),
        "thread pool, blocking": lambda server: threads(server, places),
    }
    rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
    for seed in range(rounds):
        load = made_up(calls, seed, places=places, queue=queue, seconds=milliseconds / 1e3)
        for name, way in ways.items():
            server = Server(load)
            start = time.perf_counter()
            way(server)
            rows[name].append((*shares(server, start), server.refusal_count))
    summary = {
        name: dict(
            zip(
                ("busy", "busy_after_warm_up", "refused"),
                map(statistics.median, zip(*results, strict=True)),
                strict=True,
            )
        )
        for name, results in rows.items()
    }
    if as_json:
        print(json.dumps(summary, indent=2))
        return
    table = Table(title=f"{calls} calls of {milliseconds:g} ms, {places} places, queue of {queue}")
    for heading in ("way", "busy", "busy after warm-up", "refused"):
        table.add_column(heading, justify="right")
    for name, row in summary.items():
        cells = (f"{row['busy']:.1%}", f"{row['busy_after_warm_up']:.1%}", f"{row['refused']:.0f}")
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
