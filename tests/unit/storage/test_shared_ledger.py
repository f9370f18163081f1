"""A run's calls beside a ledger that runs share."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.config import LedgerPlace
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ServiceName
from editjudge.panel.calls import CallStore, Reply, SpecialistCall
from editjudge.storage import database
from editjudge.storage.ledger import Ledger
from editjudge.storage.shared_ledger import SharedCalls, open_call_store, open_ledger

from ...replies import count_replies
from .small_store import ask, reply

REPLY = reply(cost=0.5)
FEATURES = SpecialistCall(ServiceName("features", "dinov3"), "dinov3/1", {"IMAGE": "sha256:1"})


class Run:
    """Calls of one run; `notes` is what it was told."""

    def __init__(self, folder: Path, name: str, opened: ExitStack, ledger: LedgerPlace) -> None:
        self.own = opened.enter_context(Ledger(folder / name / "run.sqlite"))
        self.notes: list[str] = []
        self.calls: CallStore = open_call_store(self.own, ledger, 60.0, self.notes.append, opened)


@pytest.fixture
def ledger_place(tmp_path: Path) -> Path:
    return tmp_path / "team" / "ledger.sqlite"


@pytest.fixture
def begin(tmp_path: Path, ledger_place: LedgerPlace) -> Iterator[Callable[..., Run]]:
    """Begins a run of this name, beside the shared ledger or another."""
    with ExitStack() as opened:
        yield lambda name, ledger=ledger_place: Run(tmp_path, name, opened, ledger)


async def test_what_a_run_paid_for_costs_the_next_nothing(begin: Any) -> None:
    first, second = begin("a"), begin("b")
    vector = {"EMBEDDING": np.ones(8, np.float32)}
    abstains = SpecialistCall(FEATURES.service, "dinov3/2", {})
    await first.calls.put(ask(), REPLY)
    await first.calls.put(FEATURES, Reply(vector))
    await first.calls.put(abstains, Reply({"kind": "degenerate", "reason": "no region"}))
    await first.calls.put_fact("choices of judge", "logprobs")
    known = await second.calls.get(ask())
    assert (known.content, known.cost) == (REPLY.content, 0.0)
    outputs = await second.calls.get(FEATURES)
    np.testing.assert_array_equal(outputs.content["EMBEDDING"], vector["EMBEDDING"])
    assert (await second.calls.get(abstains)).content["reason"] == "no region"
    assert await second.calls.get_fact("choices of judge") == "logprobs"
    # The run is whole without the ledger, and has spent nothing.
    assert await second.own.get(ask()) == known
    assert (count_replies(second.own), second.own.costs) == (3, (0.0, 0.0))
    assert first.own.costs == (0.5, 0.5)
    assert await second.own.get_fact("choices of judge") == "logprobs"


async def test_what_a_run_has_dropped_is_asked_anew(begin: Any) -> None:
    run, better = begin("a"), reply("No", 0.1)
    await run.calls.put(ask(), REPLY)
    await run.own.drop([ask().key])
    again = begin("a")
    assert await again.calls.get(ask()) is None
    await again.calls.put(ask(), better)
    assert await again.calls.get(ask()) == better
    assert (await begin("b").calls.get(ask())).content == better.content


async def test_a_locked_ledger_costs_no_reply(begin: Any, ledger_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    run = begin("a")
    with contextlib.closing(sqlite3.connect(ledger_place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await asyncio.gather(*(run.calls.put(ask(number), REPLY) for number in range(5)))
        (note,) = run.notes
        assert note.startswith("this session no longer uses the ledger")
        assert str(ledger_place) in note
        assert count_replies(run.own) == 5
        other.execute("ROLLBACK")
    assert await run.calls.get(ask(9)) is None
    assert len(run.notes) == 1


async def test_a_damaged_ledger_costs_no_reply(begin: Any) -> None:
    run = begin("a")
    await run.calls.put(ask(), REPLY)
    assert isinstance(run.calls, SharedCalls)
    run.calls._ledger._database.run("UPDATE calls SET document = x'0102'")
    run.calls._ledger._database.run("DROP TABLE prompts")
    other = begin("b")
    assert await other.calls.get(ask()) is None
    await other.calls.put(ask(1), REPLY)
    assert len(other.notes) == 1
    assert await other.own.get(ask(1)) == REPLY


def test_what_cannot_be_a_ledger(begin: Any, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look at it twice " * 10)
    with pytest.raises(ConfigError, match="give another file"):
        begin("a", text)
    whole = tmp_path / "whole.sqlite"
    Ledger(whole).close()
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) // 2])
    cut = begin("b", whole)
    assert "the file is damaged" in cut.notes[0]
    assert cut.calls is cut.own
    own = begin("c", tmp_path / "c" / "run.sqlite")
    assert own.calls is own.own


def _write(folder: Path, name: str, shared: LedgerPlace) -> None:
    async def write() -> None:
        with ExitStack() as opened:
            run = Run(folder, name, opened, shared)
            for number in range(60):
                async with run.calls.claim(ask(number)) as stored:
                    if stored is None:
                        await run.calls.put(ask(number), REPLY)
            assert count_replies(run.own) == 60
            assert not run.notes

    asyncio.run(write())


def test_two_processes_judge_with_one_ledger(tmp_path: Path, ledger_place: LedgerPlace) -> None:
    spawn = multiprocessing.get_context("spawn")
    runs = [spawn.Process(target=_write, args=(tmp_path, name, ledger_place)) for name in "ab"]
    for process in runs:
        process.start()
    for process in runs:
        process.join()
    assert [process.exitcode for process in runs] == [0, 0]
    with open_ledger(ledger_place, 60.0) as ledger:
        keys = [ask(number).key for number in range(60)]
        assert len(asyncio.run(ledger.get_records(keys))) == 60
