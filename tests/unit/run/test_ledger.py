from __future__ import annotations

import json
import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from editjudge.errors import Abstained, ConfigError, StoreError
from editjudge.panel.prompt import Prompt, Text
from editjudge.run.ledger import Call, Ledger, Reply, SpecialistCall

PROMPT = Prompt("judge", (Text("Is it "), Text("röd\u2028?", data=True)))
REPLY = Reply({"text": "Yes", "finish": "stop"}, "judge-1", 10, 4, 1, 1, 0.5, 0.25)


def call(**changed: object) -> Call:
    given = {"judge": "judge(server=vllm)", "prompt": PROMPT, "form": {"choices": ["Yes", "No"]}}
    return Call(**{**given, **changed})  # type: ignore[arg-type]


def test_a_reply_comes_back_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.sqlite"
    with Ledger(path) as ledger:
        assert ledger.get(call()) is None
        ledger.put(call(), REPLY)
        assert ledger.get(call()) == REPLY
    with Ledger(path) as ledger:
        assert ledger.get(call()) == REPLY
        assert ledger.count == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"judge": "judge(server=other)"},
        {"prompt": PROMPT.followed_by(Text("!"))},
        {"form": {"choices": ["No", "Yes"]}},
        {"repeat": 1},
    ],
    ids=["judge", "prompt", "form", "repeat"],
)
def test_whatever_a_reply_depends_on_tells_calls_apart(changed: dict[str, object]) -> None:
    with Ledger() as ledger:
        ledger.put(call(), REPLY)
        assert ledger.get(call(**changed)) is None


def test_the_first_reply_stays() -> None:
    with Ledger() as ledger:
        ledger.put(call(), REPLY)
        ledger.put(call(), Reply({"text": "No"}, "judge-2", 1, 1, 1, 1, None, 1))
        assert ledger.get(call()) == REPLY


def test_what_is_no_ledger(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to look at it twice " * 10)
    with pytest.raises(ConfigError, match="give another file"):
        Ledger(text)
    with pytest.raises(ConfigError, match="give another file"):
        Ledger(tmp_path)
    newer = tmp_path / "newer.sqlite"
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="version 99"):
        Ledger(newer)


def _write(path: Path, start: int) -> None:
    with Ledger(path) as ledger:
        for index in range(start, start + 40):
            ledger.put(call(repeat=index), REPLY)


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=_write, args=(path, start)) for start in (0, 20, 1000)]
    for one in others:
        one.start()
    for one in others:
        one.join()
        assert one.exitcode == 0
    with Ledger(path) as ledger:
        assert ledger.count == 100


FEATURES = SpecialistCall("features.dinov3", "features_dinov3/1", {"IMAGE": "sha256:" + "ab" * 32})


def test_outputs_are_the_same_the_first_time_and_later(tmp_path: Path) -> None:
    given = {"EMBEDDING": np.random.default_rng(0).normal(size=64).astype(np.float32)}
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        assert ledger.outputs(FEATURES) is None
        first = ledger.keep_outputs(FEATURES, given, 0.5)
        other = ledger.keep_outputs(FEATURES, {"EMBEDDING": np.ones(64, np.float32)}, 0.5)
        np.testing.assert_array_equal(first["EMBEDDING"], other["EMBEDDING"])
    with Ledger(path) as ledger:
        later = ledger.outputs(FEATURES)
        assert later is not None
        np.testing.assert_array_equal(later["EMBEDDING"], first["EMBEDDING"])
        assert ledger.count == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"service": "features.dinov2"},
        {"identity": "features_dinov3/2"},
        {"inputs": {"IMAGE": "sha256:" + "cd" * 32}},
        {"inputs": {**FEATURES.inputs, "MASK": "sha256:" + "cd" * 32}},
        {"parameters": {"region": "zero"}},
    ],
    ids=["service", "identity", "image", "mask", "parameters"],
)
def test_whatever_outputs_depend_on_tells_calls_apart(changed: dict[str, object]) -> None:
    given = {name: getattr(FEATURES, name) for name in FEATURES.__dataclass_fields__}
    with Ledger() as ledger:
        ledger.keep_outputs(FEATURES, {"EMBEDDING": np.ones(2, np.float32)}, 0)
        assert ledger.outputs(SpecialistCall(**{**given, **changed})) is None
        assert ledger.outputs(SpecialistCall(**given)) is not None


