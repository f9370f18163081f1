"""What teams have used, as it is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError, StoreError
from editjudge.storage.accounts import AccountsFile, Used

DAY = ("2026-01-31", "vision")
NEXT = ("2026-02-01", "vision")
USED = Used(edits=1, calls=2, prompt_tokens=300, completion_tokens=7, cost=0.5, dearest=0.3)


def test_what_is_added_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "usage.sqlite"
    with AccountsFile(path) as file:
        file.add({DAY: USED})
        file.add({DAY: Used(refused=1, cost=0.25, dearest=0.25), NEXT: USED})
        with AccountsFile(path, read_only=True) as reader:
            assert reader.read() == file.read()
    with AccountsFile(path) as file:
        assert file.read(NEXT[0]) == {NEXT: USED}
        both = file.read()[DAY]
    assert both == USED + Used(refused=1, cost=0.25, dearest=0.25)
    assert (both.cost, both.dearest, both.tokens) == (0.75, 0.3, 307)


def test_all_is_added_or_nothing(tmp_path: Path) -> None:
    with AccountsFile(tmp_path / "usage.sqlite") as file:
        with pytest.raises(StoreError):
            file.add({DAY: USED, NEXT: Used(cost=None)})  # type: ignore[arg-type]
        assert file.read() == {}
        file.add({DAY: USED})
        assert file.read() == {DAY: USED}


def test_what_is_no_account_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(ConfigError, match="these are no accounts"):
        AccountsFile(other)
    damaged = tmp_path / "usage.sqlite"
    damaged.write_bytes(b"rubbish" * 999)
    with pytest.raises(StoreError, match="cannot be used"):
        AccountsFile(damaged)
    with pytest.raises(StoreError, match="cannot be used"):
        AccountsFile(tmp_path / "none.sqlite", read_only=True)
