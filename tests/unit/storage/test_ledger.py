from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.errors import Abstention, ConfigError
from editjudge.base.identity import ServiceName
from editjudge.panel.calls import Call, Reply, SpecialistCall, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger
from editjudge.storage.schema import CALLS

from ...replies import count_replies

PROMPT = Prompt("judge", (Text("Is it "), Text("röd\u2028?", is_data=True)))
CALL = Call("judge(server=vllm)", PROMPT, {"choices": ["Yes", "No"]})
REPLY = Reply({"text": "Yes", "finish": "stop"}, "judge-1", Usage(10, 4, 1), 0.5)
OTHER_REPLY = Reply({"text": "No"}, "judge-2", Usage(1, 1, 1), None)
FEATURES = SpecialistCall(ServiceName("features", "dinov3"), "features_dinov3/1", {"IMAGE": "sha256:" + "ab" * 32})


def again(number: int) -> Call:
    """The same question once more."""
    return replace(CALL, repeat=number)


def embedding(*values: float) -> Reply:
    return Reply({"EMBEDDING": np.array(values, np.float32)})


async def test_a_reply_comes_back_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.sqlite"
    with Ledger(path) as ledger:
        assert await ledger.get(CALL) is None
        await ledger.put(CALL, REPLY)
        assert await ledger.get(CALL) == REPLY
    with Ledger(path, read_only=True) as ledger:
        assert await ledger.get(CALL) == REPLY
        assert count_replies(ledger) == 1
        prompt = ledger.get_prompt(PROMPT.digest)
        assert [part["text"] for part in prompt.parts] == ["Is it ", "röd\u2028?"]
        with pytest.raises(ConfigError, match="cannot be written"):
            await ledger.put(again(1), REPLY)


@pytest.mark.parametrize(
    ("asked", "changed"),
    [
        (CALL, {"judge": "judge(server=other)"}),
        (CALL, {"prompt": PROMPT.followed_by(Text("!"))}),
        (CALL, {"form": {"choices": ["No", "Yes"]}}),
        (CALL, {"repeat": 1}),
        (FEATURES, {"service": ServiceName("features", "dinov2")}),
        (FEATURES, {"identity": "features_dinov3/2"}),
        (FEATURES, {"inputs": {"IMAGE": "sha256:" + "cd" * 32}}),
        (FEATURES, {"inputs": {**FEATURES.inputs, "MASK": "sha256:" + "cd" * 32}}),
        (FEATURES, {"parameters": {"region": "zero"}}),
    ],
)
async def test_whatever_a_reply_depends_on_tells_calls_apart(
    ledger: Ledger, asked: Any, changed: dict[str, Any]
) -> None:
    await ledger.put(asked, REPLY if asked is CALL else embedding(1, 1))
    assert await ledger.get(replace(asked, **changed)) is None
    assert await ledger.get(replace(asked)) is not None


async def test_the_first_reply_stays(ledger: Ledger) -> None:
    await ledger.put(CALL, REPLY)
    assert await ledger.put(CALL, OTHER_REPLY) == REPLY
    assert await ledger.get(CALL) == REPLY


async def test_costs_are_those_of_all_calls_and_of_the_dearest(ledger: Ledger) -> None:
    assert ledger.costs == (0.0, 0.0)
    for repeat, cost in enumerate((0.5, None, 0.25)):
        await ledger.put(again(repeat), replace(REPLY, cost=cost))
    assert ledger.costs == (0.75, 0.5)


async def test_what_is_purged_is_gone_and_the_rest_answers(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    other = replace(CALL, prompt=Prompt("judge", (Text("a zeppelin?"),)))
    with Ledger(path) as ledger, Ledger(path) as service:
        await service.put(CALL, REPLY)
        await service.put(again(1), REPLY)
        between = time.time()
        await service.put(other, REPLY)
        await service.put(again(2), REPLY)
        await service.put(FEATURES, embedding(0))
        assert await ledger.purge(between) == 2
        assert await service.get(CALL) is None
        assert await service.get(other) == REPLY
        assert service.get_prompt(PROMPT.digest) is not None, "it was asked again"
        assert await service.get(FEATURES) is not None
        await service.put(CALL, REPLY)
        assert (await service.get_records([CALL.key]))[CALL.key].prompt == PROMPT.digest
        assert await ledger.purge(shrink=True) == 4
        assert b"zeppelin" not in path.read_bytes()
        assert count_replies(service) == 0


SECRETS = ("a secret system", "a secret schema", "a secret judge", "a secret model")


def secret(number: int) -> tuple[Call, Reply]:
    system, schema, judge, model = (f"{one} {number}." for one in SECRETS)
    asked = Call(judge, Prompt(system, ()), {"schema": {"title": schema}})
    return asked, replace(REPLY, model=model)


@pytest.mark.parametrize("shrink", [False, True])
async def test_nothing_of_what_was_purged_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shrink: bool
) -> None:
    monkeypatch.setattr("editjudge.storage.database._AT_A_TIME", 2)
    monkeypatch.setattr("editjudge.storage.compression.deflate", lambda data, _: data)  # to be seen
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        for number in range(4):
            await ledger.put(*secret(number))
        between = time.time()
        await ledger.put(*secret(4))
        assert await ledger.purge(between, shrink=shrink) == 4
        kept, reply = secret(4)
        assert await ledger.get(kept) == reply
        stored = path.read_bytes()
        for text in SECRETS:
            assert f"{text} 4.".encode() in stored
            assert not any(f"{text} {number}.".encode() in stored for number in range(4))
        assert await ledger.purge(shrink=shrink) == 1
    assert not any(text.encode() in path.read_bytes() for text in SECRETS)


