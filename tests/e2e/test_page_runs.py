"""A page of two runs in a browser, as `editjudge report` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..report_runs import DIMENSIONS, NASTY, make_run
from .browser import open_page
from .conftest import run_in_process

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.browser
@pytest.mark.parametrize("out", ["page.html", "folder"])
def test_runs_are_compared_on_one_page(browser: Browser, tmp_path: Path, out: str) -> None:
    first = make_run(tmp_path, 4, ("alpha", "beta"), reply=NASTY)
    second = make_run(tmp_path, 4, ("alpha", "gamma"), name="second", reply=NASTY)
    written = tmp_path / out
    done = run_in_process("report", first, second, "--out", written)
    assert done.code == 0, done.err
    page_at = written if out.endswith(".html") else written / "index.html"
    names = {"alpha (run)", "beta", "alpha (second)", "gamma"}
    with open_page(browser, page_at.as_uri()) as page:
        rows = page.locator(".board tbody th bdi.name").all_inner_texts()
        assert set(rows) == names
        assert page.locator("#runs .run").count() == 2
        page.keyboard.press("j")
        models = page.locator("#models .chip").all_inner_texts()
        assert set(models) == names, "results of one item stand together"
        page.keyboard.press("v")
        page.locator(".prompt").first.wait_for(state="attached")
        assert page.locator("#verdicts .verdict[open]").count() == len(DIMENSIONS)
        assert "onerror=alert(1)" in page.locator(".reply pre").first.inner_text()
        assert page.locator("#app img[src=x]").count() == 0
