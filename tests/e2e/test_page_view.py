"""The page of `editjudge view` in a browser, while the run goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from editjudge.base.verdict import Score
from editjudge.engine.content_keys import JudgedEdit
from editjudge.report import view as module
from editjudge.report.view import LiveRuns, serve_page
from editjudge.storage.store import RunStore

from ..report_runs import DIMENSIONS, make_run
from .browser import assert_fits, chromium, opened, says

MODELS = ("alpha", "beta")


@pytest.mark.browser
async def test_a_page_follows_its_run_and_keeps_what_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FEWEST_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0)
    run = make_run(tmp_path, 3, MODELS, dimensions=DIMENSIONS[:1], odd=False)

    def judge(value: float) -> None:
        with RunStore.open(run) as store:
            edit = store.edit("item 1", "alpha")
            assert edit is not None
            signatures = {v.dimension: v.signature for v in store.verdicts()}
            store.save_edit_now(
                JudgedEdit(edit.item, edit.model), {DIMENSIONS[0]: Score(value=value)}, signatures
            )

    with LiveRuns([run]) as live:
        async with serve_page(live) as address:
            await asyncio.to_thread(_followed, address, judge)


@pytest.mark.browser
async def test_a_page_says_that_its_run_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FEWEST_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0)
    run = make_run(tmp_path, 1, MODELS[:1], dimensions=DIMENSIONS[:1], odd=False)
    with LiveRuns([run]) as live:
        async with serve_page(live) as address:
            (run / "run.sqlite").rename(run / "away.sqlite")
            await asyncio.to_thread(_said_of_it, address)


def _said_of_it(address: str) -> None:
    with chromium() as browser, opened(browser, address, (address, "data:")) as page:
        says(page, "#live", re.compile("the page shows an earlier state of the runs: .*no run"))
        assert page.locator(".board").count() == 1
        assert_fits(page, (1440, 390))


def _followed(address: str, judge: Callable[[float], None]) -> None:
    with chromium() as browser, opened(browser, address, (address, "data:")) as page:
        page.locator("#to-edits").click()
        page.fill("#f-words", "cup 1")
        says(page, "#count", "2 of 6 edits")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.locator("#panes img").first.evaluate("image => image.decode()")
        page.keyboard.press("v")
        page.locator(".told .question").first.wait_for()
        judge(17.25)
        says(page, ".row[aria-selected=true] .number", re.compile(r"17\.25"))
        assert page.locator("#edit-id").inner_text() == "item 1"
        assert page.locator("#f-words").input_value() == "cup 1"
        assert "17.25" in page.locator("#verdicts .active .number").inner_text()
