"""The page of agreement: what it shows, and that text from data stays text."""

from __future__ import annotations

import html
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from editjudge.app.agreement import Agreement
from editjudge.app.human_agreement import measure_agreement
from editjudge.app.ratings import read_ratings
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.report.agreement_page import write_agreement

from ...small_data import PSNR
from ..app.test_human_agreement import ITEMS, MODELS, RATINGS, make_run, quality, write_lines

EVIL = "<script>alert(1)</script>"


def make_page(tmp_path: Path, lines: list[str]) -> str:
    run, out = make_run(tmp_path, "run", quality), tmp_path / "page.html"
    with ExitStack() as stack:
        views = [stack.enter_context(RunView(run))]
        write_agreement(measure_agreement(views, read_ratings([write_lines(tmp_path / "p.csv", lines)])), views, out)
    return out.read_text("utf-8")


def test_ratings(tmp_path: Path) -> None:
    """Item 3 is rated against the judge: it is shown with its pictures."""
    rows = [
        f"{item},{name},{PSNR},{rater},{99 - quality(item, n) if item == 3 else quality(item, n)},{EVIL}{item % 2}"
        for item in range(ITEMS)
        for n, name in enumerate(MODELS)
        for rater in ("ann", "ben")
    ]
    page = make_page(tmp_path, [f"{RATINGS},category", *rows])
    assert page.count("<circle") == len(MODELS) * ITEMS + len(MODELS)
    assert "a rater against the others" in page
    differing = re.findall(r"<h4>(\S+), (\w+)</h4>", page)
    assert differing[0][0] == "3"
    assert page.count("data:image/webp;base64,") == 2 * len(differing)
    assert EVIL not in page
    assert html.escape(EVIL) in page
    assert "<script" not in page


def test_votes(tmp_path: Path) -> None:
    lines = ["item,model_a,model_b,dimension,rater,vote"]
    lines += [f"{item},ours,theirs,{PSNR},ann,{'A' if item < 2 else 'B'}" for item in range(ITEMS)]
    page = make_page(tmp_path, lines)
    assert "Of its decided votes 0 % are for edit A; of people's 17 %." in page
    assert re.findall(r"<h4>(.+)</h4>", page) == ["0, ours and theirs", "1, ours and theirs"]
    assert page.count("data:image/webp;base64,") == 6


def test_nothing_else_is_written_over(tmp_path: Path) -> None:
    out = tmp_path / "mine.html"
    out.write_text("mine")
    with pytest.raises(ConfigError, match="no page of editjudge report"):
        write_agreement(Agreement(tables=()), [], out)
    assert out.read_text() == "mine"
