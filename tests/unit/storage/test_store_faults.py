from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.errors import ConfigError, EditjudgeError, StoreError
from editjudge.engine.content_keys import JudgedEdit
from editjudge.storage.schema import VERSION
from editjudge.storage.store import FILE, RunStore

from ...patience import wait_until
from .small_store import HEADER, SIGNATURES, header, make_run, make_score, put


def write(to: Any, folder: Path, start: int, limit: int) -> None:
    """Store edits and tell each, until the process ends or the file has so many bytes."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        with RunStore.open(folder, HEADER) as store:
            for index in range(start, 1_000_000):
                verdict = make_score(index, x="y" * (index % 500))
                put(store, str(index), dict.fromkeys(SIGNATURES, verdict))
                to.send(index)
    except EditjudgeError as error:
        to.send((error.exit_code, str(error)))


@contextlib.contextmanager
def writer(folder: Path, start: int = 0, limit: int = 0) -> Iterator[Any]:
    """What a process tells that writes; it is killed at the end."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=write, args=(theirs, folder, start, limit))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def rest(of: Any) -> list[Any]:
    said = []
    with contextlib.suppress(EOFError):
        while True:
            said.append(of.recv())
    return said


def list_whole_items(folder: Path) -> set[int]:
    """The items of a run; each has all its verdicts or none."""
    found: dict[int, list[float | None]] = {}
    with RunStore.open(folder) as store:
        for one in store.verdicts():
            found.setdefault(int(one.item), []).append(one.verdict.value)
        assert store.database.query_row("PRAGMA integrity_check") == ("ok",)
    assert found == {item: [item] * len(SIGNATURES) for item in found}
    return {*found}


def test_a_killed_writer_leaves_what_it_reported(tmp_path: Path) -> None:
    moments = random.Random(1)
    reported: set[int] = set()
    for _ in range(4):
        with writer(tmp_path, start=len(reported)) as pipe:
            reported.add(pipe.recv())
            time.sleep(moments.uniform(0, 0.2))
        reported.update(rest(pipe))
        found = list_whole_items(tmp_path)
        assert reported <= found
        assert len(found - reported) <= 1
        reported = found
    assert len(reported) > 20


def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    with writer(tmp_path, limit=600_000) as pipe:
        *reported, (exit_code, error) = rest(pipe)
    assert exit_code == 1
    assert error.startswith(f"{tmp_path / FILE}: the disk is full")
    assert "free space on its disk" in error
    assert len(reported) > 20
    assert {*reported} == list_whole_items(tmp_path)
    with writer(tmp_path, start=len(reported)) as pipe:  # room was made
        pipe.recv()
    assert list_whole_items(tmp_path) > {*reported}


def test_a_run_goes_on_where_room_was_made(store: RunStore, tmp_path: Path) -> None:
    (pages,) = store.database.query_row("PRAGMA page_count") or (0,)
    store.database.run(f"PRAGMA max_page_count = {pages + 3}")
    count = 0
    with pytest.raises(StoreError, match="the disk is full") as caught:  # noqa: PT012
        while True:
            put(store, f"item-{count}", {"core.a": make_score(1, text=random.randbytes(500).hex())})
            count += 1
    assert caught.value.exit_code == 1
    assert str(tmp_path / FILE) in str(caught.value)
    assert len(list(store.verdicts())) == count > 0
    store.database.run(f"PRAGMA max_page_count = {2**30}")
    put(store, f"item-{count}", {"core.a": make_score(1)})
    assert len(list(store.verdicts())) == count + 1


def test_a_second_process_is_refused_and_may_read(tmp_path: Path) -> None:
    with writer(tmp_path) as pipe:
        pipe.recv()
        for given in (None, header()):
            with pytest.raises(ConfigError, match="is in use by another process"):
                RunStore.open(tmp_path, given)
        with RunStore.open(tmp_path, read_only=True) as store:
            before = len(list(store.verdicts()))
            assert before >= len(SIGNATURES)
            wait_until(lambda: len(list(store.verdicts())) > before)
            with pytest.raises(ConfigError, match="cannot be written"):
                store.save_edit_now(JudgedEdit("new", "m"))
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
    make_run(folder / "run", one={"core.a": make_score(1)})
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
        assert [one.verdict for one in store.verdicts()] == [make_score(1)]
        assert store.header == HEADER
    with pytest.raises(ConfigError, match="Permission"):
        RunStore.open(locked_down / "inner", HEADER)


def test_a_file_of_a_newer_version(tmp_path: Path) -> None:
    make_run(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    told = rf"version {VERSION + 1}, this editjudge reads {VERSION}.*newer"
    for read_only in (False, True):
        with pytest.raises(ConfigError, match=told):
            RunStore.open(tmp_path, read_only=read_only)


def test_nothing_depends_on_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    with RunStore.open(tmp_path, header(created="2099-01-01T00:00:00+00:00")) as store:
        for name in ("c", "a", "b"):
            put(store, name, {"core.a": make_score(1)})
    with RunStore.open(tmp_path, HEADER) as store:
        assert store.header.created == "2099-01-01T00:00:00+00:00"
        assert [one.item for one in store.edits()] == ["c", "a", "b"]


def test_somebody_elses_database_stays_as_it_is(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("CREATE TABLE theirs (x)")
        for read_only in (False, True):
            with pytest.raises(ConfigError, match="no ledger and no run"):
                RunStore.open(tmp_path, None if read_only else HEADER, read_only=read_only)
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
