"""Commands with a ledger in PostgreSQL: runs that share replies, and where a password is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from editjudge.base.config import PostgresAddress

from ..e2e.conftest import CommandResult, await_end, await_run, process, run_in_process, run_in_thread
from ..e2e.test_judge import Judge
from ..small_data import save_picture, write_items
from .server import PASSWORD, Server


def list_children(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for path in children for child in path.read_text().split()]
    return own + [below for child in own for below in list_children(child)]


def find_password(folder: Path, *commands: CommandResult) -> list[object]:
    """Where the password is, in files and in what commands wrote."""
    texts = {each: each.out + each.err for each in commands}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if PASSWORD.encode() in path.read_bytes()] + [
        command for command, text in texts.items() if PASSWORD in text
    ]


async def test_the_second_run_pays_nothing_and_nobody_writes_the_password(
    tmp_path: Path, server: Server, ledger_place: PostgresAddress
) -> None:
    save_picture(tmp_path / "data" / "s.png")
    items = write_items(tmp_path / "data", [{}, {}])
    for number in range(2):
        save_picture(tmp_path / "ours" / f"{number}.png", (8, 8 + number))
    asked = ["run", "core", "--data", items, "--outputs", f"ours={tmp_path / 'ours'}", "--json"]
    asked += ["--dimension", "core.editing_artifacts", "--ledger", ledger_place.url]
    judge = Judge()
    async with judge.serving() as url:
        first = await await_run(*asked, "--judge", url, "--out", tmp_path / "a")
        calls = len(judge.requests)
        plan = await await_run(*asked, "--judge", url, "--out", tmp_path / "b", "--dry-run")
        second = await await_run(*asked, "--judge", url, "--out", tmp_path / "b")
    assert (first.code, plan.code, second.code) == (0, 0, 0), (first.err, plan.err, second.err)
    assert len(judge.requests) == calls
    end = json.loads(second.out.splitlines()[-1])
    assert (end["usage"]["calls"], end["edits"]) == (0, 2)
    assert plan.json["calls"] == {"generalist.judge": 2}
    lost = await await_run(*asked, "--out", tmp_path / "c", PGPASSWORD="no")
    assert lost.code == 2
    assert "password authentication failed" in lost.err
    assert find_password(tmp_path, first, plan, second, lost) == []
    assert server.execute(ledger_place.url, "SELECT DISTINCT team FROM editjudge.calls") == [(b"",)]


async def test_no_process_is_started_with_the_password_in_its_command(
    tmp_path: Path, ledger_place: PostgresAddress
) -> None:
    """Nor is it in a variable, where it is in a file that the address names."""
    save_picture(tmp_path / "data" / "s.png")
    items = write_items(tmp_path / "data", [{}] * 4)
    for number in range(4):
        save_picture(tmp_path / "ours" / f"{number}.png", (8, 8 + number))
    (passwords := tmp_path / "passwords").write_text(f"*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    seen: dict[int, bytes] = {}
    begun: list[int] = []

    class Looking(Judge):
        """Looks at the process that asks, and at its children, while they wait for an answer."""

        async def _answer(self, request: web.Request) -> Any:
            for pid in [begun[0], *list_children(begun[0])]:
                words = (Path("/proc") / str(pid) / name for name in ("cmdline", "environ"))
                seen[pid] = b"".join(path.read_bytes() for path in words)
            return await super()._answer(request)

    async with (judge := Looking()).serving() as url:
        asked = ["run", "core", "--data", items, "--outputs", f"ours={tmp_path / 'ours'}", "--json"]
        asked += ["--dimension", "core.editing_artifacts", "--dimension", "core.psnr.source.whole"]
        asked += ["--ledger", f"{ledger_place.url}?passfile={passwords}"]
        running = process(*asked, "--judge", url, "--out", tmp_path / "a", PGPASSWORD="")
        begun.append(running.pid)
        done = await await_end(running, 60)
    assert done.code == 0, done.err
    assert judge.requests
    assert b"passfile" in seen[running.pid]
    assert not [text for text in seen.values() if PASSWORD.encode() in text]


@pytest.mark.parametrize("of", ["option", "variable", "query"])
def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path, of: str) -> None:
    url = f"postgresql://judge:{PASSWORD}@127.0.0.1:1/ledger"
    if of == "query":
        url = f"postgresql://127.0.0.1:1/ledger?password={PASSWORD}"
    picture = save_picture(tmp_path / "a.png")
    arguments = ("score", "--source", picture, "--edited", picture, "--instruction", "x")
    refused = (
        run_in_process(*arguments, EDITJUDGE_LEDGER=url)
        if of == "variable"
        else run_in_process(*arguments, "--ledger", url)
    )
    assert refused.code == 2
    assert "a password is in the address" in refused.err
    assert "PGPASSWORD" in refused.err
    assert find_password(tmp_path, refused) == []


async def test_the_driver_is_named_where_it_is_missing(
    tmp_path: Path, ledger_place: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("editjudge.storage.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    picture = save_picture(tmp_path / "a.png")
    arguments = ("score", "--source", picture, "--edited", picture, "--instruction", "x")
    refused = await run_in_thread(*arguments, "--ledger", ledger_place.url)
    assert refused.code == 2
    assert "a ledger in PostgreSQL needs packages that are not installed" in refused.err
    assert "[postgres]" in refused.err
