"""The edits of the results page in a browser: found, looked at, and linked to."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pil

from .browser import open_page, wait_for_text
from .page_data import ARTIFACTS, DIMENSIONS, FOLLOWS, MODELS, READ, Example, example, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Example:
    return example(tmp_path_factory.mktemp("run"), items=20)


@pytest.fixture(scope="module")
def address(contents: Example, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(contents, tmp_path_factory.mktemp("page") / "page.html").as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with open_page(browser, f"{address}#view=edits") as shown:
        yield shown


def at(page: Page) -> tuple[str, str]:
    """Item and model of the open edit."""
    item, model = (page.locator(f"#edit-{name}").inner_text() for name in ("id", "model"))
    return item, model


def count(page: Page) -> int:
    found = re.match(r"[\d,]+", page.locator("#count").inner_text())
    assert found
    return int(found[0].replace(",", ""))


def test_filters_find_what_the_data_holds_and_stay_in_the_address(page: Page, contents: Example) -> None:
    asked = contents.dimension(FOLLOWS)
    status, kind = contents.edits["status"][asked], contents.edits["kind"][asked]
    assert count(page) == len(status)
    page.select_option("#f-dimension", FOLLOWS)
    page.select_option("#f-status", "unscored")
    assert count(page) == status.count("U")
    page.select_option("#f-kind", "refused")
    assert count(page) == kind.count("r") > 0
    assert "? refused" in page.locator(".row").first.inner_text()
    page.reload()
    assert count(page) == kind.count("r")
    page.locator("#f-clear").click()
    page.select_option("#f-of", MODELS[2])
    page.select_option("#f-task", "text")
    assert count(page) == contents.edits["items"]["task"].count("text")
    page.fill("#f-words", "cup 12 RED")
    wait_for_text(page, "#count", "1 of 60 edits")
    page.fill("#f-words", "no such words")
    page.wait_for_selector("#nothing:not([hidden])")


def test_words_are_found_in_replies(page: Page) -> None:
    page.fill("#f-words", "red now, item 17.")
    page.wait_for_selector("#nothing:not([hidden])")
    page.check("#f-in")
    wait_for_text(page, "#count", "3 of 60 edits")
    assert all("item 17" in text for text in page.locator(".row").all_inner_texts())


def test_edits_are_sorted_by_a_value_and_by_the_gap_of_two_models(page: Page, contents: Example) -> None:
    values = contents.values(DIMENSIONS[0])
    page.select_option("#f-dimension", DIMENSIONS[0])
    page.select_option("#f-sort", "worst")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    worst = values.index(min(value for value in values if value is not None))
    assert page.evaluate("location.hash").endswith(contents.link(worst)[1:])
    page.select_option("#f-sort", "gap")
    page.select_option("#f-b", MODELS[2])
    pairs = [(values[3 * item], values[3 * item + 2]) for item in range(20)]
    gaps = {item: a - b for item, (a, b) in enumerate(pairs) if a is not None and b is not None}
    widest = max(gaps, key=lambda item: abs(gaps[item]))
    assert count(page) == len(gaps)
    first = page.locator(".row[aria-posinset='1']").inner_text()
    assert f"item {widest}" in first
    assert f"{abs(gaps[widest]):.3f}"[:4] in first
    page.locator(".row[aria-posinset='1']").click()
    captions = page.locator("#panes figcaption bdi").all_inner_texts()
    assert {"source", MODELS[0], MODELS[2]} <= set(captions)
    assert page.locator("#where").inner_text() == f"1 of {len(gaps)}"


def test_a_link_opens_its_edit_and_back_closes_it(
    browser: Browser, address: str, page: Page, contents: Example
) -> None:
    page.locator(".row").nth(4).click()
    assert at(page) == ("item 1", MODELS[1])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#link").click()
    wait_for_text(page, "#link", "copied")
    copied = str(page.evaluate("navigator.clipboard.readText()"))
    page.go_back()
    assert page.locator("#edit").is_hidden()
    with open_page(browser, copied) as other:
        assert at(other) == ("item 1", MODELS[1])
        other.evaluate(f"location.hash = {contents.link(8)!r}")
        wait_for_text(other, "#edit-id", "item 2")
        assert other.locator(".row[aria-selected=true]").count() == 1


def test_everything_can_be_done_by_keys(page: Page) -> None:
    press = page.keyboard.press
    press("j")
    press("ArrowDown")
    press("j")
    press("k")
    assert at(page) == ("item 0", MODELS[1])
    press("l")
    assert at(page) == ("item 0", MODELS[2])
    press("ArrowLeft")
    press("h")
    assert at(page) == ("item 0", MODELS[0])
    press("?")
    assert page.locator("#help").is_visible()
    press("Escape")
    assert page.locator("#help").is_hidden()
    assert page.locator("#edit").is_visible(), "closing the help closes nothing else"
    for key, mode in (("2", "slider"), ("3", "flicker"), ("4", "difference"), ("1", "")):
        press(key)
        assert page.locator("[data-show][aria-pressed=true]").get_attribute("data-show") == mode
    press("m")
    assert page.locator("#mask").get_attribute("aria-pressed") == "true"
    assert page.locator("#panes .mask").count() == page.locator("#panes .layer").count()
    press("/")
    page.keyboard.type("cup 7 jk")
    assert page.locator("#f-words").input_value() == "cup 7 jk"
    press("Escape")
    press("Escape")
    assert page.locator("#edit").is_hidden()
    press("r")
    assert page.locator("#results").is_visible()
    focused = set()
    for _ in range(12):
        press("Tab")
        focused.add(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    assert len(focused) == 12, "the focus goes on and is nowhere caught"


def test_a_link_to_an_edit_that_is_not_there_is_told(browser: Browser, address: str) -> None:
    with open_page(browser, f"{address}#edit=nope&model={MODELS[0]}") as page:
        wait_for_text(page, "#astray", "There is no such edit on this page: nope")
        page.locator("#list").focus()
        page.keyboard.press("j")
        page.locator("#edit-id").wait_for()
        assert page.locator("#astray").is_hidden()


def test_two_pictures_of_which_one_is_missing_are_not_laid_over_each_other(
    browser: Browser, contents: Example, address: str
) -> None:
    missing = contents.edits["picture"].index(None)
    for edit, told in ((missing, True), (0, False)):
        with open_page(browser, address + contents.link(edit, "&show=slider")) as page:
            page.locator("#panes .frame").first.wait_for()
            assert page.locator("#alone").is_visible() is told
            page.keyboard.press("1")
            assert page.locator("#alone").is_hidden()


def test_the_slider_is_moved_by_keys_and_by_hand(browser: Browser, address: str, contents: Example) -> None:
    with open_page(browser, address + contents.link(0, "&show=slider")) as page:
        veil = page.locator(".veil")
        clip = "each => each.style.clipPath"
        assert veil.evaluate(clip) == "inset(0px 0px 0px 50%)"
        page.locator("#cut").focus()
        page.keyboard.press("Home")
        assert veil.evaluate(clip) in ("inset(0px)", "inset(0px 0px 0px 0%)")
        frame = page.locator(".frame").bounding_box()
        handle = page.locator(".divider").bounding_box()
        assert frame
        assert handle
        page.mouse.move(handle["x"] + 17, handle["y"] + 60)
        page.mouse.down()
        page.mouse.move(frame["x"] + frame["width"] * 0.75, handle["y"] + 60)
        page.mouse.up()
        assert page.locator("#cut").input_value() == "75"


def test_all_pictures_are_zoomed_and_moved_in_step(browser: Browser, address: str, contents: Example) -> None:
    with open_page(browser, address + contents.link(0)) as page:
        layers = page.locator(".layer")
        assert layers.count() == 1 + len(MODELS)
        page.keyboard.press("+")
        page.locator(".frame").nth(1).dblclick(position={"x": 10, "y": 10})
        page.keyboard.press("0")
        page.locator(".frame").nth(2).dblclick(position={"x": 10, "y": 10})
        box = page.locator(".frame").first.bounding_box()
        assert box
        page.mouse.move(box["x"] + 60, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 30, box["y"] + 40)
        page.mouse.up()
        moved = {layer.evaluate("each => each.style.transform") for layer in layers.all()}
        assert len(moved) == 1
        (only,) = moved
        assert "scale(3)" in only
        assert page.locator("#zoom").inner_text() == "300 %"


def test_a_flicker_shows_one_and_then_the_other(browser: Browser, address: str, contents: Example) -> None:
    show = contents.link(0, "&show=flicker")
    with open_page(browser, address + show, reduced_motion="reduce") as page:
        seen = page.locator("#seen")
        before = seen.inner_text()
        page.keyboard.press(" ")
        assert {before, seen.inner_text()} == {"source", MODELS[0]}
        page.keyboard.press(" ")
        assert seen.inner_text() == before


def test_the_difference_is_that_of_the_pixels(browser: Browser, address: str, contents: Example) -> None:
    source, result = (
        np.asarray(_pixels(contents.pictures[name]), float)
        for name in (contents.edits["items"]["sources"][0][0], contents.edits["picture"][0])
    )
    luma = np.abs(source - result) @ (0.2126, 0.7152, 0.0722)
    share = 100 * float(np.mean(luma > 16))
    with open_page(browser, address + contents.link(0, "&show=difference")) as page:
        wait_for_text(page, "#changed", re.compile("%"))
        said = page.locator("#changed").inner_text()
        found = re.match(r"([\d.]+) % of the pixels", said)
        assert found
        assert float(found[1]) == pytest.approx(share, abs=0.3)
        assert "inside the mask" in said


def _pixels(uri: str) -> Pil.Image:
    return Pil.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")


def test_a_verdict_says_what_was_asked_and_said(browser: Browser, address: str, contents: Example) -> None:
    edit = 9  # of a text, and judged
    with open_page(browser, address + contents.link(edit)) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        judged = page.locator(f"[data-dimension='{ARTIFACTS}']")
        judged.locator("summary").first.click()
        judged.locator(".question").wait_for()
        assert judged.locator(".question").inner_text() == "Is it free of them?"
        share = contents.values(ARTIFACTS)[edit]
        assert share is not None
        assert f"{100 * share:.1f} %" in judged.locator(".chances .most").inner_text()
        assert "other answers" in judged.locator(".chances").inner_text()
        assert "is red now, item 3." in judged.locator(".reply").inner_text()
        prompt = judged.locator(".prompt")
        assert prompt.is_hidden()
        judged.get_by_text("prompt as sent").click()
        assert "source 96×64" in prompt.inner_text()
        assert prompt.locator("mark").inner_text() == "make cup 3 red, by aurora-edit"
        judged.get_by_text("copy signature").click()
        judged.get_by_text("copied").wait_for()
        assert ARTIFACTS in str(page.evaluate("navigator.clipboard.readText()"))

        read = page.locator(f"[data-dimension='{READ}']")
        read.locator("summary").first.click()
        read.locator(".marked").wait_for()
        assert read.locator("del").all_inner_texts() == ["E"]
        assert read.locator("ins").all_inner_texts() == ["T"]


def test_a_page_in_a_folder_works_from_a_double_click(browser: Browser, contents: Example, tmp_path: Path) -> None:
    index = write_page(contents, tmp_path / "out")
    (detail,) = tmp_path.rglob("detail-1.js")
    detail.unlink()
    with open_page(browser, index.as_uri() + contents.link(6, "&show=difference")) as page:
        page.locator("#panes canvas[width='96']").wait_for()
        judged = page.locator(f"[data-dimension='{ARTIFACTS}']")
        judged.locator("summary").first.click()
        judged.locator(".chances").wait_for()
        assert page.locator("#changed").inner_text() == "", "its pixels may not be read"


def test_details_that_are_not_there_are_said_and_cost_nothing_else(
    browser: Browser, contents: Example, tmp_path: Path
) -> None:
    first = {"detail-0": contents.details["detail-0"]}
    address = write_page(replace(contents, details=first), tmp_path / "page.html").as_uri()
    with open_page(browser, address + contents.link(55)) as page:
        page.keyboard.press("v")
        page.get_by_text("cannot be read: the page has no detail-1").first.wait_for()
        assert page.locator("#panes img").first.is_visible()
