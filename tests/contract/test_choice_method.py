"""A judge is asked how it answers choices while edits are asked about; nothing is signed before."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import editjudge
from editjudge import RunSpec, RunView
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.verdict import Score
from editjudge.engine.events import NoteEvent, RunEvent
from editjudge.storage.store import RunStore

from ..fakes.openai import Fault, ScriptedOpenAi, problem, reply
from ..patience import until
from ..replies import count_replies
from ..unit.benchmarks.kris.release import picture, write_release

IN_WORDS = "kris.visual_consistency"
EDITS = 3
ROOMY = {"content": [{"top_logprobs": [{"token": "Yes", "logprob": -0.1}]}]}
SURE = reply("Yes", logprobs=ROOMY)


class ProbedJudge(ScriptedOpenAi):
    """Answers about edits at once, and the first question of a session when it may.

    Attributes:
        told: What it then says.
        told_as: Under which name.
        probes: How often it was asked.
    """

    def __init__(self, told: Any = SURE, told_as: str = "judge", *, waits: bool = False) -> None:
        answer = reply(json.dumps({"reasoning": "As it was.", "consistency_score": 4}))
        # Only a server that takes every field is asked about edits before it is known.
        super().__init__(answer, owner="vllm", tokenize=False)
        self.told, self.told_as = told, told_as
        self.probes = 0
        self.may_tell = asyncio.Event()
        if not waits:
            self.may_tell.set()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if b"Is ice frozen water" not in await request.read():
            return await super()._chat(request)
        self.probes += 1
        await self.may_tell.wait()
        if isinstance(self.told, Fault):
            return web.json_response(self.told.body, status=self.told.status)
        return web.json_response({"model": self.told_as} | self.told)

    @property
    def edits(self) -> int:
        """How many questions about edits there were."""
        return len(self.requests)


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    data, folder = write_release(tmp_path / "kris", count_change=EDITS), tmp_path / "ours/count_change"
    for number in range(1, EDITS + 1):
        picture(folder / f"{number}.png", number)
    outputs = {"ours": tmp_path / "ours"}
    return RunSpec(benchmark="kris", data=data, outputs=outputs, dimensions=(IN_WORDS,))


class Session:
    """A session of a run, and what it said."""

    def __init__(self, spec: RunSpec, out: Path, url: str, *, concurrency: int = 32, **judge: Any) -> None:
        self.events: list[RunEvent] = []
        judges = {"judge": JudgeEndpoint(url=url, **judge)}
        patient = {"attempts": 2, "retry_wait": 0.001, "patience": 0}
        settings = Settings(judges=judges, concurrency=concurrency, **patient)
        self.task = asyncio.ensure_future(
            editjudge.run_async(spec, out=out, settings=settings, progress=self.events.append)
        )

    @property
    def kinds(self) -> list[str]:
        return [event.event for event in self.events]

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, NoteEvent)]


@asynccontextmanager
async def open_unsettled_session(spec: RunSpec, out: Path) -> AsyncIterator[tuple[ProbedJudge, Session]]:
    """A session whose edits are answered and whose judge is not known yet."""
    server = ProbedJudge(waits=True)
    async with server.serving() as url:
        session = Session(spec, out, url)
        try:
            await until(lambda: server.edits == EDITS and replies(out) == EDITS)
            yield server, session
        finally:
            session.task.cancel()
            await asyncio.wait([session.task])


def replies(out: Path) -> int:
    with RunStore.open(out, read_only=True) as store:
        return count_replies(store.ledger)


def verdicts(out: Path) -> Mapping[str, tuple[float | None, str]]:
    with RunView(out) as view:
        return {
            one.item: (one.verdict.value if isinstance(one.verdict, Score) else None, one.signature)
            for one in view.verdicts()
        }


async def at_once(spec: RunSpec, out: Path, server: ProbedJudge) -> Session:
    async with server.serving() as url:
        session = Session(spec, out, url)
        await session.task
    return session


async def test_edits_are_asked_about_while_the_judge_is_not_known(spec: RunSpec, tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with open_unsettled_session(spec, out) as (server, session):
        assert server.probes == 1
        assert "started" not in session.kinds
        assert not verdicts(out)
        with RunStore.open(out, read_only=True) as store:
            assert not store.header.identities
        server.may_tell.set()
        result = await session.task
    assert result.status == "done"
    assert session.kinds.index("started") < session.kinds.index("finished")
    assert (server.probes, server.edits) == (1, EDITS)
    first = await at_once(spec, tmp_path / "other", ProbedJudge())
    assert first.task.result().status == "done"
    assert verdicts(out) == verdicts(tmp_path / "other")
    assert all("choices=top_logprobs" in signature for _, signature in verdicts(out).values())


@pytest.mark.parametrize(
    ("told", "choices"),
    [
        (reply("Yes"), "choices=sampled"),
        (problem(400, "logprobs is not supported"), "choices=sampled"),
        (problem(500, "broken"), ""),
    ],
)
async def test_signatures_say_what_the_judge_said_last(spec: RunSpec, tmp_path: Path, told: Any, choices: str) -> None:
    out = tmp_path / "run"
    async with open_unsettled_session(spec, out) as (server, session):
        server.told = told
        server.may_tell.set()
        assert (await session.task).status == "done"
    signatures = {signature for _, signature in verdicts(out).values()}
    assert all((choices or "choices=") in one for one in signatures) is bool(choices)
    assert {value for value, _ in verdicts(out).values()} == {4.0}
    # Whatever it was, the next session finds what stands.
    again = await at_once(spec, out, later := ProbedJudge(told))
    assert again.task.result().status == "done"
    assert later.edits == 0


async def test_what_a_judge_says_only_later_is_in_the_run_too(spec: RunSpec, tmp_path: Path) -> None:
    """All that it judged counts: its first question failed, and the next was answered."""
    data = tmp_path / "items.jsonl"
    line = {"instruction": "make it red", "source": "kris/count_change/1.jpg"}
    data.write_text("\n".join(json.dumps(line | {"id": f"{n}"}) for n in range(1, EDITS + 1)))
    outputs = {"ours": tmp_path / "ours" / "count_change"}
    named = ("core.instruction_following",)
    asked = RunSpec(benchmark="core", data=data, outputs=outputs, dimensions=named)
    server = FailsFirst()
    server.script = [None]
    session = await at_once(asked, tmp_path / "run", server)
    assert session.task.result().status == "done"
    assert server.probes == 2
    with RunView(tmp_path / "run") as view:
        (cell,) = (c for c in view.results().models["ours"].values() if c.asked)
    assert not cell.open_statuses, "all of it was judged, and stands"
    assert cell.counts == {"unscored": EDITS}  # `Yes` is none of its choices


class FailsFirst(ProbedJudge):
    """The first question of all fails, the next is answered."""

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if not self.probes and b"Is ice frozen water" in await request.read():
            self.probes += 1
            return web.json_response(problem(400, "still loading").body, status=400)
        return await super()._chat(request)


async def test_another_model_ends_the_run_with_one_line(spec: RunSpec, tmp_path: Path) -> None:
    async with (server := ProbedJudge(told_as="other")).serving() as url:
        session = Session(spec, tmp_path / "run", url, concurrency=1)
        assert (await session.task).status == "judge"
    assert (server.probes, server.edits) == (1, 0)
    assert len([note for note in session.notes if "'other' answered" in note]) == 1


async def test_what_the_named_model_said_before_another_one_did_stands(spec: RunSpec, tmp_path: Path) -> None:
    async with open_unsettled_session(spec, tmp_path / "run") as (server, session):
        server.told_as = "other"
        server.may_tell.set()
        assert (await session.task).status == "done"
    assert {value for value, _ in verdicts(tmp_path / "run").values()} == {4.0}
    session = await at_once(spec, tmp_path / "run", again := ProbedJudge())
    assert session.task.result().status == "done"
    assert again.edits == 0


async def test_a_key_that_is_refused_ends_the_run_with_one_line(spec: RunSpec, tmp_path: Path) -> None:
    server = ProbedJudge(problem(401, "no such key"))
    server.script = [problem(401, "no such key")]
    session = await at_once(spec, tmp_path / "run", server)
    assert session.task.result().status == "judge"
    assert len([note for note in session.notes if "no such key" in note]) == 1
    assert {value for value, _ in verdicts(tmp_path / "run").values()} == {None}


async def test_what_was_answered_before_a_kill_is_not_asked_again(spec: RunSpec, tmp_path: Path) -> None:
    out, killed = tmp_path / "run", tmp_path / "killed"
    async with open_unsettled_session(spec, out):
        shutil.copytree(out, killed)
    # One was interrupted, the other is what a process leaves that is gone at once.
    for folder in (out, killed):
        assert not verdicts(folder)
        session = await at_once(spec, folder, server := ProbedJudge())
        assert session.task.result().status == "done"
        assert (server.probes, server.edits) == (1, 0)
        assert len(verdicts(folder)) == EDITS


async def test_interrupted_before_the_judge_is_known_it_is_cancelled(spec: RunSpec, tmp_path: Path) -> None:
    async with open_unsettled_session(spec, tmp_path / "run") as (_, session):
        session.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await session.task
        assert "finished" not in session.kinds


async def test_where_verdicts_stand_the_judge_is_known_first(spec: RunSpec, tmp_path: Path) -> None:
    """Whether they stand depends on it."""
    out = tmp_path / "run"
    await at_once(spec.model_copy(update={"limit": 1}), out, ProbedJudge())
    async with (server := ProbedJudge(waits=True)).serving() as url:
        session = Session(spec, out, url, temperature=0.5)
        await until(lambda: server.probes)
        await asyncio.sleep(0.1)
        assert server.edits == 0
        server.may_tell.set()
        assert (await session.task).status == "done"
    assert server.edits == EDITS
