"""The results page in a browser, with texts that attack, and with very many edits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from .browser import open_page, wait_for_text
from .page_data import HOSTILE, Example, example, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
LONG = "a" * 50_000 + HOSTILE + "z" * 50_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """The attack wherever a text of others can stand."""
    folder, instructions = tmp_path_factory.mktemp("run"), dict.fromkeys(range(3), HOSTILE)
    made = example(folder, 3, models=("fine", "other"), instructions=instructions, reply=LONG)
    report, items = made.report, made.edits["items"]
    report["models"][1]["name"] = f"model {HOSTILE}"
    report["title"] = report["runs"][0]["name"] = HOSTILE
    report["warnings"] = [HOSTILE]
    (table,) = report["tables"]
    published = {"source": HOSTILE, "judge": HOSTILE, "note": HOSTILE, "models": {HOSTILE: {}}}
    table |= {"title": HOSTILE, "notes": [HOSTILE], "published": [published]}
    table["columns"][0]["title"] = HOSTILE
    report["figures"] = [{"title": HOSTILE, "note": HOSTILE, "svg": "<svg></svg>"}]
    report["dimensions"][1] |= {"title": HOSTILE, "asks": HOSTILE}
    items["id"] = [f"{n} {HOSTILE}" for n in range(3)]
    items["task"] = items["target_text"] = [HOSTILE] * 3
    made.edits["missing"] = [HOSTILE] * 6
    made.edits["picture"][1] = None
    detail = made.details["detail-0"]
    detail["items"]["0"]["extra"] = {HOSTILE: HOSTILE}
    for edit in detail["edits"].values():
        for verdict in edit["verdicts"]:
            shares = {HOSTILE: 0.9, "__proto__": 0.1}
            verdict["evidence"] = {HOSTILE: [HOSTILE], "read": HOSTILE, "probabilities": shares}
            verdict["reason"] = verdict["kind"] = HOSTILE
    return made


@pytest.mark.parametrize("name", ["page.html", "page"])
def test_texts_of_others_stay_texts(browser: Browser, tmp_path: Path, hostile: Example, name: str) -> None:
    address = write_page(hostile, tmp_path / name).as_uri()
    with open_page(browser, address) as page:
        assert "<script>window.hacked" in page.locator("#title").inner_text()
        page.goto(address + first(hostile))
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


def first(made: Example) -> str:
    """What leads to the first edit, behind the page's address."""
    return f"#edit={quote(made.edits['items']['id'][0], safe='')}&model=fine"


def test_a_reply_of_100_kb_is_cut_until_somebody_wants_it(browser: Browser, tmp_path: Path, hostile: Example) -> None:
    address = write_page(hostile, tmp_path / "page.html").as_uri()
    with open_page(browser, address + first(hostile)) as page:
        page.keyboard.press("v")
        more = page.get_by_text(f"show all {len(LONG):,} characters")
        more.first.wait_for()
        text = page.locator(".reply pre[aria-label=reply]").first
        assert len(text.inner_text()) == 3000
        more.first.click()
        assert len(text.inner_text()) > 100_000


def test_ten_thousand_edits_scroll_with_a_handful_of_rows(browser: Browser, tmp_path: Path) -> None:
    made = multiply(example(tmp_path / "run", 20, models=tuple("abcde")), 100)
    address = write_page(made, tmp_path / "page.html").as_uri()
    with open_page(browser, f"{address}#view=edits") as page:
        assert page.locator("#count").inner_text() == "10,000 edits"
        rows = page.locator(".row")
        assert 5 < rows.count() < 60
        for part in (0.3, 0.9, 0.5, 1):
            page.locator("#list").evaluate("(list, part) => { list.scrollTop = part * list.scrollHeight; }", part)
            middle = f".row[aria-posinset='{max(1, round(10_000 * part))}']"
            page.locator(middle).wait_for()
            assert rows.count() < 60
        page.locator("#list").focus()
        page.keyboard.press("End")
        assert page.locator("#where").inner_text() == "10,000 of 10,000"
        assert page.locator("#edit-id").inner_text() == "item 1999"
        assert page.locator("#list").get_attribute("aria-activedescendant") == "row-9999"
        page.fill("#f-words", "item 1235")
        wait_for_text(page, "#count", "5 of 10,000 edits")
        page.select_option("#f-sort", "gap")
        wait_for_text(page, "#count", "1 item with values of both models")


def multiply(made: Example, times: int) -> Example:
    """The same edits so many times, of other items, without their details."""
    edits, items = made.edits, made.edits["items"]
    count = len(items["id"])
    shifts = [count * turn for turn in range(times)]
    made.details = {}
    made.edits = {
        "items": {name: column * times for name, column in items.items()},
        "item": [shift + item for shift in shifts for item in edits["item"]],
        **{name: edits[name] * times for name in ("model", "picture", "missing")},
        **{
            name: [one and one * (times if len(one) > 1 else 1) for one in edits[name]]
            for name in ("values", "status", "kind")
        },
    }
    made.edits["items"]["id"] = [f"item {number}" for number in range(count * times)]
    return made
