"""Several processes, one database: who makes a call, and what happens when one of them is gone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from editjudge.base.config import PostgresAddress
from editjudge.base.errors import ConfigError
from editjudge.storage import postgres, postgres_ledger
from editjudge.storage.ledger import Ledger
from editjudge.storage.postgres import ALL_TEAMS, VERSION, Postgres
from editjudge.storage.postgres_ledger import PostgresLedger
from editjudge.storage.shared_ledger import open_call_store, open_ledger

from ..patience import patience, until, wait_until
from ..replies import count_replies
from ..unit.storage.small_store import ask, reply
from .server import PASSWORD, Server

REPLY, LATE = reply(cost=0.5), reply("late", 0.25)
CALLS = 200


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds of a short lease: so many that its renewals are in time on a busy machine."""
    seconds = patience(1.0)
    monkeypatch.setattr(postgres_ledger, "_LEASE", timedelta(seconds=seconds))
    return seconds


async def test_who_waits_for_a_claim_gets_the_reply(ledger: PostgresLedger) -> None:
    other = ledger.for_team("")

    async def get() -> object:
        async with other.claim(ask()) as stored:
            return stored

    async with ledger.claim(ask()) as stored:
        assert stored is None
        waiting = asyncio.create_task(get())
        assert not (await asyncio.wait([waiting], timeout=0.3))[0]
        async with ledger.for_team("blue").claim(ask()) as of_blue:
            assert of_blue is None, "another team waits for nobody"
        await ledger.put(ask(), REPLY)
    assert await waiting == REPLY
    assert (ledger.repeated_count, other.repeated_count) == (0, 0)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_call_without_a_reply_is_the_next_ones(ledger: PostgresLedger, how: str) -> None:
    begun = asyncio.Event()

    async def make() -> None:
        async with ledger.claim(ask()) as stored:
            assert stored is None
            begun.set()
            if how == "failed":
                raise ConnectionError
            await asyncio.Event().wait()

    making = asyncio.create_task(make())
    await begun.wait()
    if how == "cancelled":
        making.cancel()
    await asyncio.wait([making])
    assert isinstance(making.cancelled() or making.exception(), bool | ConnectionError)
    async with ledger.for_team("").claim(ask()) as stored:
        assert stored is None


async def test_a_claim_is_renewed_while_the_call_lasts(ledger: PostgresLedger, lease: float) -> None:
    other = ledger.for_team("")
    async with ledger.claim(ask()):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5 * lease), other.claim(ask()):
                pass
    async with other.claim(ask()) as stored:
        assert stored is None


