"""The page of the Judge service in a browser, as `editjudge serve` serves it."""

from __future__ import annotations

import asyncio

import pytest

from editjudge.base.config import Settings
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.service import JudgeService

from .browser import NO_WORDS, assert_fits, chromium, opened


@pytest.mark.browser
async def test_the_page_keeps_to_its_policy_fits_and_has_two_colours() -> None:
    async with JudgeService(Settings()) as service, serve_http(service, "127.0.0.1", 0, 5) as base:
        assert len(await asyncio.to_thread(_colours, f"{base}/v1/docs")) == 2


def _colours(address: str) -> set[str]:
    """That of the page where people want a light one, and a dark one."""
    found = set()
    with chromium() as browser:
        for scheme in ("light", "dark"):
            with opened(browser, address, (address,), in_words=False, color_scheme=scheme) as page:
                assert_fits(page)
                page.click("a[href='#ScoreRequest']")
                assert page.evaluate("location.hash") == "#ScoreRequest"
                found.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                # A type of JSON is called so.
                assert all("null" in each for each in page.evaluate(NO_WORDS))
    return found
