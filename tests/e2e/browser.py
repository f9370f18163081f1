"""A page of ours in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def shown(file: Path, may_load: tuple[str, ...] = ("file:", "data:")) -> Iterator[Page]:
    """A page in chromium; at the end, that it had no errors and loaded nothing else.

    Args:
        may_load: How addresses begin that it may load.
    """
    from playwright.sync_api import sync_playwright

    requests: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(file.as_uri())
        yield page
        browser.close()
    assert [url for url in requests if not url.startswith(may_load)] == []
    assert errors == []


def assert_fits(page: Page) -> None:
    """That no window, wide or narrow, has to be scrolled sideways."""
    for width in (1280, 420):
        page.set_viewport_size({"width": width, "height": 900})
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"the page is {overflow} px wider than a window of {width}"
