"""The review page of `editjudge prepare`, in a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ..fakes.openai import reply
from .browser import assert_fits, shown
from .test_prepare import Set, Writer, written
from .test_prepare import data as data


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
        done = await written(*data.asked("questions", "--generalist", url))
    assert done.code == 3, done.err
    decided = await asyncio.to_thread(_decided_in_a_browser, data.out, tmp_path)
    applied = await written("review", data.out, decided, "--json")
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
    with shown(folder / "review.html", may_load=("file:", "data:", "blob:")) as page:
        cards = page.locator("article")
        assert cards.count() == 4
        assert page.locator("#counts").inner_text() == "0 accepted, 0 rejected, 3 of 3 undecided"
        assert "<b>Which</b> of them" in cards.nth(2).inner_text(), "text stays text"
        assert cards.nth(3).locator(".decide").count() == 0, "what failed is not decided about"

        page.keyboard.press("j")
        page.keyboard.press("a")
        assert cards.nth(0).get_attribute("data-decision") == "accept"
        cards.nth(1).locator(".reject").click()
        cards.nth(1).locator("input").fill("two answers\u2026 <i>")
        page.keyboard.press("j")  # text: keys do nothing else in a note
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("r")
        page.keyboard.press("k")
        page.keyboard.press("u")
        assert page.locator("#counts").inner_text() == "1 accepted, 1 rejected, 1 of 3 undecided"

        page.reload()
        assert page.locator("#counts").inner_text() == "1 accepted, 1 rejected, 1 of 3 undecided"
        page.locator("[data-show=reject]").click()
        assert [card.is_visible() for card in cards.all()] == [False, True, False, False]
        page.locator("[data-show=all]").click()
        assert_fits(page)
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before

        with page.expect_download() as download:
            page.locator("#save").click()
        assert download.value.suggested_filename == "review.json"
        file = saved / "review.json"
        download.value.save_as(file)
    return file
