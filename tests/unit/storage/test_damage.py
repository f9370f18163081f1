"""A damaged file is refused in one line, or says what it said: never another number."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import random
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest

from editjudge.base.errors import ConfigError, EditjudgeError, StoreError
from editjudge.engine.content_keys import FileCache, FileContent
from editjudge.panel.calls import Call, Reply, Usage
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.schema import checksum
from editjudge.storage.store import FILE, RunStore

from ...replies import count_replies
from .stored import CONTENT, HEADER, LOST, SIGNATURES, UNREAD, digest, put, scored

PROMPT = Prompt("", (Text("How good is it?"),))
DAMAGES = 300
EDITS = 24


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that a run can have."""
    folder = tmp_path_factory.mktemp("whole")

    async def judged(store: RunStore) -> None:
        for index in range(EDITS):
            call = Call("judge", PROMPT, {"index": index})
            reply = Reply({"text": f"It is {index}"}, "judge", Usage(10, 0, 5), 0.01)
            await store.ledger.put(call, reply)
            verdict = scored(index / 7, why="so " * index).model_copy(update={"calls": (call.key,)})
            other = (UNREAD, LOST, scored(index))[index % 3]
            both = {"core.a": verdict, "core.b": other}
            put(store, f"item {index}", both, content=CONTENT)
        put(store, "item 1", {"core.a": scored(7)})
        content = FileContent(bytes(8), bytes(16))
        store.save_contents([], FileCache({1: content}, digest("data"), bytes(16)), {})
        await store.ledger.put_fact("choices of judge", "logprobs")

    with RunStore.open(folder, HEADER) as store:
        asyncio.run(judged(store))
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


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
            store.ledger.get_prompt(PROMPT.digest),
        ]
        return sorted(map(repr, said))


def damaged(data: bytes, seed: int) -> bytes:
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
    refused: list[str] = []
    for seed in range(DAMAGES):
        for beside in copy.glob(f"{FILE}-*"):
            beside.unlink()
        (copy / FILE).write_bytes(damaged(data, seed))
        try:
            said = everything(copy)
        except EditjudgeError as error:
            refused.append(str(error))
        else:
            assert said == expected, seed
    assert not [text for text in refused if "\n" in text]
    assert len(refused) > DAMAGES / 20


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE edits SET outcomes = x'5b302e355d' WHERE id = 3", r"row 3 \(table edits\)"),
        ("UPDATE edits SET details = x'7b7d' WHERE id = 3", r"row 3 \(table edits\)"),
        ("UPDATE edits SET output = zeroblob(32) WHERE id = 4", r"row 4 \(table edits\)"),
        ("UPDATE edits SET item = x'78' WHERE id = 4", r"row 4 \(table edits\)"),
        ("UPDATE edits SET content = zeroblob(16) WHERE id = 5", r"row 5 \(table edits\)"),
        ("UPDATE files SET stat = x'00' WHERE id = 1", r"row 1 \(table files\)"),
        ("UPDATE data SET records = x'00'", r"row 1 \(table data\)"),
        ("UPDATE signings SET signed = x'5b5d' WHERE id = 1", r"row 1 \(table signings\)"),
        ("UPDATE calls SET document = x'7b7d' WHERE id = 1", r"row 1 \(table calls\)"),
        ("UPDATE calls SET cost = 0 WHERE id = 1", r"row 1 \(table calls\)"),
        ("UPDATE prompts SET document = x'7b7d'", r"row 1 \(table prompts\)"),
        ("UPDATE facts SET value = x'78'", r"row 1 \(table facts\)"),
    ],
)
def test_a_damaged_row_is_named(statement: str, told: str, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy / FILE)) as db, db:
        db.execute(statement)
    with pytest.raises(StoreError, match=told) as refusal:
        everything(copy)
    assert refusal.value.exit_code == 1
    assert str(copy / FILE) in str(refusal.value)
    assert refusal.value.fix


@pytest.mark.parametrize("at", [0, 9, 15, 16, 17, 18, 19, 21, 22, 23, 44, 45])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_head_is_no_other_file(copy: Path, at: int, read_only: bool) -> None:
    data = bytearray((copy / FILE).read_bytes())
    data[at] ^= 0x48
    (copy / FILE).write_bytes(data)
    with pytest.raises(StoreError, match="the file is damaged") as refusal:
        RunStore.open(copy, read_only=read_only)
    assert refusal.value.exit_code == 1


def test_a_head_of_zeros_is_damage_and_another_file_is_none(copy: Path) -> None:
    data = (copy / FILE).read_bytes()
    (copy / FILE).write_bytes(bytes(512) + data[512:])
    with pytest.raises(StoreError, match="its beginning is all zeros"):
        RunStore.open(copy, read_only=True)
    (copy / FILE).write_bytes(b"item,model,value\n" * 100)
    with pytest.raises(ConfigError, match="this is no ledger and no run"):
        RunStore.open(copy, read_only=True)


def test_pages_that_changed_places(whole: Path, copy: Path) -> None:
    """Rows that none finds have no checksum that could be compared."""
    data = (whole / FILE).read_bytes()
    with contextlib.closing(sqlite3.connect(whole / FILE)) as db:
        (size,) = db.execute("PRAGMA page_size").fetchone()
        roots = dict(db.execute("SELECT tbl_name || '.' || type, rootpage FROM sqlite_master"))
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    for first, second in (("facts.table", "edits.index"), ("calls.index", "prompts.index")):
        swapped, (one, other) = list(pages), (roots[first] - 1, roots[second] - 1)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        (copy / FILE).write_bytes(b"".join(swapped))
        for read_only in (True, False):
            with pytest.raises(StoreError, match="is damaged"):
                RunStore.open(copy, read_only=read_only)


@pytest.mark.parametrize("read", ["verdicts", "counts", "standing"])
def test_numbers_that_changed_places(read: str, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy / FILE)) as db, db:
        for old, new in ((5, -1), (8, 5), (-1, 8)):
            db.execute("UPDATE edits SET id = ? WHERE id = ?", (new, old))
    with RunStore.open(copy, read_only=True) as store:
        reads = {
            "verdicts": lambda: list(store.verdicts(evidence=False)),
            "counts": store.counts,
            "standing": lambda: list(store.find_standing("alpha", SIGNATURES)),
        }
        with pytest.raises(StoreError, match="table edits"):
            reads[read]()


def test_what_writes_looks_too(copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy / FILE)) as db, db:
        db.execute("UPDATE edits SET outcomes = x'5b305d' WHERE id = 3")
    with RunStore.open(copy) as store:
        with pytest.raises(StoreError, match=r"row 3 \(table edits\)"):
            put(store, "item 2", {"core.a": scored(1)})
        put(store, "item 3", {"core.a": scored(1)})


def test_a_checksum_stays_what_it_is() -> None:
    """Whatever Python computes it: files are older than that. By the form in `schema.checksum`."""
    row = (12345, -1, 2**40, 0.1, b"r\xc3\xb6d", None)
    told = (
        b"(\x06\x00\x00\x00i90\x00\x00i\xff\xff\xff\xffl\x03\x00\x00\x00\x00\x00\x00\x00\x00\x04"
        b"g\x9a\x99\x99\x99\x99\x99\xb9?s\x04\x00\x00\x00r\xc3\xb6dN"
    )
    assert marshal.dumps(row, 2) == told
    assert checksum(row) == zlib.crc32(told)
