from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError, StoreError
from editjudge.engine.content_keys import JudgedEdit
from editjudge.storage.schema import VERSION
from editjudge.storage.store import FILE, RunStore

from ...patience import patience, wait_until
from .stored import HEADER, header, made, put, scored

WRITER = """
import resource, sys
from pathlib import Path
from editjudge.base.errors import EditjudgeError
from editjudge.base.file_states import FileState
from editjudge.engine.content_keys import JudgedEdit
from editjudge.engine.run_header import RunHeader
from editjudge.storage.store import RunStore
from editjudge.base.verdict import Score

folder, start, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
header = RunHeader(benchmark="b", protocol="b.1", data="d", data_digest="x",
                   outputs={"m": "o"}, dimensions=("a", "b", "c"))
signatures = {"a": "1", "b": "2", "c": "3"}
try:
    with RunStore.open(folder, header) as store:
        for index in range(start, 1_000_000):
            edit = JudgedEdit(f"item-{index}", "m", FileState(bytes(8), f"digest {index}"))
            verdicts = {name: Score(value=index, evidence={"x": "y" * (index % 500)})
                        for name in signatures}
            store.save_edit_now(edit, verdicts, signatures)
            sys.stdout.write(f"{index}\\n")
            sys.stdout.flush()
except EditjudgeError as error:
    sys.stdout.write(f"{error.exit_code} {error}\\n")
    sys.exit(error.exit_code)
"""


def writer(folder: Path, start: int, limit: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(start), str(limit)],
        stdout=subprocess.PIPE,
        text=True,
    )


def kept(folder: Path) -> set[int]:
    """The items of a run; each has all its verdicts or none."""
    found: dict[str, list[float]] = {}
    with RunStore.open(folder) as store:
        for one in store.verdicts():
            found.setdefault(one.item, []).append(getattr(one.verdict, "value", -1))
        (intact,) = store.database.query_row("PRAGMA integrity_check") or ("",)
    assert intact == "ok"
    for item, values in found.items():
        assert values == [int(item.removeprefix("item-"))] * 3
    return {int(item.removeprefix("item-")) for item in found}


