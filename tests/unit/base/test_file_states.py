"""Files that are what they were, told without reading them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from editjudge.base import file_states
from editjudge.base.digest import content_digest
from editjudge.base.file_states import ABSENT, SETTLING_TIME, STAT, FileRead, FileStates, stat_of

DAY = 86_400 * 10**9


def at_rest(path: Path) -> int:
    """A moment at which the file has long been as it is, in nanoseconds."""
    return path.stat().st_ctime_ns + SETTLING_TIME


def test_a_stat_is_of_what_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("a")
    assert stat_of(tmp_path / "link") == stat_of(tmp_path / "a")
    assert len(stat_of(tmp_path / "a")) == len(ABSENT) == STAT


@pytest.mark.parametrize("name", ["none", "folder", "broken", "a\0b"])
def test_what_is_no_file_has_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").symlink_to("none")
    assert stat_of(str(tmp_path / name)) == ABSENT
    assert FileStates().get_state(str(tmp_path / "folder")) is None


def test_another_file_has_another(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.write_bytes(b"1")
        os.utime(path, ns=(0, 0))
    assert stat_of(first) != stat_of(second)
    before = stat_of(first)
    second.replace(first)
    assert stat_of(first) != before


def test_times_of_what_had_just_changed_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"1")
    now = rest = at_rest(file)
    monkeypatch.setattr(file_states, "time_ns", lambda: now)
    assert FileRead(str(file)).stat() == stat_of(file)
    now = rest - 1
    assert FileRead(str(file)).stat() == ABSENT
    now = rest + DAY
    reading = FileRead(str(file))
    os.utime(file, ns=(0, 0))
    assert reading.stat() == ABSENT, "it changed while it was read"
    assert FileRead(str(tmp_path / "none")).stat() == ABSENT


def test_a_file_is_read_again_only_where_it_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"1")
    other.write_bytes(b"2")
    read: list[str] = []
    digest = file_states.file_digest
    monkeypatch.setattr(file_states, "file_digest", lambda path: [read.append(path), digest(path)][1])
    now = at_rest(other)
    monkeypatch.setattr(file_states, "time_ns", lambda: now)
    known = FileStates()
    first = known.get_state(str(file))
    assert first == known.get_state(str(file)) == (stat_of(file), content_digest(b"1"))
    assert len(read) == 1
    other.replace(file)
    second = known.get_state(str(file))
    assert second is not None
    assert second.digest == content_digest(b"2")

    now = file.stat().st_ctime_ns + SETTLING_TIME - 1
    young = FileStates()
    for _ in range(2):
        assert young.get_state(str(file)) == (ABSENT, content_digest(b"2"))
    assert len(read) == 4
