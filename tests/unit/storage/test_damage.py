"""A damaged file is refused in one line, or says what it said: never another number."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import marshal
import random
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError, EditjudgeError, StoreError
from editjudge.engine.content_keys import FileCache, FileContent
from editjudge.storage.schema import checksum
from editjudge.storage.store import FILE, RunStore

from ...replies import count_replies
from .small_store import CONTENT, HEADER, LOST, SIGNATURES, UNREAD, ask, digest, make_run, make_score, put, reply

DAMAGES = 300
EDITS = 24


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that a run can have."""
    folder = tmp_path_factory.mktemp("whole")

    async def fill_store(store: RunStore) -> None:
        for index in range(EDITS):
            await store.ledger.put(ask(index), reply(f"It is {index}", 0.01))
            verdict = make_score(index / 7, why="so " * index)
            verdict = verdict.model_copy(update={"calls": (ask(index).key,)})
            other = (UNREAD, LOST, make_score(index))[index % 3]
            both = {"core.a": verdict, "core.b": other}
            put(store, f"item {index}", both, content=CONTENT)
        put(store, "item 1", {"core.a": make_score(7)})
        content = FileContent(bytes(8), bytes(16))
        store.save_contents([], FileCache({1: content}, digest("data"), bytes(16)), {})
        await store.ledger.put_fact("choices of judge", "logprobs")

    with RunStore.open(folder, HEADER) as store:
        asyncio.run(fill_store(store))
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return folder


def change(run: Path, table: str, values: str, row: int) -> None:
    with contextlib.closing(sqlite3.connect(run / FILE)) as db, db:
        db.execute(f"UPDATE {table} SET {values} WHERE id = {row}")  # noqa: S608 - our own


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def everything(run: Path) -> list[str]:
    """All that a run says."""
    with RunStore.open(run, read_only=True) as store:
        said = [
            *store.verdicts(),
            *store.verdicts(evidence=False),
            *store.edits(),
            *store.find_standing("alpha", SIGNATURES).items(),
            *(store.items(), store.content_keys(), store.file_cache()),
            *(store.header, store.counts(), store.costs, count_replies(store.ledger)),
            store.database.fact("choices of judge"),
            store.ledger.get_prompt(ask().prompt.digest),
        ]
        return sorted(map(repr, said))


def say_the_same_or_refuse(run: Path, damage: bytes, expected: list[str]) -> str:
    """Why a run with this file is refused, or nothing where it says what it said."""
    for beside in run.glob(f"{FILE}-*"):
        beside.unlink()
    (run / FILE).write_bytes(damage)
    try:
        said = everything(run)
    except EditjudgeError as error:
        return str(error)
    assert said == expected
    return ""


def damage(data: bytes, seed: int) -> bytes:
    """One flipped bit, one other byte, or some."""
    chance = random.Random(seed)
    at, length = chance.randrange(100, len(data) - 16), (1, 1, 12)[seed % 3]
    new = bytearray(data)
    if seed % 3 == 0:
        new[at] ^= 1 << chance.randrange(8)
    else:
        new[at : at + length] = chance.randbytes(length)
    return bytes(new)


def test_no_damage_is_read_as_something_else(whole: Path, copy: Path) -> None:
    data, expected = (whole / FILE).read_bytes(), everything(whole)
    said = [say_the_same_or_refuse(copy, damage(data, seed), expected) for seed in range(DAMAGES)]
    assert sum(map(bool, said)) > DAMAGES / 20
    assert not any("\n" in why for why in said)


def pages_of(run: Path) -> tuple[list[bytes], dict[str, int]]:
    """The pages of a file, and the first of each table and index."""
    data = (run / FILE).read_bytes()
    size = int.from_bytes(data[16:18], "big")
    with contextlib.closing(sqlite3.connect(run / FILE)) as db:
        roots = db.execute("SELECT tbl_name || '.' || type, rootpage FROM sqlite_master").fetchall()
    return [data[at : at + size] for at in range(0, len(data), size)], dict(roots)


def swap_pages(pages: list[bytes], one: int, other: int) -> bytes:
    swapped = list(pages)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return b"".join(swapped)


def test_pages_that_changed_places_say_nothing_else(whole: Path, copy: Path) -> None:
    pages, _ = pages_of(whole)
    expected = everything(whole)
    for one, other in itertools.combinations(range(1, 11), 2):
        say_the_same_or_refuse(copy, swap_pages(pages, one, other), expected)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(("first", "second"), [("facts.table", "edits.index"), ("calls.index", "prompts.index")])
def test_an_index_of_something_else_is_damage(
    whole: Path, copy: Path, first: str, second: str, read_only: bool
) -> None:
    """Rows that none finds have no checksum that could be compared."""
    pages, roots = pages_of(whole)
    (copy / FILE).write_bytes(swap_pages(pages, roots[first] - 1, roots[second] - 1))
    with pytest.raises(StoreError, match="is damaged"):
        RunStore.open(copy, read_only=read_only)


