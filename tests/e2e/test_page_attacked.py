"""The results page in a browser, with texts that attack, and with very many edits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from .browser import opened, says
from .page_data import HOSTILE, Example, example, written, written_beside

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
LONG = "a" * 50_000 + HOSTILE + "z" * 50_000


def hostile() -> Example:
    """The attack wherever a text of others can stand."""
    made = example(
        items=3,
        models=("fine", f"model {HOSTILE}"),
        instruction=lambda _: HOSTILE,
        reply=lambda edit: LONG if edit == 0 else HOSTILE,
    )
    report, items = made.report, made.edits["items"]
    report["title"] = report["warnings"][0] = report["runs"][0]["name"] = HOSTILE
    report["tables"][0]["title"] = report["tables"][0]["notes"][0] = HOSTILE
    report["tables"][0]["columns"][0]["title"] = HOSTILE
    report["tables"][0]["published"][0]["models"] = {HOSTILE: {"core.ssim": 0.7}}
    report["figures"][0]["title"] = HOSTILE
    report["dimensions"][1] |= {"title": HOSTILE, "asks": HOSTILE}
    items["id"] = [f"{n} {HOSTILE}" for n in range(3)]
    items["task"] = items["target_text"] = [HOSTILE] * 3
    made.edits["missing"] = [HOSTILE] * 6
    made.edits["picture"][1] = None
    detail = made.details["detail-0"]
    detail["items"]["0"]["extra"] = {HOSTILE: HOSTILE}
    for edit in detail["edits"].values():
        for verdict in edit["verdicts"]:
            verdict["probabilities"] = {HOSTILE: 0.9, "__proto__": 0.1}
            verdict["evidence"] = {HOSTILE: [HOSTILE]}
            verdict["ocr"] = {"read": HOSTILE, "target": HOSTILE[::-1]}
    return made


@pytest.mark.parametrize("write", [written, written_beside])
def test_texts_of_others_stay_texts(browser: Browser, tmp_path: Path, write: object) -> None:
    assert callable(write)
    made = hostile()
    address = write(made, tmp_path / "out" if write is written_beside else tmp_path).as_uri()
    with opened(browser, address) as page:
        assert "<script>window.hacked" in page.locator("#title").inner_text()
        page.goto(f"{address}#edit={quote(made.edits['items']['id'][0], safe='')}&model=fine")
        page.reload()
        page.keyboard.press("v")
        page.locator(".prompt").first.wait_for(state="attached")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("window.hacked") is None
        inside = "#app script, #app img[src=x], #app [onerror]"
        assert page.locator(inside).count() == 0
        assert page.locator("#app .unseen", has_text="U+202E").count() > 0
        turned = page.evaluate("document.body.innerText.match(/[\\u202a-\\u202e\\u2066-\\u2069]/)")
        assert turned is None, "no mark of direction reaches the words around it"


def test_a_reply_of_100_kb_is_cut_until_somebody_wants_it(browser: Browser, tmp_path: Path) -> None:
    made = hostile()
    link = f"#edit={quote(made.edits['items']['id'][0], safe='')}&model=fine"
    with opened(browser, written(made, tmp_path).as_uri() + link) as page:
        page.keyboard.press("v")
        more = page.get_by_text(f"show all {len(LONG):,} characters")
        more.wait_for()
        text = page.locator(".reply pre[aria-label=reply]").first
        assert len(text.inner_text()) == 3000
        more.first.click()
        assert len(text.inner_text()) > 100_000


def test_ten_thousand_edits_scroll_with_a_handful_of_rows(browser: Browser, tmp_path: Path) -> None:
    models = tuple(f"model {letter}" for letter in "abcde")
    made = example(items=2000, models=models)
    made.details = {}
    with opened(browser, written(made, tmp_path).as_uri() + "#view=edits") as page:
        assert page.locator("#count").inner_text() == "10,000 edits"
        rows = page.locator(".row")
        assert 5 < rows.count() < 60
        for part in (0.3, 0.9, 0.5, 1):
            page.locator("#list").evaluate(
                "(list, part) => { list.scrollTop = part * list.scrollHeight; }", part
            )
            middle = f".row[aria-posinset='{max(1, round(10_000 * part))}']"
            page.locator(middle).wait_for()
            assert rows.count() < 60
        page.locator("#list").focus()
        page.keyboard.press("End")
        assert page.locator("#where").inner_text() == "10,000 of 10,000"
        assert page.locator("#edit-id").inner_text() == "set/1999"
        assert page.locator("#list").get_attribute("aria-activedescendant") == "row-9999"
        page.fill("#f-words", "number 1235 ")
        says(page, "#count", "5 of 10,000 edits")
        page.select_option("#f-sort", "gap")
        says(page, "#count", "1 item with values of both models")
