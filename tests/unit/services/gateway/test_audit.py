"""The lines of an audit log are deleted by team and day, whatever else happens to the file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError, StoreError
from editjudge_services.gateway import audit
from editjudge_services.gateway.audit import AuditLog, count_lines, delete_lines, find_logs


def line_of(team: str, day: int = 1, request: str = "1") -> str:
    return f'{{"time": "2026-11-{day:02}T13:40:07.512+00:00", "team": "{team}", "n": {request}}}\n'


A, B, OLD, CUT = line_of("a"), line_of("b", 2), line_of("a", 9)[:-4], line_of("a")[:60]


@pytest.mark.parametrize(
    ("lines", "team", "day", "left"),
    [
        ([A, B, A], "a", None, [B]),
        ([A, B, A], "b", None, [A, A]),
        ([A, B, A], "A", None, [A, B, A]),
        ([line_of("a.b"), line_of("aXb")], "a.b", None, [line_of("aXb")]),
        ([A, B], None, "2026-11-02", [B]),
        ([A, B], "b", "2026-11-02", [A, B]),
        ([A, B], None, "2026-11-01", [A, B]),
        ([A, B], None, None, []),
        ([], "a", None, []),
        # A full disk cut a line, and the next one followed it.
        ([CUT + B, B], "a", None, [B]),
        ([CUT + B, B], "b", None, []),
        ([CUT[10:] + B, B], None, "2026-11-02", [B]),
        ([B, CUT], "a", None, [B]),
    ],
)
def test_lines_are_deleted_by_team_and_day(
    tmp_path: Path, lines: list[str], team: str | None, day: str | None, left: list[str]
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(lines))
    path.chmod(0o640)
    assert delete_lines(path, team, day) == len(lines) - len(left)
    assert path.read_text() == "".join(left)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [*path.parent.glob("*audit*")] == [path]


def test_lines_that_are_written_meanwhile_stay(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log, count = AuditLog(path), 2000
    writer = threading.Thread(target=lambda: [log.write(line_of("ab"[n % 2], 1, str(n)).rstrip) for n in range(count)])
    writer.start()
    deleted = 0
    while writer.is_alive():
        deleted += delete_lines(path, "a", None)
    writer.join()
    deleted += delete_lines(path, "a", None)
    assert deleted == count // 2
    assert path.read_text() == "".join(line_of("b", 1, str(n)) for n in range(1, count, 2))


def test_a_file_that_is_replaced_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rotated = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    path.write_text(A + B)

    def rotate(_: int) -> None:
        if not rotated.exists():
            path.rename(rotated)
            path.write_text(B)

    def purge_too(_: int) -> None:
        for unfinished in tmp_path.glob(".audit.jsonl.*"):
            unfinished.unlink()

    for meanwhile, told in ((rotate, "moved away meanwhile; ask again"), (purge_too, "No such")):
        with monkeypatch.context() as patched:
            patched.setattr(audit.os, "fsync", meanwhile)
            with pytest.raises(StoreError, match=told):
                delete_lines(path, "b", None)
    assert (path.read_text(), rotated.read_text()) == (B, A + B)


def test_a_purge_that_is_killed_leaves_the_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text(A + B)
    (tmp_path / ".audit.jsonl.1.purge").write_text(A)  # of one that SIGKILL ended

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(audit.os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            delete_lines(path, "a", None)
    assert path.read_text() == A + B
    assert delete_lines(path, "a", None) == 1
    assert [(each, each.read_text()) for each in tmp_path.glob("*audit*")] == [(path, B)]


def test_rotated_logs_are_found_and_what_is_none_is_told(tmp_path: Path) -> None:
    names = ("audit.jsonl", "audit.jsonl-20261122", "audit.jsonl.1")
    for name in names:
        (tmp_path / name).write_text(A)
    (tmp_path / "audit.jsonl.2.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "audit.jsonl.json").write_text('{\n  "name": "of something else"\n}\n')
    (tmp_path / "other.jsonl").write_text(A)
    (tmp_path / "audit.jsonl.d").mkdir()
    readable, others = find_logs([tmp_path / "audit.jsonl"])
    assert [path.name for path in readable] == [*names]
    assert [path.name for path in others] == ["audit.jsonl.2.gz", "audit.jsonl.json"]
    assert sum(map(count_lines, readable), count_lines(readable[0])) == {"a": 4}
    with pytest.raises(ConfigError, match="there is no such file"):
        find_logs([tmp_path / "none.jsonl"])