async def test_a_service_that_knows_purged_texts_writes_them_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as service, Ledger(path) as ledger:
        first, other = secret(1), secret(2)
        await service.put(*first)
        assert await service.get(first[0]) == first[1]
        await ledger.purge()
        await ledger.put(*other)
        assert await service.get(other[0]) == other[1]
        await service.put(*first)
        for asked, reply in (first, other):
            for looking in (service, ledger):
                assert await looking.get(asked) == reply
                told = (await looking.get_records([asked.key]))[asked.key]
                assert (told.judge, told.model) == (asked.judge, reply.model)


def test_what_is_no_ledger(tmp_path: Path) -> None:
    text, newer = tmp_path / "text", tmp_path / "newer.sqlite"
    text.write_text("not a database, but long enough to look at it twice " * 10)
    with contextlib.closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 99")
    no_ledger = "give another file"
    for path, told in ((text, no_ledger), (tmp_path, no_ledger), (newer, "version 99")):
        with pytest.raises(ConfigError, match=told):
            Ledger(path)


def _write(path: Path, start: int) -> None:
    async def write() -> None:
        with Ledger(path) as ledger:
            for index in range(start, start + 40):
                await ledger.put(again(index), REPLY)

    asyncio.run(write())


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=_write, args=(path, start)) for start in (0, 20, 1000)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert [one.exitcode for one in others] == [0, 0, 0]
    with Ledger(path) as ledger:
        assert count_replies(ledger) == 100


