"""What a shared ledger costs a run: a file beside PostgreSQL, in turns, in one process.

    make .venv/.machines && python perf/ledger.py

Calls with replies of 2 kB, 64 at a time, to a judge that takes 50 ms. Each goes through the store
of a run: its own file first, then the ledger. The processor's time is that of this process, without
the server's. `--rows 10000000` measures a full ledger instead: its size, a look-up and a purge.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from tests.postgres.server import PASSWORD, Server

from editjudge.base.config import LedgerPlace, PostgresAddress
from editjudge.panel.calls import Call, Reply, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger
from editjudge.storage.shared_ledger import open_call_store, open_database

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

        began, processor = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        rate = count / (time.perf_counter() - began)
        return rate, (time.process_time() - processor) / count * 1000


async def measure_full(place: PostgresAddress, server: Server, count: int) -> None:
    """Fill a ledger with made replies, by the server itself; tell its size and how fast it is."""
    call = Call("judge", Prompt("", (Text("question"),)), {"max_tokens": 9})
    random.seed(1)
    documents = [random.randbytes(300) for _ in range(1000)]  # a compressed reply does not shrink
    with open_database(place, 60.0) as ledger:
        began = time.perf_counter()
        with psycopg.connect(server.url(place.url.rpartition("/")[2]), password=PASSWORD) as db, db.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE made_document (place int, document bytea)")
            cursor.executemany("INSERT INTO made_document VALUES (%s, %s)", [*enumerate(documents)])
            cursor.execute(
                "INSERT INTO editjudge.calls (team, key, made, cost, document)"
                " SELECT convert_to((n %% 10)::text, 'UTF8'), sha256(convert_to(n::text, 'UTF8')),"
                " now() - interval '100 days' * (1 - n / %(count)s::float8), 0.1, document"
                " FROM generate_series(0, %(count)s - 1) n JOIN made_document ON place = n %% 1000",
                {"count": count},
            )
        print(f"{count} replies by the server in {time.perf_counter() - began:.0f} s", flush=True)
        sizes = "pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c"
        ((table, indexes),) = server.execute(place.url, f"SELECT {sizes} WHERE oid = 'editjudge.calls'::regclass")
        print(f"table {table / 1e9:.2f} GB, indexes {indexes / 1e9:.2f} GB")
        times = []
        for number in random.sample(range(count), 2000):
            key = hashlib.sha256(str(number).encode()).digest()
            own, began = ledger.for_team(str(number % 10)), time.perf_counter()
            assert await own._fetch("get", {**own._of(call.key), "key": key})
            times.append((time.perf_counter() - began) * 1000)
        median, most = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"a look-up {median:.2f} ms, 99 of 100 below {most:.2f} ms")
        began = time.perf_counter()
        before = (datetime.now(UTC) - timedelta(days=90)).timestamp()
        deleted_count = await ledger.purge(before, team="3")
        seconds = time.perf_counter() - began
        print(f"a purge of {deleted_count} replies {seconds:.1f} s")


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=0)
    options = parser.parse_args()
    os.environ["PGPASSWORD"] = PASSWORD
    server = Server(fsync=True)
    results: dict[str, list[tuple[float, float]]] = {}
    try:
        if options.rows:
            asyncio.run(measure_full(server.make_database(), server, options.rows))
            return
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
        rate, processor = (statistics.median(values) for values in zip(*each, strict=True))
        print(f"{kind:10} {rate:6.0f} calls/s, {processor:.2f} ms of the processor a call")


if __name__ == "__main__":
    main()
