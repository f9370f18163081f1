"""Damaged stores: the numbers that were there, or one line that says what is wrong."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import os
import random
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from editjudge.app.run import run_async
from editjudge.app.spec import RunSpec
from editjudge.base.errors import EditjudgeError
from editjudge.cli import main

from .evil_http import EvilJudge
from .judges import ASKED, KEY, make_data, make_settings, values
from .mutations import BLIND
from .trials import Attack, Violation, dice

_COMMANDS: dict[str, tuple[str, ...]] = {
    "summary": ("summary", "{run}"),
    "summary as JSON": ("summary", "{run}", "--json"),
    "show": ("show", "{run}", "1"),
    "export": ("export", "{run}", "--format", "jsonl", "--out", "{run}/../out"),
    "rescore": ("rescore", "{run}"),
}


@cache
def whole() -> tuple[RunSpec, Path, bytes, dict[str, str]]:
    """A run, its folder, its file, and what commands say of it; made once in a process."""
    folder = Path(tempfile.mkdtemp(prefix="attack-stores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {KEY: "sk-of-an-honest-judge", "EDITJUDGE_STATE_DIR": str(folder / "state")}

    async def judge() -> RunSpec:
        spec = make_data(folder, ASKED)
        async with EvilJudge(None).serving() as url:
            await run_async(spec, out=folder / "run", settings=make_settings(url))
        return spec

    spec = asyncio.run(judge())
    told = {name: _run_command(name, folder / "run") for name in _COMMANDS}
    if wrong := [name for name, (code, _, _) in told.items() if code]:
        raise Violation(f"not even of a whole run: {wrong[0]}: {told[wrong[0]]}")
    file = _close_and_read(folder / "run" / "run.sqlite")
    return spec, folder, file, {name: out for name, (_, out, _) in told.items()}


def _close_and_read(file: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    return file.read_bytes()


def _run_command(name: str, run: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    arguments = [part.format(run=run) for part in _COMMANDS[name]]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    text = out.getvalue()
    if name == "export" and code == 0:
        text = (run.parent / "out").read_text("utf-8")
    return code, text.replace(str(run.parent), "HERE"), err.getvalue()


def trial(seed: int, number: int) -> str:
    spec, _, file, due = whole()
    rng = dice("stores", seed, number)
    with tempfile.TemporaryDirectory() as made_:
        run = Path(made_) / "run"
        run.mkdir()
        target = run / "run.sqlite"
        how = rng.choice(list(_DAMAGES))
        _DAMAGES[how](rng, file, target)
        name = rng.choice((*_COMMANDS, "run"))
        try:
            outcome = _run(spec, run) if name == "run" else _command(name, run, due[name])
        except Violation as error:
            raise Violation(f"{how}, {name}: {error}") from None
    return outcome


def _command(name: str, run: Path, due: str) -> str:
    code, out, err = _run_command(name, run)
    if code == 0:
        if out.replace(str(whole()[1]), "HERE") != due.replace(str(whole()[1]), "HERE"):
            raise Violation(f"says something else: {_first_difference(out, due)}")
        return "the same"
    lines = [line for line in err.splitlines() if line.strip()]
    if code not in {1, 2} or len(lines) != 1 or len(lines[0]) > 700 or "Traceback" in err:
        raise Violation(f"exit {code} and {len(lines)} lines: {' / '.join(lines)[:300]}")
    return "refused in one line"


def _run(spec: RunSpec, run: Path) -> str:
    async def judge() -> None:
        async with EvilJudge(None).serving() as url:
            await run_async(spec, out=run, settings=make_settings(url))

    try:
        asyncio.run(judge())
        there = values(run)
    except EditjudgeError as error:
        if "\n" in str(error) or len(str(error)) > 700:
            raise Violation(f"no short line: {str(error)[:200]}") from None
        return "refused in one line"
    if there != values(whole()[1] / "run"):
        raise Violation(f"other numbers: {there}")
    return "the same"


def _first_difference(out: str, due: str) -> str:
    for mine, theirs in zip(out.splitlines(), due.splitlines(), strict=False):
        if mine != theirs:
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), 0)
            start = max(at - 40, 0)
            return f"{mine[start : at + 60]!r} for {theirs[start : at + 60]!r}"
    return f"{len(out)} characters for {len(due)}"


# Damage


def _bytes(rng: random.Random, file: bytes, to: Path) -> None:
    to.write_bytes(rng.choice(BLIND)(rng, file))


def _head(rng: random.Random, file: bytes, to: Path) -> None:
    to.write_bytes(rng.choice(BLIND)(rng, file[:100]) + file[100:])


def _cut(rng: random.Random, file: bytes, to: Path) -> None:
    to.write_bytes(file[: rng.choice((0, 1, 99, 100, 4096, rng.randrange(len(file))))])


def _page(rng: random.Random, file: bytes, to: Path) -> None:
    start = rng.randrange(len(file) // 4096) * 4096
    page = rng.choice((bytes(4096), b"\xff" * 4096, rng.randbytes(4096), file[:4096], file[-4096:]))
    to.write_bytes(file[:start] + page + file[start + 4096 :])


def _other(rng: random.Random, _: bytes, to: Path) -> None:
    to.write_bytes(rng.choice((b"", b"\0" * 9999, b"SQLite format 3\0", b"PK\3\4", rng.randbytes(9999))))


def _rows(rng: random.Random, file: bytes, to: Path) -> None:
    """A value of a row goes to another row, or is another; the file is whole."""
    to.write_bytes(file)
    with contextlib.closing(sqlite3.connect(to)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        table = rng.choice(_tables(db))
        info = db.execute(f"PRAGMA table_info('{table}')").fetchall()
        column = rng.choice([row[1] for row in info])
        keys = " AND ".join(f'"{row[1]}" = ?' for row in info if row[5])
        named = ", ".join(f'"{row[1]}"' for row in info if row[5])
        rows = db.execute(f"SELECT {named} FROM '{table}' ORDER BY {named}").fetchall()  # noqa: S608 - names of our own tables
        if not rows:
            return
        a, b = rng.choice(rows), rng.choice(rows)
        query = f"SELECT \"{column}\" FROM '{table}' WHERE {keys}"  # noqa: S608 - names of our own tables
        (first,), (second,) = db.execute(query, a).fetchone(), db.execute(query, b).fetchone()
        put = rng.choice((second, None, 0, -1, 4.5, "x", b"\0", 2**62, _change(rng, first)))
        with contextlib.suppress(sqlite3.Error):
            db.execute(f"UPDATE '{table}' SET \"{column}\" = ? WHERE {keys}", (put, *a))  # noqa: S608


def _change(rng: random.Random, value: object) -> object:
    if isinstance(value, float | int):
        return value + rng.choice((1, -1, 0.25))
    if isinstance(value, str | bytes) and value:
        at = rng.randrange(len(value))
        return value[:at] + value[at + 1 :]
    return "y"


def _break_schema(rng: random.Random, file: bytes, to: Path) -> None:
    to.write_bytes(file)
    with contextlib.closing(sqlite3.connect(to)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        table = rng.choice(_tables(db))
        version = rng.choice((0, 1, 99, -1, 2**31 - 1))
        rng.choice(
            (
                lambda: db.execute(f"DROP TABLE '{table}'"),
                lambda: db.execute(f"ALTER TABLE '{table}' ADD COLUMN evil"),
                lambda: db.execute(f"PRAGMA user_version = {version}"),
            )
        )()


def _tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in rows if not name.startswith("sqlite_")]


_DAMAGES = {each.__name__[1:]: each for each in (_bytes, _head, _cut, _page, _other, _rows, _break_schema)}
STORES = Attack("stores", trial, full=400, small=10, seconds=60, mib=512)
