from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from editjudge.errors import ConfigError
from editjudge.panel.prompt import Prompt, Text
from editjudge.run.ledger import Call, Ledger, Reply

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
