"""A way to the server that is cut for as long as a failover takes, and what a purge reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from editjudge.base.config import PostgresAddress
from editjudge.storage.ledger import Ledger
from editjudge.storage.postgres_ledger import _load_statements
from editjudge.storage.shared_ledger import open_call_store

from ..patience import until
from ..unit.storage.small_store import ask, reply
from .server import Server

REPLY = reply(cost=0.5)
IN_FLIGHT, CUT_SECONDS = 8, 20.0


class Way:
    """A TCP proxy; while it is cut it closes connections, or is silent on them."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._closes = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self, ledger_place: PostgresAddress) -> AsyncIterator[PostgresAddress]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        try:
            yield PostgresAddress(ledger_place.url.replace(f":{self._server_port}/", f":{port}/"))
        finally:
            self._is_open.set()
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, *, closes: bool) -> None:
        self._is_open.clear()
        self._closes = closes
        for writer in self._writers if closes else ():
            writer.transport.abort()

    def mend(self) -> None:
        self._is_open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open.is_set() and self._closes:
            writer.transport.abort()
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        for source, target in ((reader, inner_writer), (inner_reader, writer)):
            self._writers.add(target)
            self._tasks.add(asyncio.create_task(self._pass(source, target)))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._is_open.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(target)
            target.close()


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "silent"])
async def test_a_way_that_is_cut_costs_no_reply_and_no_second_call(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress, closes: bool
) -> None:
    way, notes, calls = Way(server.port), list[str](), list[int]()
    stops = asyncio.Event()
    async with way.open(ledger_place) as address:
        with ExitStack() as opened:
            own = opened.enter_context(Ledger(tmp_path / "run.sqlite"))
            store = await asyncio.to_thread(open_call_store, own, address, 300.0, notes.append, opened)

            async def work(first: int) -> None:
                number = first
                while not stops.is_set():
                    async with store.claim(ask(number)) as stored:
                        assert stored is None
                        calls.append(number)
                        await asyncio.sleep(0.02)
                        await store.put(ask(number), REPLY)
                    number += IN_FLIGHT

            working = [asyncio.create_task(work(number)) for number in range(IN_FLIGHT)]
            await until(lambda: len(calls) > 5 * IN_FLIGHT)
            way.cut(closes=closes)
            await asyncio.sleep(CUT_SECONDS)
            made_before = len(calls)
            way.mend()
            await until(lambda: len(calls) > made_before + 5 * IN_FLIGHT, 60)
            stops.set()
            await asyncio.gather(*working)
    assert len(calls) == len(set(calls))
    rows = server.execute(ledger_place.url, "SELECT count(*), count(document) FROM editjudge.calls")
    assert rows == [(len(calls), len(calls))]
    assert len(notes) <= 1
    assert all("is lost, calls wait for it" in note for note in notes)
    assert notes or not closes


@pytest.mark.usefixtures("ledger")
def test_a_purge_reads_its_piece_by_an_index(server: Server, ledger_place: PostgresAddress) -> None:
    """Of a table whose statistics are of today, and of one that nobody has analysed."""
    server.execute(
        ledger_place.url,
        "INSERT INTO editjudge.calls (team, key, made, cost, document)"
        " SELECT convert_to((n % 10)::text, 'UTF8'), int4send(n),"
        " now() - n * interval '1 s', 1, 'x' FROM generate_series(1, 50000) n",
    )
    values = {"team": "convert_to('3', 'UTF8')", "before": "extract(epoch FROM now()) - 40000"}
    sql = re.sub(r"%\((\w+)\)s", lambda m: values[m[1]], _load_statements()["purge"])
    for is_analysed in (False, True):
        if is_analysed:
            server.execute(ledger_place.url, "ANALYZE editjudge.calls")
        lines = [row[0] for row in server.execute(ledger_place.url, f"EXPLAIN {sql}")]
        plan = "\n".join(lines)
        assert "calls_by_age" in plan, plan
        assert "Seq Scan" not in plan, plan
