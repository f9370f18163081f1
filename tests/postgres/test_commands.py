"""Commands with a ledger in PostgreSQL: runs that share replies, and where a password is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from editjudge.base.config import PostgresAddress

from ..e2e.conftest import Ran, beside, here, ran
from ..e2e.test_judge import Judge
from ..small_data import save_picture, write_items
from .server import PASSWORD, Server


def find_password(folder: Path, *commands: Ran) -> list[object]:
    """Where the password is, in files and in what commands wrote."""
    texts = {each: each.out + each.err for each in commands}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if PASSWORD.encode() in path.read_bytes()] + [
        command for command, text in texts.items() if PASSWORD in text
    ]


async def test_the_second_run_pays_nothing_and_nobody_writes_the_password(
    tmp_path: Path, server: Server, shared: PostgresAddress
) -> None:
    save_picture(tmp_path / "data" / "s.png")
    items = write_items(tmp_path / "data", [{}, {}])
    for number in range(2):
        save_picture(tmp_path / "ours" / f"{number}.png", (8, 8 + number))
    asked = ["run", "core", "--data", items, "--outputs", f"ours={tmp_path / 'ours'}", "--json"]
    asked += ["--dimension", "core.editing_artifacts", "--ledger", shared.url]
    judge = Judge()
    async with judge.serving() as url:
        first = await ran(*asked, "--judge", url, "--out", tmp_path / "a")
        calls = len(judge.requests)
        plan = await ran(*asked, "--judge", url, "--out", tmp_path / "b", "--dry-run")
        second = await ran(*asked, "--judge", url, "--out", tmp_path / "b")
    assert (first.code, plan.code, second.code) == (0, 0, 0), (first.err, plan.err, second.err)
    assert len(judge.requests) == calls
    end = json.loads(second.out.splitlines()[-1])
    assert (end["usage"]["calls"], end["edits"]) == (0, 2)
    assert plan.json["known"] == {"generalist.judge": 2}
    lost = await ran(*asked, "--out", tmp_path / "c", PGPASSWORD="no")
    assert lost.code == 2
    assert "password authentication failed" in lost.err
    assert find_password(tmp_path, first, plan, second, lost) == []
    assert server.execute(shared.url, "SELECT DISTINCT team FROM editjudge.calls") == [(b"",)]


@pytest.mark.parametrize("of", ["option", "variable", "query"])
def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path, of: str) -> None:
    url = f"postgresql://judge:{PASSWORD}@127.0.0.1:1/ledger"
    if of == "query":
        url = f"postgresql://127.0.0.1:1/ledger?password={PASSWORD}"
    picture = save_picture(tmp_path / "a.png")
    arguments = ("score", "--source", picture, "--edited", picture, "--instruction", "x")
    if of == "variable":
        refused = here(*arguments, EDITJUDGE_LEDGER=url)
    else:
        refused = here(*arguments, "--ledger", url)
    assert refused.code == 2
    assert "a password is in the address" in refused.err
    assert "PGPASSWORD" in refused.err
    assert find_password(tmp_path, refused) == []


async def test_the_driver_is_named_where_it_is_missing(
    tmp_path: Path, shared: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("editjudge.storage.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    picture = save_picture(tmp_path / "a.png")
    arguments = ("score", "--source", picture, "--edited", picture, "--instruction", "x")
    refused = await beside(*arguments, "--ledger", shared.url)
    assert refused.code == 2
    assert "a ledger in PostgreSQL needs packages that are not installed" in refused.err
    assert "[postgres]" in refused.err
