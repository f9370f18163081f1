"""A run's calls beside a ledger that runs share."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from editjudge.base.errors import ConfigError
from editjudge.base.identity import ServiceName
from editjudge.panel.calls import Call, CallStore, Reply, SpecialistCall, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage import database
from editjudge.storage.ledger import Ledger
from editjudge.storage.shared_ledger import SharedCalls, open_call_store

from ...replies import count_replies

REPLY = Reply({"text": "Yes", "finish": "stop"}, "judge-1", Usage(10, 4, 1), 0.5)
FEATURES = SpecialistCall(ServiceName("features", "dinov3"), "dinov3/1", {"IMAGE": "sha256:1"})


def call(number: int = 0) -> Call:
    return Call("judge", Prompt("", (Text("Is it?"),)), {"choices": ["Yes", "No"]}, number)


class Run:
    """Calls of one run; `notes` is what it was told."""

    def __init__(self, folder: Path, name: str, opened: ExitStack, ledger: Path) -> None:
        self.own = opened.enter_context(Ledger(folder / name / "run.sqlite"))
        self.notes: list[str] = []
        self.calls: CallStore = open_call_store(self.own, ledger, self.notes.append, opened)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "team" / "ledger.sqlite"


async def test_what_a_run_paid_for_costs_the_next_nothing(
    tmp_path: Path, opened: ExitStack, shared: Path
) -> None:
    first, second = (Run(tmp_path, name, opened, shared) for name in "ab")
    vector = {"EMBEDDING": np.ones(8, np.float32)}
    abstains = SpecialistCall(FEATURES.service, "dinov3/2", {})
    await first.calls.put(call(), REPLY)
    await first.calls.put(FEATURES, Reply(vector))
    await first.calls.put(abstains, Reply({"kind": "degenerate", "reason": "no region"}))
    await first.calls.put_fact("choices of judge", "logprobs")
    known = await second.calls.get(call())
    assert known is not None
    assert (known.content, known.cost) == (REPLY.content, 0.0)
    outputs = await second.calls.get(FEATURES)
    assert outputs is not None
    np.testing.assert_array_equal(outputs.content["EMBEDDING"], vector["EMBEDDING"])
    said = await second.calls.get(abstains)
    assert said is not None
    assert said.content["reason"] == "no region"
    assert await second.calls.get_fact("choices of judge") == "logprobs"
    # The run is whole without the ledger, and has spent nothing.
    assert await second.own.get(call()) == known
    assert (count_replies(second.own), second.own.costs) == (3, (0.0, 0.0))
    assert first.own.costs == (0.5, 0.5)
    assert await second.own.get_fact("choices of judge") == "logprobs"


async def test_what_a_run_has_dropped_is_asked_anew(
    tmp_path: Path, opened: ExitStack, shared: Path
) -> None:
    run = Run(tmp_path, "a", opened, shared)
    await run.calls.put(call(), REPLY)
    await run.own.drop([call().key])
    again = Run(tmp_path, "a", opened, shared)
    assert await again.calls.get(call()) is None
    better = Reply({"text": "No", "finish": "stop"}, "judge-1", Usage(1, 0, 1), 0.1)
    await again.calls.put(call(), better)
    assert await again.calls.get(call()) == better
    other = Run(tmp_path, "b", opened, shared)
    known = await other.calls.get(call())
    assert known is not None
    assert known.content == better.content


async def test_a_locked_ledger_costs_no_reply(
    tmp_path: Path, opened: ExitStack, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    run = Run(tmp_path, "a", opened, shared)
    other = sqlite3.connect(shared, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await asyncio.gather(*(run.calls.put(call(number), REPLY) for number in range(5)))
    (note,) = run.notes
    assert note.startswith("this session no longer uses the ledger")
    assert str(shared) in note
    assert count_replies(run.own) == 5
    other.execute("ROLLBACK")
    other.close()
    assert await run.calls.get(call(9)) is None
    assert len(run.notes) == 1


async def test_a_damaged_ledger_costs_no_reply(
    tmp_path: Path, opened: ExitStack, shared: Path
) -> None:
    run = Run(tmp_path, "a", opened, shared)
    await run.calls.put(call(), REPLY)
    assert isinstance(run.calls, SharedCalls)
    run.calls._ledger._database.run("UPDATE calls SET document = x'0102'")
    run.calls._ledger._database.run("DROP TABLE prompts")
    other = Run(tmp_path, "b", opened, shared)
    assert await other.calls.get(call()) is None
    await other.calls.put(call(1), REPLY)
    assert len(other.notes) == 1
    assert await other.own.get(call(1)) == REPLY


def test_what_cannot_be_a_ledger(tmp_path: Path, opened: ExitStack) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look at it twice " * 10)
    with pytest.raises(ConfigError, match="give another file"):
        Run(tmp_path, "a", opened, text)
    whole = tmp_path / "whole.sqlite"
    Ledger(whole).close()
    whole.write_bytes(whole.read_bytes()[:-100])
    cut = Run(tmp_path, "b", opened, whole)
    assert "its end is missing" in cut.notes[0]
    assert cut.calls is cut.own
    own = Run(tmp_path, "c", opened, tmp_path / "c" / "run.sqlite")
    assert own.calls is own.own


def _write(folder: Path, name: str, shared: Path) -> None:
    async def write() -> None:
        with ExitStack() as opened:
            run = Run(folder, name, opened, shared)
            for number in range(60):
                if await run.calls.get(call(number)) is None:
                    await run.calls.put(call(number), REPLY)
            assert count_replies(run.own) == 60
            assert not run.notes

    asyncio.run(write())


def test_two_processes_judge_with_one_ledger(tmp_path: Path, shared: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    runs = [spawn.Process(target=_write, args=(tmp_path, name, shared)) for name in "ab"]
    for process in runs:
        process.start()
    for process in runs:
        process.join()
        assert process.exitcode == 0
    with Ledger(shared) as ledger:
        assert count_replies(ledger) == 60