@pytest.mark.parametrize(
    ("table", "row", "value"),
    [
        ("edits", 3, "outcomes = x'5b302e355d'"),
        ("edits", 3, "details = x'7b7d'"),
        ("edits", 4, "output = zeroblob(32)"),
        ("edits", 4, "item = x'78'"),
        ("edits", 5, "content = zeroblob(16)"),
        ("files", 1, "stat = x'00'"),
        ("data", 1, "records = x'00'"),
        ("signings", 1, "signed = x'5b5d'"),
        ("calls", 1, "document = x'7b7d'"),
        ("calls", 1, "cost = 0"),
        ("prompts", 1, "document = x'7b7d'"),
        ("facts", 1, "value = x'78'"),
    ],
)
def test_a_damaged_row_is_named(table: str, row: int, value: str, copy: Path) -> None:
    change(copy, table, value, row)
    with pytest.raises(StoreError, match=rf"row {row} \(table {table}\)") as refusal:
        everything(copy)
    assert refusal.value.exit_code == 1
    assert str(copy / FILE) in str(refusal.value)
    assert refusal.value.fix


@pytest.mark.parametrize("at", [0, 9, 15, 16, 17, 18, 19, 21, 22, 23, 44, 45])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_head_is_refused(whole: Path, copy: Path, at: int, read_only: bool) -> None:
    data = bytearray((copy / FILE).read_bytes())
    data[at] ^= 0x48
    (copy / FILE).write_bytes(data)
    with contextlib.suppress(StoreError, ConfigError):
        RunStore.open(copy, read_only=read_only).close()
        assert everything(copy) == everything(whole), "or it says what it said"


@pytest.mark.parametrize("head", [bytes(512), b"item,model,value\n" * 100])
def test_what_is_no_file_of_ours_is_left_as_it_is(copy: Path, head: bytes) -> None:
    data = head + (copy / FILE).read_bytes()[len(head) :]
    (copy / FILE).write_bytes(data)
    for read_only in (True, False):
        with pytest.raises(ConfigError, match="no run, or its beginning is damaged"):
            RunStore.open(copy, read_only=read_only)
    assert (copy / FILE).read_bytes() == data


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("share", [0.0005, 0.3, 0.7, 0.99])
def test_a_truncated_file(copy: Path, share: float, read_only: bool) -> None:
    data = (copy / FILE).read_bytes()
    (copy / FILE).write_bytes(data[: int(len(data) * share)])
    with pytest.raises((StoreError, ConfigError), match=f"{FILE}.*(damaged|no run)"):
        RunStore.open(copy, read_only=read_only)


def test_a_file_of_which_half_is_damaged(tmp_path: Path) -> None:
    make_run(tmp_path, **{f"i{n}": {"core.a": make_score(n, text=f"{n:500}")} for n in range(300)})
    data = (tmp_path / FILE).read_bytes()
    half = len(data) // 2
    (tmp_path / FILE).write_bytes(data[:half] + b"\xff" * half)
    with pytest.raises(StoreError, match="damaged"):
        RunStore.open(tmp_path)
    with RunStore.open(tmp_path, only_header=True) as store:
        with pytest.raises(StoreError, match="damaged"):
            list(store.verdicts())


def test_numbers_that_changed_places(copy: Path) -> None:
    for old, new in ((5, -1), (8, 5), (-1, 8)):
        change(copy, "edits", f"id = {new}", old)
    with RunStore.open(copy, read_only=True) as store:
        for read in (
            lambda: list(store.verdicts(evidence=False)),
            store.counts,
            lambda: store.find_standing("alpha", SIGNATURES),
        ):
            with pytest.raises(StoreError, match="table edits"):
                read()


def test_what_writes_looks_too(copy: Path) -> None:
    change(copy, "edits", "outcomes = x'5b305d'", 3)
    with RunStore.open(copy) as store:
        with pytest.raises(StoreError, match=r"row 3 \(table edits\)"):
            put(store, "item 2", {"core.a": make_score(1)})
        put(store, "item 3", {"core.a": make_score(1)})


def test_a_checksum_stays_what_it_is() -> None:
    """Whatever Python computes it: files are older than that. By the form in `schema.checksum`."""
    row = (12345, -1, 2**40, 0.1, b"r\xc3\xb6d", None)
    told = (
        b"(\x06\x00\x00\x00i90\x00\x00i\xff\xff\xff\xffl\x03\x00\x00\x00\x00\x00\x00\x00\x00\x04"
        b"g\x9a\x99\x99\x99\x99\x99\xb9?s\x04\x00\x00\x00r\xc3\xb6dN"
    )
    assert marshal.dumps(row, 2) == told
    assert checksum(row) == zlib.crc32(told)