@pytest.mark.usefixtures("lease")
async def test_an_owner_that_was_stopped_pays_beside_the_next(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(*_: object) -> None:
        """Renew nothing, as a process does that was stopped."""

    monkeypatch.setattr(ledger, "_renew", stop)
    other = ledger.for_team("")
    async with ledger.claim(ask()) as mine:
        async with other.claim(ask()) as theirs:
            assert (mine, theirs) == (None, None)
            await other.put(ask(), REPLY)
        assert await ledger.put(ask(), LATE) == REPLY, "the first reply stays"
    assert (ledger.repeated_count, other.repeated_count) == (1, 0)


def _work(
    folder: Path, name: str, ledger_place: PostgresAddress, first: int, begun: threading.Barrier, lease: float
) -> None:
    """A run that makes calls, 4 at a time, and notes each that it pays for."""
    calls = iter([*range(first, CALLS), *range(first)])

    async def judge(run: object) -> None:
        for number in calls:
            async with run.claim(ask(number)) as stored:
                if stored is None:
                    with (folder / "paid").open("a") as paid:
                        paid.write(f"{number}\n")
                    await asyncio.sleep(0.05)
                    await run.put(ask(number), REPLY)

    async def work() -> None:
        with ExitStack() as opened:
            own = opened.enter_context(Ledger(folder / f"{name}.sqlite"))

            def say(line: str) -> None:
                with (folder / "notes").open("a") as notes:
                    notes.write(f"{line}\n")

            run = open_call_store(own, ledger_place, 120.0, say, opened)
            begun.wait()
            await asyncio.gather(*(judge(run) for _ in range(4)))

    postgres_ledger._LEASE = timedelta(seconds=lease)
    asyncio.run(work())


@pytest.mark.parametrize("event", ["nothing", "killed", "stopped", "restarted"])
def test_four_processes_pay_for_a_call_once(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress, event: str
) -> None:
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Barrier(4)
    lease = patience(2.0)
    # Thirty-two connections at once take a busy machine longer than five seconds.
    address = PostgresAddress(f"{ledger_place.url}?connect_timeout=60")
    # Two begin at the same call, so that they meet.
    workers = [
        spawn.Process(target=_work, args=(tmp_path, str(number), address, first, begun, lease))
        for number, first in enumerate((0, 0, 60, 120))
    ]
    for worker in workers:
        worker.start()
    paid = tmp_path / "paid"
    wait_until(lambda: paid.exists() and len(paid.read_text().split()) > 8, 60)
    lost, is_away = 0, False
    match event:
        case "killed":
            workers.pop().kill()
            lost = 4
        case "stopped":
            os.kill(workers[0].pid, signal.SIGSTOP)
            began = time.monotonic()
            for worker in workers[1:]:
                worker.join()
            is_away = time.monotonic() - began > postgres._ANSWER_SECONDS  # it then takes the server for lost
            os.kill(workers[0].pid, signal.SIGCONT)
            lost = 4
        case "restarted":
            server.stop()
            time.sleep(1)
            server.start()
            lost = 16  # where it was gone for longer than a lease
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(workers)
    numbers = paid.read_text().split()
    assert {*map(int, numbers)} == set(range(CALLS))
    assert len(numbers) - CALLS <= lost
    for number in range(len(workers)):
        with Ledger(tmp_path / f"{number}.sqlite") as own:
            assert count_replies(own) == CALLS
    (stored,) = server.execute(ledger_place.url, "SELECT count(*), count(document) FROM editjudge.calls")
    assert stored == (CALLS, CALLS)
    notes = tmp_path / "notes"
    said = notes.read_text().splitlines() if notes.exists() else []
    assert len(said) >= 4 if event == "restarted" else len(said) <= is_away, said
    assert all("is lost, calls wait for it up to 120 s" in line for line in said)


DISK_FULL = """
CREATE FUNCTION editjudge.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'could not extend file'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON editjudge.calls
FOR EACH ROW EXECUTE FUNCTION editjudge.refuse()
"""
READ_ONLY = "ALTER DATABASE {} SET default_transaction_read_only = on"
GONE = "DROP SCHEMA editjudge CASCADE"


@pytest.mark.parametrize(
    ("fault", "reason"), [(DISK_FULL, "could not extend file"), (READ_ONLY, "read-only"), (GONE, "does not exist")]
)
async def test_a_database_that_fails_costs_no_reply(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress, fault: str, reason: str
) -> None:
    notes: list[str] = []
    with ExitStack() as opened:
        own = opened.enter_context(Ledger(tmp_path / "run.sqlite"))
        run = open_call_store(own, ledger_place, 0.3, notes.append, opened)
        async with run.claim(ask()):
            server.execute(ledger_place.url, fault.format(ledger_place.url.rpartition("/")[2]))
            if fault is READ_ONLY:  # sessions that are there keep what they began with
                server.stop()
                server.start()
            await run.put(ask(), REPLY)
        for number in range(1, 4):
            async with run.claim(ask(number)) as stored:
                assert stored is None
                await run.put(ask(number), REPLY)
        assert count_replies(own) == 4
        assert await run.get(ask()) == REPLY
    assert sum(note.startswith("this session no longer uses the ledger") for note in notes) == 1
    assert reason in notes[-1]
    assert all("\n" not in note for note in notes)


async def test_many_begin_at_once(ledger_place: PostgresAddress) -> None:
    def begin() -> None:
        open_ledger(ledger_place, 1.0).close()

    await asyncio.gather(*(asyncio.to_thread(begin) for _ in range(6)))


def test_what_cannot_be_a_ledger(
    server: Server, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ledger(ledger_place, 1.0).close()
    server.execute(ledger_place.url, "UPDATE editjudge.version SET number = number + 1")
    with pytest.raises(ConfigError, match=f"of version {VERSION + 1}, this editjudge reads"):
        open_ledger(ledger_place, 1.0)
    wrong = {
        server.url("nowhere"): 'database "nowhere" does not exist',
        "postgresql://127.0.0.1:1/ledger": "refused",
        f"{ledger_place.url}?sslmode=require": "does not support SSL",
        f"{ledger_place.url}?sslmod=require": "sslmod",
    }
    for url, reason in wrong.items():
        with pytest.raises(ConfigError, match=reason) as refused:
            open_ledger(PostgresAddress(url), 1.0)
        assert "\n" not in str(refused.value)
    monkeypatch.setenv("PGPASSWORD", f"not {PASSWORD}")
    with pytest.raises(ConfigError, match="password authentication failed") as refused:
        open_ledger(ledger_place, 1.0)
    assert PASSWORD not in str(refused.value)


async def test_a_statement_outlives_a_server_that_is_lost(server: Server, ledger_place: PostgresAddress) -> None:
    notes: list[str] = []
    with PostgresLedger(Postgres(ledger_place, 120.0, notes.append)) as ledger:
        await ledger.put(ask(), REPLY)
        server.stop()
        reading = asyncio.create_task(ledger.get(ask()))
        await until(lambda: notes, 20)
        server.start()
        assert await reading == REPLY
    assert len(notes) == 1


async def test_a_connection_from_before_the_server_came_back_is_no_second_loss(
    server: Server, ledger_place: PostgresAddress
) -> None:
    notes: list[str] = []
    sleep = f"pg_sleep({patience(2):.1f})"
    ours = f"FROM pg_stat_activity WHERE query LIKE '%{sleep}%' AND state = 'active' AND pid <> pg_backend_pid()"
    with PostgresLedger(Postgres(ledger_place, 120.0, notes.append)) as ledger:
        reading = asyncio.create_task(ledger._database.fetch(f"SELECT {sleep}", {}, ALL_TEAMS))
        await until(lambda: server.execute(ledger_place.url, f"SELECT 1 {ours}"))
        ledger._database.return_time = time.monotonic()
        assert server.execute(ledger_place.url, f"SELECT pg_terminate_backend(pid) {ours}") == [(True,)]
        assert len(await reading) == 1
    assert notes == []


async def test_who_finds_a_server_again_leaves_others_the_time_to_renew(
    ledger: PostgresLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that ended while nobody could renew it is its owner's still."""
    other = ledger.for_team("")
    monkeypatch.setattr(postgres_ledger, "_LEASE", timedelta(0))
    async with ledger.claim(ask()):
        monkeypatch.setattr(postgres_ledger, "_LEASE", timedelta(seconds=30))
        ledger._database.return_time = time.monotonic()
        assert await other._fetch("claim", other._of(ask().key)) == []
        ledger._database.return_time -= 31
        assert await other._fetch("claim", other._of(ask().key)) == [(None, None, None)]
