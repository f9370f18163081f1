"""Workers on Ray: a run in one process, on one real worker and on two, and the schedule of 64 simulated.

    make .venv/.machines && python perf/workers.py [edits] [rounds]

The runs align pictures of several sizes, in turns, on a Ray of two processors on this machine. Each
is judged twice, of one edit and of all, and the difference is printed: seconds by the clock and of the
processor, those of Ray's workers included. With no edits only the schedule is simulated.

The rule of the schedule is that of `RayScheduler`; workers and their edits are simulated there, by a
virtual clock and the processor seconds that the pictures took here. A worker begins after a random
time, does so many edits at once, and takes others five times a second.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import cv2
import numpy as np
import skimage.data

from editjudge.app.ray_pool import RayOptions, RayScheduler, _Hand

ITEMS = 20_000
INTERVAL, BEGIN = 0.2, (3.0, 8.0)
SIDES = {1024: 0.6, 1536: 0.25, 2048: 0.13, 4096: 0.02}
"""Pictures of these sides, and their shares."""
SECONDS = {1024: 0.29, 1536: 0.35, 2048: 0.46, 4096: 1.1}
"""What an edit of each takes where none was measured."""
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "cat")
DIMENSION = "core.aligned_psnr.source.whole"


def draw_sides(count: int, chance: random.Random) -> list[int]:
    """Sides of pictures, few of which are large."""
    return chance.choices([*SIDES], [*SIDES.values()], k=count)


def simulate(workers: int, at_once: int, in_flight: int, seconds: list[float]) -> float:
    """How long all edits take."""
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
    sources = (SimpleNamespace(index=number) for number in range(len(seconds)))
    pool._rest = ([(item, {"model": frozenset({"d"})})] for item in sources)
    pool._left_count, pool._most_given = len(seconds), 2 * in_flight
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
        hand, began = pool._hands[number], now
        while queues[number] or busy[number]:
            # Until now it went on with what it had, from one edit to the next.
            while queues[number] and len(busy[number]) < at_once:
                place = queues[number].popleft()
                heapq.heappush(busy[number], (began + seconds[place], place))
            if busy[number][0][0] > now:
                break
            began, place = heapq.heappop(busy[number])
            end = max(end, began)
            del hand.items[place]
        pool._give(hand)
        while queues[number] and len(busy[number]) < at_once:
            place = queues[number].popleft()
            heapq.heappush(busy[number], (now + seconds[place], place))
        if hand.items:
            heapq.heappush(events, (now + INTERVAL, number))
    return end


def make(folder: Path, count: int) -> None:
    """Items, each a photograph of its own, and what a model made of it: turned, with a patch repainted."""
    (folder / "ours").mkdir()
    lines = []
    for number, side in enumerate(draw_sides(count, random.Random(3))):
        photograph = getattr(skimage.data, PHOTOGRAPHS[number % len(PHOTOGRAPHS)])()
        source = cv2.resize(photograph, (side, side), interpolation=cv2.INTER_CUBIC)
        turn = cv2.getRotationMatrix2D((side / 2, side / 2), number % 7 / 7, 1.01)
        edit = cv2.warpAffine(source, turn, (side, side), borderMode=cv2.BORDER_REFLECT)
        edit[side // 3 : side // 2, side // 4 : side // 2] = (number, 90, 200)
        source[:4, :4] = number
        for name, pixels in ((f"{number}.jpg", source), (f"ours/{number}.jpg", edit)):
            cv2.imwrite(str(folder / name), np.ascontiguousarray(pixels[..., ::-1]))
        line = {"id": str(number), "instruction": f"edit {number}", "source": f"{number}.jpg", "task": "local_editing"}
        lines.append(json.dumps(line))
    (folder / "items.jsonl").write_text("\n".join(lines))


def read_ticks(session: int) -> dict[int, int]:
    """What each process of a node took so far, by pid: ticks of processors."""
    from tests.ray.cluster import find_processes

    ticks = {}
    for pid in find_processes(session):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks[pid] = sum(map(int, fields[11:13]))
    return ticks


def run(folder: Path, out: Path, cluster: Any, workers: int, limit: int) -> tuple[float, float]:
    """Judge, and return the seconds by the clock and of processors."""
    (node,) = cluster._nodes
    words = ["-m", "editjudge", "run", "core", "--data", folder / "items.jsonl", "--outputs", f"ours={folder / 'ours'}"]
    words += ["--dimension", DIMENSION, "--json", "--out", out, "--limit", limit]
    words += ["--ray", cluster.address, "--workers", workers] if workers else []
    before = latest = read_ticks(node)
    began, own = time.perf_counter(), os.times()
    command = [sys.executable, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **cluster.variables})
    # Ray's workers end with the run, and nobody inherits their times: they are read while they live.
    while process.poll() is None:
        time.sleep(0.1)
        latest = latest | read_ticks(node)
    wall, now = time.perf_counter() - began, os.times()
    if process.returncode:
        sys.exit(f"a run on {workers} workers failed")
    ticks = sum(ticks_now - before.get(pid, 0) for pid, ticks_now in latest.items())
    driver = now.children_user + now.children_system - own.children_user - own.children_system
    return wall, driver + ticks / os.sysconf("SC_CLK_TCK")


def measure_runs(folder: Path, count: int, rounds: int) -> None:
    """Print what an edit takes in each kind of run."""
    from tests.ray.cluster import cluster

    kinds = {"one process": 0, "1 worker": 1, "2 workers": 2}
    table: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in kinds}
    # Ray's workers are nice to others unless that is switched off, and would wait for what else the machine does.
    with cluster(variables={"RAY_worker_niceness": "0"}) as cluster_url:
        for number in range(rounds):
            for kind, workers in kinds.items():
                few = run(folder, folder / f"few {workers} {number}", cluster_url, workers, 1)
                many = run(folder, folder / f"run {workers} {number}", cluster_url, workers, count)
                each = ((of_all - of_one) / (count - 1) for of_all, of_one in zip(many, few, strict=True))
                table[kind].append((*each, few[0]))
    for kind, rows in table.items():
        clock, processor, first = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"{kind:12} an edit {clock:.2f} s by the clock, {processor:.2f} of processors; a run of one {first:.1f} s"
        )


def measure_edits(folder: Path) -> dict[int, float]:
    """Processor seconds of an edit of each side, in one thread."""
    import editjudge

    sides: dict[int, list[float]] = {}
    for file in sorted((folder / "ours").iterdir()):
        pictures = {"source": folder / file.name, "edited": file}
        editjudge.score(dimensions="core.psnr.source.whole", instruction="x", **pictures)  # loads what it needs
        began = time.process_time()
        editjudge.score(dimensions=DIMENSION, instruction="x", **pictures)
        side = cv2.imread(str(file)).shape[0]
        sides.setdefault(side, []).append(time.process_time() - began)
    return {side: statistics.median(each) for side, each in sides.items()}


def main() -> None:
    """Print a row for each kind of run, and of work that is simulated."""
    count, rounds = (int(word) for word in (sys.argv[1:] + ["16", "2"][len(sys.argv) - 1 :]))
    seconds_by_side = SECONDS
    if count:
        with tempfile.TemporaryDirectory() as name:
            make(Path(name), count)
            measure_runs(Path(name), count, rounds)
            seconds_by_side = SECONDS | measure_edits(Path(name))
            print("processor seconds of an edit by side:", {k: round(v, 2) for k, v in seconds_by_side.items()})
    chance = random.Random(15)
    pixels = [seconds_by_side[side] * chance.lognormvariate(0, 0.25) for side in draw_sides(ITEMS, chance)]
    calls = [2 * chance.lognormvariate(0, 1) for _ in range(ITEMS)]
    for kind, at_once, in_flight, seconds in (("pixels", 1, 2, pixels), ("a judge, 2 s a call", 50, 50, calls)):
        texts = []
        for workers in (1, 2, 64):
            end = simulate(workers, at_once, in_flight, seconds)
            ratio = end / (max(seconds) + sum(seconds) / workers / at_once)
            texts.append(f"{workers} workers {end:.0f} s ({ratio:.2f})")
        print(f"{kind}, {ITEMS} edits (over an even share and the longest edit): {', '.join(texts)}")


if __name__ == "__main__":
    main()