def test_an_abstention_is_kept() -> None:
    with Ledger() as ledger:
        raised = ledger.keep_abstention(FEATURES, "degenerate", "the mask is empty", 0.1)
        with pytest.raises(Abstained, match="the mask is empty") as caught:
            ledger.outputs(FEATURES)
        assert caught.value.kind == raised.kind == "degenerate"
        assert caught.value.evidence == raised.evidence == {"call": FEATURES.key}


def test_a_dropped_reply_can_be_made_again() -> None:
    second = Reply({"text": "No"}, "judge-1", 1, 1, 1, 1, None, 1)
    with Ledger() as ledger:
        ledger.put(call(), REPLY)
        ledger.put(call(repeat=1), REPLY)
        assert ledger.drop([call().key, "sha256:" + "0" * 64]) == 1
        assert ledger.get(call()) is None
        assert ledger.get(call(repeat=1)) == REPLY
        assert ledger.count == 1
        ledger.put(call(), second)
        assert ledger.get(call()) == second
        assert ledger.drop([call().key]) == 1


def test_facts() -> None:
    with Ledger() as ledger:
        assert ledger.fact("judge.method") is None
        ledger.keep_fact("judge.method", "sampled")
        ledger.keep_fact("judge.method", "logprobs")
        assert ledger.fact("judge.method") == "logprobs"


def test_broken_text_of_a_server_is_kept() -> None:
    reply = Reply({"text": "half of \ud83d"}, "judge-\ud800", 1, 0, 1, 1, None, 1)
    with Ledger() as ledger:
        ledger.put(call(), reply)
        assert ledger.get(call()) == reply


def _version_1(path: Path, *calls: tuple[Call, Reply]) -> None:
    """A file as the first version wrote it."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE prompts (
            digest TEXT PRIMARY KEY, system TEXT NOT NULL, parts TEXT NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE calls (
            key TEXT PRIMARY KEY, judge TEXT NOT NULL,
            prompt TEXT NOT NULL REFERENCES prompts (digest), form TEXT NOT NULL,
            repeat INTEGER NOT NULL, reply TEXT NOT NULL, model TEXT NOT NULL,
            prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
            completion_tokens INTEGER NOT NULL, attempts INTEGER NOT NULL, cost REAL,
            seconds REAL NOT NULL, made REAL NOT NULL
        ) WITHOUT ROWID;
        PRAGMA user_version = 1;
        """
    )
    for one, reply in calls:
        parts = json.dumps([{"text": part.text, "data": part.data} for part in one.prompt.parts])
        digest = one.prompt.digest
        db.execute(
            "INSERT OR IGNORE INTO prompts VALUES (?, ?, ?)", (digest, one.prompt.system, parts)
        )
        form = json.dumps(one.form, sort_keys=True)
        content = json.dumps(reply.content, sort_keys=True)
        row = (one.key, one.judge, digest, form, one.repeat, content, reply.model)
        rest = (
            reply.prompt_tokens,
            reply.cached_tokens,
            reply.completion_tokens,
            reply.attempts,
            reply.cost,
            reply.seconds,
            1.7e9,
        )
        marks = ", ".join("?" * 14)
        db.execute(f"INSERT INTO calls VALUES ({marks})", row + rest)  # noqa: S608
    db.commit()
    db.close()


def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    other = Reply({"text": "Nej, \u00e4ndrad"}, "judge-2", 1, 0, 2, 3, None, 1.5)
    _version_1(path, (call(), REPLY), (call(repeat=1), other))
    for _ in range(2):
        with Ledger(path) as ledger:
            assert ledger.count == 2
            assert ledger.get(call()) == REPLY
            assert ledger.get(call(repeat=1)) == other
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert not any(name.endswith("_1") and "autoindex" not in name for name in tables)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    _version_1(path, (call(), REPLY))
    db = sqlite3.connect(path)
    db.execute("UPDATE calls SET reply = 'no JSON'")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="cannot be brought up to date"):
        Ledger(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT reply FROM calls").fetchall() == [("no JSON",)]
    assert db.execute("PRAGMA user_version").fetchone() == (1,)
    db.close()
