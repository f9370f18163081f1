"""The schedule of workers on Ray, simulated: how near 1, 2 and 64 come to an even share.

The rule is that of `RayScheduler`; workers and their edits are simulated, so no Ray is needed. A
worker begins after a random time, does so many edits at once, and takes others five times a second.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from types import SimpleNamespace
from typing import Any

from editjudge.app.ray_pool import RayOptions, RayScheduler, _Hand

ITEMS = 20_000
INTERVAL, BEGIN = 0.2, (3.0, 8.0)
KINDS = {"pixels, .6 s an edit": (2, 0.6), "a judge, 2 s a call": (50, 2.0)}
"""Edits at once, and the median of their seconds; one in 100 takes ten times as long or more."""


def simulate(workers: int, at_once: int, median: float) -> float:
    """How long all take, as a multiple of an even share with the longest edit after it."""
    chance = random.Random(15)
    nobody: Any = None
    pool = RayScheduler(
        *(nobody, nobody, nobody, nobody, at_once),
        spec=nobody,
        settings=nobody,
        ledger=nobody,
        calls=nobody,
        options=RayOptions("simulated"),
    )
    sources = (SimpleNamespace(index=number) for number in range(ITEMS))
    pool._rest = ([(item, {"model": frozenset({"d"})})] for item in sources)
    pool._left_count, pool._most_given = ITEMS, 2 * at_once
    seconds = [chance.lognormvariate(0.0, 1.0) * median for _ in range(ITEMS)]
    events: list[tuple[float, int]] = []
    queues: list[deque[int]] = [deque() for _ in range(workers)]
    busy: list[list[tuple[float, int]]] = [[] for _ in range(workers)]
    for number in range(workers):

        def add(chunk: Any, queue: deque[int] = queues[number]) -> None:
            queue.extend(item.index for item, _ in chunk or ())

        pool._hands.append(_Hand(SimpleNamespace(add=SimpleNamespace(remote=add))))
        heapq.heappush(events, (chance.uniform(*BEGIN), number))
    end = 0.0
    while events:
        now, number = heapq.heappop(events)
        hand = pool._hands[number]
        while busy[number] and busy[number][0][0] <= now:
            end, place = heapq.heappop(busy[number])
            del hand.items[place]
        pool._give(hand)
        while queues[number] and len(busy[number]) < at_once:
            place = queues[number].popleft()
            heapq.heappush(busy[number], (now + seconds[place], place))
        if hand.items:
            heapq.heappush(events, (now + INTERVAL, number))
    return end / (max(seconds) + sum(seconds) / workers / at_once)


def main() -> None:
    """Print a row for each kind of work."""
    for kind, (at_once, median) in KINDS.items():
        row = {workers: simulate(workers, at_once, median) for workers in (1, 2, 64)}
        text = ", ".join(f"{workers} workers {ratio:.2f}" for workers, ratio in row.items())
        print(f"{kind}: time as a multiple of an even share and the longest edit: {text}")


if __name__ == "__main__":
    main()
