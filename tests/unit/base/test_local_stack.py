"""Where the local stack keeps its state, and that it is nobody else's to read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from editjudge.base import local_stack
from editjudge.base.local_stack import private, private_state_dir


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_the_users_state_folder_is_closed_also_where_it_was_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDITJUDGE_STATE_DIR", raising=False)
    monkeypatch.setattr(local_stack, "user_state_path", lambda name: tmp_path / name)
    assert mode(private_state_dir()) == 0o700
    (tmp_path / "editjudge").chmod(0o755)
    assert mode(private_state_dir()) == 0o700


@pytest.mark.usefixtures("umask")
def test_a_folder_that_somebody_named_stays_as_it_is_and_logs_in_it_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path))
    assert mode(private_state_dir()) == 0o755
    with open(tmp_path / "triton.log", "ab", opener=private):
        assert mode(tmp_path / "triton.log") == 0o600
    monkeypatch.setenv("EDITJUDGE_STATE_DIR", str(tmp_path / "new"))
    assert mode(private_state_dir()) == 0o700
