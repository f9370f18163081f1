"""`editjudge demo`, and its report in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.view import RunView
from editjudge.base.verdict import Score
from editjudge.benchmarks.column import Row
from editjudge_services.demo.editors import EDITORS

from .browser import assert_fits, open_file
from .conftest import run

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    ran = run("demo", "--out", out)
    assert ran.code == 0, ran.err
    assert "14 edits by 3 editors" in ran.out
    stages = re.findall(r"^(\d) of 4: (\w+)", ran.err, re.MULTILINE)
    assert stages == [("1", "drawing"), ("2", "starting"), ("3", "judging"), ("4", "computing")]
    return out


@pytest.fixture(scope="module")
def results(demo: Path) -> dict[str, Any]:
    return json.loads((demo / "results.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def rows(demo: Path) -> list[Row]:
    with RunView(demo / "run") as view:
        return list(view.rows())


def by_item(rows: list[Row], dimension: str) -> dict[str, dict[str, float]]:
    """`{item: {editor: value}}` of a dimension, over the edits it applies to."""
    values: dict[str, dict[str, float]] = {}
    for row in rows:
        outcome = row.outcomes[dimension]
        if isinstance(outcome, Score):
            values.setdefault(row.item.id, {})[row.model] = outcome.value
    return values


Values = dict[str, float]


@pytest.mark.parametrize(
    ("metric", "count", "is_as_it_should_be"),
    [
        ("psnr.source.outside", 14, lambda by: min(by["exact"], by["no_edit"]) > by["damaged"]),
        ("ssim.source.outside", 14, lambda by: min(by["exact"], by["no_edit"]) > by["damaged"]),
        ("aligned_psnr.target.inside", 14, lambda by: by["exact"] > by["damaged"] > by["no_edit"]),
        ("aligned_mse.target.inside", 14, lambda by: by["exact"] < by["damaged"] < by["no_edit"]),
        ("drift.shift", 14, lambda by: by["exact"] == by["no_edit"] == 0 and abs(by["damaged"] - 6) < 0.05),
        ("drift.zoom", 14, lambda by: max(by.values()) < 0.05),
        ("drift.color", 14, lambda by: max(by["exact"], by["no_edit"]) < 1 < 10 < by["damaged"]),
        ("drift.detail", 14, lambda by: max(by["exact"], by["no_edit"]) < 1 < 4 < by["damaged"]),
        ("text_content_accuracy", 3, lambda by: by["exact"] > 0.9 > 0.2 > by["no_edit"]),
    ],
)
def test_editors_stand_in_their_order(
    rows: list[Row], metric: str, count: int, is_as_it_should_be: Callable[[Values], bool]
) -> None:
    values = by_item(rows, f"core.{metric}")
    assert len(values) == count
    assert [item for item, by in values.items() if not is_as_it_should_be(by)] == []


def test_every_verdict_has_a_number_or_a_reason(rows: list[Row]) -> None:
    assert len(rows) == 14 * len(EDITORS)
    outcomes = [outcome for row in rows for outcome in row.outcomes.values()]
    assert all(isinstance(one, Score) or one.reason for one in outcomes)
    assert {one.status for one in outcomes} <= {
        "scored", "unscored", "not_applicable", "not_served",
    }  # fmt: skip


def test_the_summary_counts(results: dict[str, Any]) -> None:
    for row in results["models"].values():
        assert row["core.psnr.source.outside"]["scored"] == 14
        assert row["core.text_content_accuracy"]["asked"] == 3


@pytest.mark.browser
def test_the_report_in_a_browser(demo: Path) -> None:
    with open_file(demo / "report.html") as page:
        assert page.title() == "editjudge demo"
        assert page.locator(".board tbody tr").count() == len(EDITORS)
        assert "Why no single preservation number" in page.locator("#introduction").inner_text()
        assert_fits(page, (420, 1280))
        page.locator("#to-edits").click()
        assert page.locator("#count").inner_text() == "42 edits"
        for model in EDITORS:
            page.keyboard.press("j")
            assert page.locator("#edit-model").inner_text() == model
            for image in page.locator("img:visible").all():
                image.evaluate("image => image.decode()")
                assert image.evaluate("image => image.naturalWidth") > 0
        page.goto(f"{page.url.partition('#')[0]}#edit=coffee-card&model=damaged&show=flicker")
        page.locator("#aligned").check()
        moved_back = page.locator(".layer.top img").evaluate("image => image.style.transform")
        assert "translate(" in moved_back
        assert "rotate(" in moved_back
        page.locator("#list").focus()
        page.keyboard.press("End")  # no sign is put up in it
        page.locator("[data-dimension='core.aligned_mse.target.inside']").wait_for()
        assert page.locator("[data-dimension='core.text_content_accuracy']").count() == 0
        assert "not applicable" in page.locator("#verdicts").inner_text()

        assert_fits(page)
