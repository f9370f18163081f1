"""A page of ours in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from re import Pattern
from typing import TYPE_CHECKING, Any

from ..patience import patience

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, to open several pages in."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()


NO_WORDS = r"""() => {
  const all = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  const found = [];
  while (all.nextNode()) {
    const { data, parentElement } = all.currentNode;
    if (parentElement.closest("script, style, pre")) continue;
    if (/\[object|\b(undefined|NaN|Infinity|null)\b|^\s*None\s*$/.test(data)) found.push(data);
  }
  return found;
}"""
"""Texts of a page that are a value which nobody put into words; a judge's own reply is none."""


@contextmanager
def open_page(
    browser: Browser,
    address: str,
    may_load: tuple[str, ...] = ("file:", "data:"),
    *,
    in_words: bool = True,
    **context: Any,
) -> Iterator[Page]:
    """A page; at the end, that it had no errors, broke no policy, loaded nothing else, is in words.

    Args:
        may_load: How addresses begin that it may load.
        in_words: Whether all of it has to be in words at the end.
        context: Of the window: its size, colours, and whether scripts run.
    """
    requests: list[str] = []
    errors: list[str] = []
    window = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
    page = window.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(address)
    yield page
    found = page.evaluate(NO_WORDS) if in_words else []
    window.close()
    assert found == [], f"no words: {found}"
    assert [url for url in requests if not url.startswith(may_load)] == []
    assert errors == []


@contextmanager
def open_file(file: Path, may_load: tuple[str, ...] = ("file:", "data:")) -> Iterator[Page]:
    """A page of a file in a browser of its own."""
    with chromium() as browser, open_page(browser, file.as_uri(), may_load) as page:
        yield page


def wait_for_text(page: Page, selector: str, text: str | Pattern[str]) -> None:
    """That an element comes to say a text; a strict policy lets no page wait by itself."""
    from playwright.sync_api import expect

    element = page.locator(selector)
    expect(element).to_have_text(text, use_inner_text=True, timeout=1000 * patience(10))


def assert_fits(page: Page, widths: tuple[int, ...] = (1280, 420)) -> None:
    """That no window, wide or narrow, has to be scrolled sideways, once it is laid out anew."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        # The page hears of its new size a frame later.
        for _ in range(100):
            overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if overflow <= 0:
                break
            page.wait_for_timeout(20)
        assert overflow <= 0, f"the page is {overflow} px wider than a window of {width}"
