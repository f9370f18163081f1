"""The review page of `editjudge prepare`, in a browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from editjudge.prepare.folder import Folder
from editjudge.prepare.items import DraftData, Entry
from editjudge.prepare.review import apply_decisions, write_page

from ..fakes.openai import reply
from ..unit.prepare.folders import write_items
from .browser import assert_fits, open_file
from .test_prepare import Set, Writer, run_prepare
from .test_prepare import data as data

MARKS = ("Instruction following", "Image realism", "Background preservation", "Modification satisfaction")


@pytest.mark.browser
async def test_the_page_accepts_rejects_saves_and_is_applied(data: Set, tmp_path: Path) -> None:
    data.write(4)
    server = Writer()
    server.says = {
        "edit number 2.": {
            "question": '<b>Which</b> of them is "it" & why?',
            "answer": "<script>alert(1)</script>",
            "wrong": ["Blue"],
        },
        "edit number 3.": lambda: reply(None, message={"refusal": "I will not"}),
    }
    async with server.serving() as url:
        done = await run_prepare(*data.arguments("questions", "--generalist", url))
    assert done.code == 3, done.err
    decided = await asyncio.to_thread(_decided_in_a_browser, data.out, tmp_path)
    applied = await run_prepare("review", data.out, decided, "--json")
    assert applied.code == 0, applied.err
    assert applied.json["accepted"] == 1
    assert applied.json["rejected"] == {"set/1": "two answers\u2026 <i>j"}
    assert applied.json["undecided"] == ["set/2", "set/3"]
    assert [one["id"] for one in data.items("accepted.jsonl")] == ["set/0"]
    (rejected,) = data.items("rejected.jsonl")
    assert rejected["id"] == "set/1"
    assert "questions" not in rejected


def _decided_in_a_browser(folder: Path, saved: Path) -> Path:
    """Accept the first item, reject the second with a note, by keys and by buttons."""
    with open_file(folder / "review.html", may_load=("file:", "data:", "blob:")) as page:
        decided, rows = page.locator("#decided"), page.locator(".row")
        assert rows.count() == 4
        assert decided.inner_text() == "0 accepted, 0 rejected, 3 of 3 undecided"
        rows.nth(3).click()
        assert page.locator(".decide").count() == 0, "what failed is not decided about"
        assert "refused" in page.locator("#review").inner_text()
        rows.nth(2).click()
        asked = page.locator("#review").inner_text()
        assert "<b>Which</b> of them" in asked, "text stays text"
        assert page.locator("#review .right").inner_text().startswith("<script>")
        assert page.locator("#panes img").first.evaluate("image => image.decode().then(() => 1)")

        rows.nth(0).click()
        page.keyboard.press("a")
        assert rows.nth(0).locator(".status").inner_text() == "accepted"
        assert page.locator("#edit-id").inner_text() == "set/1"
        page.locator("#note").fill("two answers\u2026 <i>")
        page.keyboard.press("j")  # text: keys do nothing else in a note
        page.keyboard.press("Escape")
        page.keyboard.press("x")
        page.keyboard.press("a")  # the third, of which nothing is decided after all
        rows.nth(2).click()
        page.keyboard.press("u")
        assert decided.inner_text() == "1 accepted, 1 rejected, 1 of 3 undecided"

        page.reload()
        assert decided.inner_text() == "1 accepted, 1 rejected, 1 of 3 undecided"
        page.select_option("#f-decision", "rejected")
        assert page.locator("#count").inner_text() == "1 of 4 edits"
        page.select_option("#f-decision", "")
        with page.expect_download() as download:
            page.locator("#save").click()
        assert download.value.suggested_filename == "review.json"
        file = saved / "review.json"
        download.value.save_as(file)
        assert_fits(page)
    return file


@pytest.mark.browser
def test_full_marks_alone_accept_an_item_with_a_target(tmp_path: Path) -> None:
    items = [{"id": name, "instruction": "do it", "target": "s.png"} for name in "abc"]
    data = DraftData(write_items(tmp_path / "data", [*items, {"id": "d", "instruction": "do it"}]))
    folder, entries = Folder(tmp_path / "out"), dict.fromkeys("abcd", Entry("not_found", "nothing"))
    with folder.lock():
        record = folder.begin(data, "masks").model_copy(update={"statuses": dict.fromkeys("abcd", "not_found")})
        folder.write_items(data, entries)
        folder.write_record(record)
        write_page(folder, record, entries)
    with open_file(folder.path / "review.html", may_load=("file:", "data:", "blob:")) as page:
        rows, marks = page.locator(".row"), page.locator(".mark")
        for place, values in enumerate(([3, 3, 3, 3], [3, 2], [3, 3, 3])):
            rows.nth(place).click()
            assert marks.count() == 4
            for mark, value in zip(marks.all(), values, strict=False):
                mark.locator("button").nth(value - 1).click()
            page.keyboard.press("a")  # what has no full marks is not accepted by it
        rows.nth(3).click()
        assert marks.count() == 0
        page.reload()
        assert page.locator("#decided").inner_text() == "1 accepted, 1 rejected, 2 of 4 undecided"
        rows.nth(2).click()
        assert marks.locator("[aria-pressed=true]").count() == 3
        with page.expect_download() as download:
            page.locator("#save").click()
        download.value.save_as(tmp_path / "review.json")
        assert_fits(page)
    saved = {one["id"]: one["marks"] for one in json.loads((tmp_path / "review.json").read_text())["decisions"]}
    assert saved == {"a": dict.fromkeys(MARKS, 3), "b": dict(zip(MARKS, (3, 2), strict=False))}
    result = apply_decisions(folder, tmp_path / "review.json")
    assert (result.accepted, [*result.rejected], result.undecided) == (1, ["b"], ("c", "d"))