def test_a_killed_writer_leaves_what_it_reported(tmp_path: Path) -> None:
    moments = random.Random(1)
    reported: set[int] = set()
    for _ in range(4):
        process = writer(tmp_path / "run", start=len(reported))
        assert process.stdout is not None
        reported.add(int(process.stdout.readline()))
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        rest, _ = process.communicate()
        # A line that was cut by the end of the process says nothing.
        reported |= {int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")}
        found = kept(tmp_path / "run")
        assert reported <= found
        assert len(found - reported) <= 1
        reported = found
    assert len(reported) > 20


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = writer(folder, start=0, limit=600_000)
    said, _ = process.communicate(timeout=patience(60))
    *reported, error = said.splitlines()
    assert process.returncode == 1
    assert error.startswith(f"1 {folder / FILE}: the disk is full")
    assert "free space on its disk" in error
    assert len(reported) > 20
    assert {int(line) for line in reported} == kept(folder)
    process = writer(folder, start=len(reported))  # room was made
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert kept(folder) > {int(line) for line in reported}


def test_a_run_goes_on_where_room_was_made(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER) as store:
        (pages,) = store.database.query_row("PRAGMA page_count") or (0,)
        store.database.run(f"PRAGMA max_page_count = {pages + 3}")
        count = 0
        with pytest.raises(StoreError, match="the disk is full") as caught:  # noqa: PT012
            while True:
                put(store, f"item-{count}", {"core.a": scored(1, text=random.randbytes(500).hex())})
                count += 1
        assert caught.value.exit_code == 1
        assert str(tmp_path / FILE) in str(caught.value)
        assert len(list(store.verdicts())) == count > 0
        store.database.run(f"PRAGMA max_page_count = {2**30}")
        put(store, f"item-{count}", {"core.a": scored(1)})
        assert len(list(store.verdicts())) == count + 1


def test_a_second_process_is_refused_and_may_read(tmp_path: Path) -> None:
    process = writer(tmp_path, start=0)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        for given in (None, header()):
            with pytest.raises(ConfigError, match="is in use by another process"):
                RunStore.open(tmp_path, given)
        with RunStore.open(tmp_path, read_only=True) as store:
            before = len(list(store.verdicts()))
            assert before >= 3
            wait_until(lambda: len(list(store.verdicts())) > before)
            with pytest.raises(ConfigError, match="cannot be written"):
                store.save_edit_now(JudgedEdit("new", "m"))
    finally:
        process.kill()
        process.communicate()
    with RunStore.open(tmp_path) as store:
        assert len(list(store.verdicts())) > before


def test_a_closed_run_is_free(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, HEADER):
        with pytest.raises(ConfigError, match="in use"):
            RunStore.open(tmp_path)
    with pytest.raises(ConfigError, match="not other"):
        RunStore.open(tmp_path, header(benchmark="other")).close()
    RunStore.open(tmp_path).close()


@pytest.fixture
def locked_down() -> Iterator[Path]:
    """A folder that its files' reader may not write to, however privileged the tests are."""
    folder = Path(tempfile.mkdtemp())
    made(folder / "run", one={"core.a": scored(1)})
    for path in (folder / "run").iterdir():
        path.chmod(0o444)
    (folder / "run").chmod(0o555)
    folder.chmod(0o755)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    yield folder / "run"
    if privileged:
        os.seteuid(0)
    (folder / "run").chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written(locked_down: Path) -> None:
    with pytest.raises(ConfigError, match=r"run.*(Permission|writ)"):
        RunStore.open(locked_down)
    with RunStore.open(locked_down, read_only=True) as store:
        assert [one.verdict for one in store.verdicts()] == [scored(1)]
        assert store.header == HEADER
    with pytest.raises(ConfigError, match="Permission"):
        RunStore.open(locked_down / "inner", HEADER)


def test_a_file_of_a_newer_version(tmp_path: Path) -> None:
    made(tmp_path)
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    told = rf"version {VERSION + 1}, this editjudge reads {VERSION}.*newer"
    for read_only in (False, True):
        with pytest.raises(ConfigError, match=told):
            RunStore.open(tmp_path, read_only=read_only)


@pytest.mark.parametrize("share", [0.0005, 0.3, 0.7, 0.99])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    items = {f"i{n}": {"core.a": scored(n, text="x" * 500 + str(n))} for n in range(300)}
    made(tmp_path, **items)  # type: ignore[arg-type]
    file = tmp_path / FILE
    with file.open("r+b") as stream:
        stream.truncate(int(file.stat().st_size * share))
    for read_only in (False, True):
        with pytest.raises((StoreError, ConfigError), match=f"{FILE}: .*(damaged|no run)"):
            RunStore.open(tmp_path, read_only=read_only)


def test_a_file_of_which_half_is_damaged(tmp_path: Path) -> None:
    items = {f"i{n}": {"core.a": scored(n, text="x" * 500 + str(n))} for n in range(300)}
    made(tmp_path, **items)  # type: ignore[arg-type]
    file = tmp_path / FILE
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        stream.write(b"\xff" * (file.stat().st_size // 2))
    with pytest.raises(StoreError, match="damaged"):
        RunStore.open(tmp_path)
    with RunStore.open(tmp_path, only_header=True) as store:
        with pytest.raises(StoreError, match="damaged"):
            list(store.verdicts())


def test_nothing_depends_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    with RunStore.open(tmp_path, header(created="2099-01-01T00:00:00+00:00")) as store:
        for name in ("c", "a", "b"):
            put(store, name, {"core.a": scored(1)})
    with RunStore.open(tmp_path, HEADER) as store:
        assert store.header.created == "2099-01-01T00:00:00+00:00"
        assert [one.item for one in store.edits()] == ["c", "a", "b"]


def test_somebody_elses_database_stays_as_it_is(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    for read_only in (False, True):
        with pytest.raises(ConfigError, match="no ledger and no run"):
            RunStore.open(tmp_path, None if read_only else HEADER, read_only=read_only)
    db = sqlite3.connect(tmp_path / FILE)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    db.close()