async def test_outputs_are_the_same_the_first_time_and_later(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        assert await ledger.get(FEATURES) is None
        # Kept in half precision, and so returned.
        first = await ledger.put(FEATURES, embedding(*np.random.default_rng(0).normal(size=64)))
        again = [await ledger.put(FEATURES, embedding(1, 1))]
    with Ledger(path) as ledger:
        again.append(await ledger.get(FEATURES))  # type: ignore[arg-type]
        assert count_replies(ledger) == 1
    for each in again:
        np.testing.assert_array_equal(each.content["EMBEDDING"], first.content["EMBEDDING"])


async def test_an_abstention_is_kept(ledger: Ledger) -> None:
    abstained = Reply({"kind": "degenerate", "reason": "the mask is empty"})
    assert await ledger.put(FEATURES, abstained) == abstained
    assert await ledger.get(FEATURES) == abstained
    with pytest.raises(Abstention, match="the mask is empty") as caught:
        FEATURES.outputs(abstained)
    assert (caught.value.kind, caught.value.calls) == ("degenerate", (FEATURES.key,))


async def test_a_dropped_reply_can_be_made_again(ledger: Ledger) -> None:
    await ledger.put(CALL, REPLY)
    await ledger.put(again(1), REPLY)
    assert await ledger.drop([CALL.key, "sha256:" + "0" * 64]) == 1
    assert await ledger.get(CALL) is None
    assert await ledger.get(again(1)) == REPLY
    await ledger.put(CALL, OTHER_REPLY)
    assert await ledger.get(CALL) == OTHER_REPLY
    assert await ledger.drop([CALL.key]) == 1


async def test_dropped_outputs_do_not_come_back(tmp_path: Path) -> None:
    """Neither when they are asked for, nor in a copy, nor after others were stored."""
    with Ledger(tmp_path / "a.sqlite") as ledger, Ledger(tmp_path / "b.sqlite") as other:
        await ledger.put(FEATURES, embedding(1, 1))
        assert await ledger.drop([FEATURES.key]) == 1
        await ledger.put(CALL, REPLY)
        ledger.copy_to(other)
        assert other.get_prompt(PROMPT.digest) == ledger.get_prompt(PROMPT.digest)
        for each in (ledger, other):
            assert await each.get(FEATURES) is None
            assert await each.get_dropped_keys() == {FEATURES.key}
            put = await each.put(FEATURES, embedding(2, 2))
            assert put.content["EMBEDDING"].tolist() == [2, 2]
        with Ledger(tmp_path / "c.sqlite") as third:
            await third.put(FEATURES, embedding(3, 3))
            ledger.copy_to(third)
            kept = await third.get(FEATURES)
            assert kept.content["EMBEDDING"].tolist() == [3, 3], "the copy is there as dropped"


async def test_facts(ledger: Ledger) -> None:
    assert await ledger.get_fact("judge.method") is None
    await ledger.put_fact("judge.method", "sampled")
    await ledger.put_fact("judge.method", "logprobs")
    assert await ledger.get_fact("judge.method") == "logprobs"


async def test_broken_text_of_a_server_is_kept(ledger: Ledger) -> None:
    reply = Reply({"text": "half of \ud83d"}, "judge-\ud800", Usage(1, 0, 1), None)
    await ledger.put(CALL, reply)
    assert await ledger.get(CALL) == reply


async def test_what_was_said(ledger: Ledger) -> None:
    few = SpecialistCall(ServiceName("lpips", "vgg"), "lpips_vgg/1", {})
    await ledger.put(CALL, REPLY)
    await ledger.put(FEATURES, embedding(*range(64)))
    await ledger.put(few, Reply({"DISTANCE": np.ones(1, np.float32), "TEXT": b"ab"}))
    said = await ledger.get_records([CALL.key, "sha256:" + "0" * 64, FEATURES.key, few.key])
    assert list(said) == [CALL.key, FEATURES.key, few.key]
    assert said[CALL.key].model_dump() == {
        "call": CALL.key,
        "judge": "judge(server=vllm)",
        "model": "judge-1",
        "prompt": PROMPT.digest,
        "reply": {"text": "Yes", "finish": "stop"},
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 1,
        "cost": 0.5,
    }
    assert said[FEATURES.key].reply == {"EMBEDDING": {"shape": [64]}}
    assert said[few.key].reply == {"DISTANCE": [1.0], "TEXT": {"bytes": 2}}
    assert (said[few.key].judge, said[few.key].prompt) == ("lpips_vgg/1", None)


async def test_calls_that_a_gateway_made_are_stored(ledger: Ledger) -> None:
    with Ledger() as gateway:
        await gateway.put(CALL, REPLY)
        await gateway.put(FEATURES, embedding(*range(64)))
        records = await gateway.get_records([CALL.key, FEATURES.key])
    await ledger.put_records(records.values())
    # Without what they cost, which is spent there, and without what specialists said.
    stored = records[CALL.key].model_copy(update={"cost": None})
    assert await ledger.get_records([*records]) == {CALL.key: stored}


async def test_a_busy_file_holds_up_its_writer_and_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writing = [asyncio.ensure_future(ledger.put(again(i), REPLY)) for i in range(3)]
            for _ in range(100):  # the loop goes on
                await asyncio.sleep(0)
            assert not any(one.done() for one in writing)
            writing[1].cancel()
            other.execute("ROLLBACK")
        await asyncio.gather(*writing, return_exceptions=True)
    with Ledger(path) as ledger:
        assert count_replies(ledger) == 3  # what was paid for is kept, whoever still waited for it
        rows = ledger._database.rows(CALLS, "ORDER BY id")
        assert [row[2].hex() for row in rows] == [again(i).key[7:] for i in range(3)]


async def test_no_team_reads_what_another_has(ledger: Ledger) -> None:
    red, blue = ledger.for_team("red"), ledger.for_team("blue")
    await red.put(CALL, REPLY)
    assert await blue.get(CALL) is None
    async with blue.claim(CALL) as stored:
        assert stored is None
        assert await blue.get_records([CALL.key]) == {}
        assert await blue.drop([CALL.key]) == 0
        await blue.put(CALL, OTHER_REPLY)
    assert await red.get(CALL) == REPLY
    assert await red.drop([CALL.key]) == 1
    assert await red.get(CALL) is None
    assert await blue.get(CALL) == OTHER_REPLY


async def test_a_team_is_purged_alone(ledger: Ledger) -> None:
    red, blue = ledger.for_team("red"), ledger.for_team("blue")
    await red.put(CALL, REPLY)
    await blue.put(CALL, REPLY)
    assert await red.count_by_team() == {"red": 1, "blue": 1}
    assert await blue.purge(team="red") == 1
    assert await red.get(CALL) is None
    assert await blue.get(CALL) == REPLY
    assert (count_replies(red), count_replies(blue)) == (0, 1)


async def test_a_second_reply_is_counted(ledger: Ledger) -> None:
    await ledger.put(CALL, REPLY)
    await ledger.put(again(1), REPLY)
    await ledger.put(FEATURES, embedding(1, 1))
    assert ledger.repeated_count == 0
    async with ledger.claim(CALL) as stored:
        assert stored == REPLY
    other = ledger.for_team(ledger.team)
    await other.put(CALL, REPLY)
    await other.put(FEATURES, embedding(1, 1))
    assert (ledger.repeated_count, other.repeated_count) == (0, 2)
