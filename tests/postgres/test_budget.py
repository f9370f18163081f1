"""One budget over processes: no more is spent beyond it than calls were in flight."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from pathlib import Path

import pytest

from editjudge.base.config import PostgresAddress, Price, Settings
from editjudge.base.errors import ConfigError, CostLimit
from editjudge.panel.budget import Budget
from editjudge.panel.calls import Usage
from editjudge.storage.ledger import Ledger
from editjudge.storage.postgres_ledger import PostgresLedger
from editjudge.storage.shared_ledger import open_ledger

from .server import Server

PRICE = Price(input=1_000_000, output=0)
LIMIT, IN_FLIGHT, PROCESSES = 100.0, 4, 4


async def spend(budget: Budget, seconds: float = 0.0) -> None:
    """Make a call for 1."""
    async with budget.turn(has_price=True):
        with budget.reserve_call(PRICE, "judge") as pay:
            await asyncio.sleep(seconds)
            pay(Usage(1))


def make(ledger: PostgresLedger, name: str, limit: float | None = LIMIT) -> Budget:
    return Budget.of(Settings(max_cost=limit, budget=name), ledger)


def _work(folder: Path, name: str, ledger_place: PostgresAddress, begun: threading.Barrier) -> None:
    async def work() -> None:
        with open_ledger(ledger_place, 60.0) as ledger:
            budget = make(ledger, "ours")
            begun.wait()

            async def call() -> None:
                while True:
                    await spend(budget, 0.02)

            done = await asyncio.gather(*[call() for _ in range(IN_FLIGHT)], return_exceptions=True)
            assert all(isinstance(error, CostLimit) for error in done), done
            (folder / f"{name}.cost").write_text(str(budget.cost))

    asyncio.run(work())


async def test_four_processes_spend_one_budget(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress, ledger: PostgresLedger
) -> None:
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Barrier(PROCESSES)
    workers = [
        spawn.Process(target=_work, args=(tmp_path, str(number), ledger_place, begun)) for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    costs = [float(path.read_text()) for path in tmp_path.glob("*.cost")]
    most = LIMIT + (PROCESSES - 1) * IN_FLIGHT
    assert LIMIT - IN_FLIGHT <= sum(costs) <= most
    assert sum(cost > 0 for cost in costs) > 1, costs
    (stored,) = server.execute(ledger_place.url, "SELECT sum(cost), count(*) FROM editjudge.spending")
    assert stored == (sum(costs), PROCESSES)
    with pytest.raises(CostLimit, match="of max_cost = 100 is spent"):
        await spend(make(ledger, "ours"))
    await spend(make(ledger, "theirs"))
    await spend(make(ledger, "ours", 200.0))


async def test_those_who_wait_are_told_by_one_statement(ledger: PostgresLedger) -> None:
    budget, asked = make(ledger, "ours"), []
    account = budget._account

    async def note(cost: float, dearest: float) -> tuple[float, float]:
        asked.append(cost)
        return await account(cost, dearest)

    budget._account = note
    await spend(budget)
    await asyncio.gather(*(spend(budget) for _ in range(50)))
    assert (asked[0], asked[-1]) == (0, 51)
    assert len(asked) < 40


async def test_nothing_is_spent_of_what_cannot_be_read(server: Server, ledger_place: PostgresAddress) -> None:
    with open_ledger(ledger_place, 0.0, lambda _: None) as ledger:
        budget = make(ledger, "ours")
        await spend(budget)
        server.execute(ledger_place.url, "DROP TABLE editjudge.spending")
        with pytest.raises(CostLimit, match=r"cannot be read, nothing more is spent: .*spending"):
            await spend(budget)
        assert budget.cost == 1


def test_a_shared_budget_needs_a_ledger_that_is_shared() -> None:
    settings = Settings(max_cost=1.0, budget="ours")
    for calls in (None, Ledger()):
        with pytest.raises(ConfigError, match="the budget 'ours' cannot be shared without"):
            Budget.of(settings, calls)
