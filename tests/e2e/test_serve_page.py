"""The page of the Judge service in a browser, as `editjudge serve` serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from editjudge.base.config import Settings
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.service import JudgeService

from .browser import NO_WORDS, assert_fits

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def opened(address: str, scheme: str) -> Iterator[Page]:
    """A page in chromium; at the end, that it loaded nothing else and broke no policy."""
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    loaded: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: loaded.append(request.url))
        page.goto(address)
        yield page
        assert [each for each in page.evaluate(NO_WORDS) if "null" not in each] == [], (
            "JSON has null"
        )
        browser.close()
    assert [each for each in loaded if not each.endswith("/favicon.ico")] == [address]
    assert [each for each in said if "favicon" not in each and "404" not in each] == []


@pytest.mark.browser
async def test_the_page_keeps_to_its_policy_fits_and_has_two_colours() -> None:
    async with JudgeService(Settings()) as service, serve_http(service, "127.0.0.1", 0, 5) as base:
        colours = {
            await asyncio.to_thread(_colour, f"{base}/v1/docs", scheme)
            for scheme in ("light", "dark")
        }
    assert len(colours) == 2


def _colour(address: str, scheme: str) -> str:
    with opened(address, scheme) as page:
        assert_fits(page)
        page.click("a[href='#ScoreRequest']")
        assert page.evaluate("location.hash") == "#ScoreRequest"
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
