"""What a shared ledger costs a run: a file beside PostgreSQL, in turns, in one process.

    make test-postgres && python perf/ledger.py

Calls with replies of 2 kB, 64 at a time, to a judge that takes 50 ms. Each goes through the store
of a run: its own file first, then the ledger. The processor's time is that of this process, without
the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.postgres.server import PASSWORD, Server

from editjudge.base.config import LedgerPlace
from editjudge.panel.calls import Call, Reply, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger
from editjudge.storage.shared_ledger import open_call_store

IN_FLIGHT, JUDGE_SECONDS, REPLY_BYTES = 64, 0.05, 2000


async def judge(folder: Path, place: LedgerPlace | None, count: int) -> tuple[float, float]:
    """Make calls; return their rate and the processor milliseconds of each."""
    words = random.Random(1)
    with ExitStack() as resources:
        own = resources.enter_context(Ledger(folder / "run.sqlite"))
        store = open_call_store(own, place, 60.0, sys.exit, resources)
        numbers = iter(range(count))

        async def work() -> None:
            for number in numbers:
                call = Call("judge", Prompt("", (Text(f"question {number}"),)), {"max_tokens": 9})
                text = words.randbytes(REPLY_BYTES // 2).hex()
                async with store.claim(call) as reply:
                    assert reply is None
                    await asyncio.sleep(JUDGE_SECONDS)
                    await store.put(call, Reply({"text": text}, "judge", Usage(900, 0, 500), 0.1))

        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        rate = count / (time.perf_counter() - began)
        return rate, (time.process_time() - used) / count * 1000


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["PGPASSWORD"] = PASSWORD
    server = Server(fsync=True)
    results: dict[str, list[tuple[float, float]]] = {}
    try:
        for _ in range(options.rounds):
            for kind in ("none", "file", "postgresql"):
                with tempfile.TemporaryDirectory() as name:
                    folder = Path(name)
                    places = {"file": folder / "ledger.sqlite", "none": None}
                    place = places[kind] if kind in places else server.make_database()
                    result = asyncio.run(judge(folder, place, options.calls))
                    results.setdefault(kind, []).append(result)
    finally:
        server.close()
    for kind, each in results.items():
        rate, used = (statistics.median(values) for values in zip(*each, strict=True))
        print(f"{kind:10} {rate:6.0f} calls/s, {used:.2f} ms of the processor a call")


if __name__ == "__main__":
    main()
