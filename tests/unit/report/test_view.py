"""A page at an address of this machine: for its own reader alone, and new while a run goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio

from editjudge.base.errors import ConfigError, StoreError
from editjudge.base.verdict import Score
from editjudge.report import view as module
from editjudge.report.page import build_security_policy
from editjudge.report.view import LiveRuns, _host_names, serve_page
from editjudge.storage.store import RunStore

from ...report_runs import DIMENSIONS, picture


@pytest_asyncio.fixture
async def address(run: Path) -> AsyncIterator[str]:
    with LiveRuns([run]) as live:
        async with serve_page(live) as at:
            yield at


async def get_json(url: str) -> Any:
    return json.loads((await get(url))[1])


async def get(url: str, **headers: str) -> tuple[int, bytes, Any]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as reply:
        return reply.status, await reply.read(), reply.headers


async def test_the_page_and_what_it_asks_for(address: str) -> None:
    status, page, headers = await get(address)
    assert status == 200
    assert b'data-mode="view"' in page
    assert headers["Content-Security-Policy"] == build_security_policy("view")
    assert headers["X-Content-Type-Options"] == "nosniff"
    names = ("state", "report", "edits", "detail-0")
    told = {name: await get_json(f"{address}data/{name}.json") for name in names}
    assert told["state"]["version"] == told["report"]["version"]
    assert (told["state"]["judged"], told["state"]["asked"]) == (12, 12)
    assert told["report"]["mode"] == "view"
    assert len(told["detail-0"]["edits"]) == 12
    name = told["edits"]["picture"][0]
    for asked in (name, f"{name}?full=1"):
        status, webp, headers = await get(f"{address}pictures/{asked}")
        assert (status, webp[8:12], headers["Content-Type"]) == (200, b"WEBP", "image/webp")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {"Host": "attacker.example"}, 421),
        ("data/edits.json", {"Host": "attacker.example"}, 421),
        ("", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("data/edits.json", {"Sec-Fetch-Site": "same-site"}, 403),
        ("data/detail-99.json", {}, 404),
        ("data/detail--1.json", {}, 404),
        ("data/detail-٣.json", {}, 404),
        ("data/..%2f..%2frun.sqlite.json", {}, 404),
        ("pictures/..%2f..%2fetc%2fpasswd", {}, 404),
        ("pictures/%2fetc%2fpasswd", {}, 404),
        ("pictures/0000000000000000", {}, 404),
        ("../", {}, 404),
    ],
)
async def test_nothing_else_is_answered(
    address: str, path: str, headers: dict[str, str], status: int
) -> None:
    got, body, given = await get(address + path, **headers)
    assert got == status
    assert b"root:" not in body
    assert given["Cross-Origin-Resource-Policy"] == "same-origin"


async def test_who_does_not_know_the_address_finds_nothing(address: str) -> None:
    parts = urlsplit(address)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path) > 20
    for path in ("/", "/data/edits.json", "/x/data/edits.json"):
        assert (await get(f"http://{parts.netloc}{path}"))[0] == 404
    async with aiohttp.ClientSession() as session, session.post(address) as reply:
        assert reply.status == 405


async def test_a_picture_that_broke_is_told(small: Any, tmp_path: Path) -> None:
    run = small()
    (tmp_path / "outputs/m/item 0.png").write_bytes(b"no picture")
    with LiveRuns([run]) as live:
        name = json.loads(live.snapshot.edits)["picture"][0]
        async with serve_page(live) as at:
            status, text, _ = await get(f"{at}pictures/{name}")
    assert (status, b"not an image" in text) == (422, True)


async def test_a_port_that_is_taken_is_told(run: Path, address: str) -> None:
    port = urlsplit(address).port or 0
    with LiveRuns([run]) as live, pytest.raises(ConfigError, match=f"port {port}: .*--port"):
        async with serve_page(live, port):
            pass


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are read anew whenever they changed."""
    monkeypatch.setattr(module, "_FEWEST_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0)


@pytest.mark.usefixtures("at_once")
async def test_a_changed_picture_is_not_shown_by_its_old_name(small: Any, tmp_path: Path) -> None:
    output = tmp_path / "outputs/m/item 0.png"
    with LiveRuns([small()]) as live:
        async with serve_page(live) as at:
            before = json.loads(live.snapshot.edits)
            old = f"{at}pictures/{before['picture'][0]}"
            _, was, _ = await get(old)
            picture(output, 99)
            assert (await get(old))[0] == 404, "also what was made of it is not served"
            await get(f"{at}data/state.json")
            after = json.loads(live.snapshot.edits)
            assert (before["status"], after["status"]) == (["S"], ["P"]), "nobody wrote to the run"
            status, now, _ = await get(f"{at}pictures/{after['picture'][0]}")
            assert status == 200
            assert now != was
            state = (await get(f"{at}data/state.json"))[1]
            await get(old)
            assert (await get(f"{at}data/state.json"))[1] == state, "read anew once"


async def test_a_picture_that_changes_while_it_is_read_is_not_served(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(file: Path, _: int) -> bytes:
        picture(file, 99)
        return b"of the old one"

    monkeypatch.setattr("editjudge.report.view.make_thumbnail", late)
    with LiveRuns([small()]) as live:
        async with serve_page(live) as at:
            name = json.loads(live.snapshot.edits)["picture"][0]
            assert (await get(f"{at}pictures/{name}"))[0] == 404


@pytest.mark.parametrize(
    ("port", "host", "taken"),
    [
        (80, "127.0.0.1", True),
        (80, "localhost", True),
        (80, "127.0.0.1:80", True),
        (8000, "localhost:8000", True),
        (8000, "127.0.0.1", False),
        (80, "attacker.example", False),
    ],
)
def test_browsers_leave_the_usual_port_out(port: int, host: str, taken: bool) -> None:
    assert (host in _host_names(port)) is taken


async def test_what_is_no_request_is_no_trace_on_the_terminal(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = urlsplit(address).port
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x1b[31mno request\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert not caplog.records


@pytest.mark.usefixtures("at_once")
def test_a_run_is_read_while_it_is_written(small: Any) -> None:
    run = small(2)
    with LiveRuns([run]) as live:
        before = live.check_progress()
        assert not before["live"]
        assert live.check_progress() == before, "looking at it changes nothing"
        with RunStore.open(run) as store:
            edit = store.judged_edit(store.edit("item 1", "m"))  # type: ignore[arg-type]
            verdicts, signatures = {DIMENSIONS[0]: Score(value=1)}, {DIMENSIONS[0]: "another"}
            store.save_edit_now(edit, verdicts, signatures)
            after = live.check_progress()
        assert after["version"] != before["version"]
        assert (after["live"], after["judged"], after["asked"]) == (True, 1, 2)
        assert json.loads(live.snapshot.report)["version"] == after["version"]
        detail = json.loads(live.detail(0) or "")
        assert detail["edits"]["1"]["verdicts"] == [], "what does not count is not shown"


@pytest.mark.usefixtures("at_once")
def test_what_was_read_stays_where_a_run_goes(
    small: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small()
    with LiveRuns([run]) as live:
        before = live.snapshot.edits
        (run / "run.sqlite").rename(run / "away.sqlite")
        live.check_progress()
        told = live.check_progress()
        assert live.snapshot.edits == before
        assert (told["live"], "the page shows an earlier state" in told["problem"]) == (False, True)
        (run / "away.sqlite").rename(run / "run.sqlite")
        assert live.check_progress()["problem"] == ""
    assert capsys.readouterr().err.count("the page shows an earlier state") == 1


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises((ConfigError, StoreError)):
        LiveRuns([tmp_path])


async def test_pictures_are_made_a_few_at_a_time(address: str) -> None:
    edits = await get_json(f"{address}data/edits.json")
    names = [name for name in edits["picture"] if name]
    replies = await asyncio.gather(*(get(f"{address}pictures/{name}") for name in names * 2))
    assert {status for status, _, _ in replies} == {200}
