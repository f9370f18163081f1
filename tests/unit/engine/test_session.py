"""What a session does beside judging."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from editjudge.base.config import Settings
from editjudge.base.identity import ServiceName
from editjudge.base.threads import in_thread
from editjudge.engine.session import compute_max_in_flight
from editjudge.panel import Panel


def test_more_edits_are_in_flight_than_an_endpoint_takes_calls() -> None:
    """Some of them are loaded or kept meanwhile, which needs no place."""
    settings = Settings(concurrency=32)
    asking, computing = (_plan(roles) for roles in ({"generalist.judge"}, set()))
    assert compute_max_in_flight(asking, settings) >= 32 + 16
    assert compute_max_in_flight(computing, settings) < 16 + 2 * 256, "pictures are decoded by the cores"
    assert compute_max_in_flight(computing, settings) == compute_max_in_flight(asking, settings) - 48


def _plan(roles: set[str]) -> Any:
    return SimpleNamespace(roles=roles)


async def test_the_store_is_read_beside_the_event_loop() -> None:
    assert await in_thread(threading.get_ident) != threading.get_ident()


async def test_what_reads_the_store_is_waited_for_where_the_session_is_cancelled() -> None:
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        begun.set()
        may_end.wait()
        done.append("read")

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["read"]


async def test_judges_are_asked_side_by_side_how_they_answer_choices() -> None:
    together = asyncio.Barrier(2)
    judge: Any = SimpleNamespace(find_choice_method=together.wait)
    judge.with_context = lambda _: judge
    panel = Panel(Settings())
    panel.judges.update(dict.fromkeys(map(ServiceName.judge, "ab"), judge))
    async with asyncio.timeout(10):
        await panel.probe_judges()
