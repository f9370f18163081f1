"""What asynchronous code asks of the file is done in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import threading
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from editjudge.base.errors import StoreError
from editjudge.storage.compression import FIRST
from editjudge.storage.database import Database
from editjudge.storage.schema import FACTS, PROMPTS


async def test_work_that_fails_when_its_caller_has_left_says_nothing() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
    database, may_fail = Database(), Event()

    def fail() -> None:
        may_fail.wait()
        raise StoreError("the disk is full")

    caller = asyncio.create_task(database.run_in_thread(fail))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_fail.set()
    await database.run_in_thread(int)  # after it, in the same thread
    gc.collect()
    assert not complaints
    database.close()


def test_a_dictionary_of_a_transaction_that_failed_is_not_remembered(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"

    def put(database: Database, *, fails: bool) -> None:
        with database.transaction():
            for number in range(FIRST + 1):
                document = database.compressor.compress({"text": "some words " * 20 + str(number)})
                database.put(PROMPTS, team=b"", digest=bytes([number]), document=document)
            if fails:
                raise StoreError("the disk is full")

    with contextlib.closing(Database(path, is_run=True)) as ours:
        with pytest.raises(StoreError):
            put(ours, fails=True)
        put(ours, fails=False)
    with contextlib.closing(Database(path, read_only=True)) as other:
        documents = [row[4] for row in other.rows(PROMPTS, long=True)]
        assert other.compressor.decompress(documents[-1])["text"].endswith(str(FIRST))


def test_what_others_write_meanwhile_is_seen_after_reads_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with contextlib.closing(Database(path)) as ours, contextlib.closing(Database(path)) as other:
        with ours.transaction("BEGIN"):
            assert ours.fact("a") is None
            other.put_fact("a", "new")
            with ours.transaction("BEGIN"):
                assert ours.fact("a") is None
        assert ours.fact("a") == "new"
        with ours.transaction(), ours.transaction("BEGIN"):
            ours.put_fact("a", "newer")
        assert other.fact("a") == "newer"


def test_two_threads_that_read_do_not_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    with contextlib.closing(Database(tmp_path / "calls.sqlite")) as db:
        with db.transaction():
            for number in range(1000):
                db.put_fact(f"name {number}", "value")

        def read() -> None:
            for _ in range(20):
                assert len(list(db.rows(FACTS))) == 1000

        threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def test_a_file_that_another_process_begins_is_waited_for(tmp_path: Path) -> None:
    """SQLite refuses at once, instead of waiting, a second connection that turns on write-ahead logging."""
    with contextlib.closing(sqlite3.connect(tmp_path / "run.sqlite", check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = threading.Timer(0.3, other.rollback)
        ended.start()
        Database(tmp_path / "run.sqlite").close()
        ended.join()
