"""What a page is told of edits."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from editjudge.app.view import RunView
from editjudge.base.errors import MissingExtra
from editjudge.benchmarks.figures import Figure
from editjudge.report import page as module
from editjudge.report.edits import CHUNK, Edits, PageRun
from editjudge.report.page import PageOptions, build_report
from editjudge.report.pictures import PictureNames

from ...report_runs import ASKED, DIMENSIONS, NASTY, READ, make_run, picture


class Page:
    """Runs, index."""

    def __init__(self, *runs: Path) -> None:
        self.chunks: dict[str, dict[str, Any]] = {}
        self.index = Edits(PictureNames(), self.chunks.__setitem__)
        with ExitStack() as opened:
            views = [opened.enter_context(RunView(run)) for run in runs]
            places = itertools.count()
            self.shown = [PageRun(v, n, {m: next(places) for m in v.header.outputs}) for n, v in enumerate(views)]
            for each in self.shown:
                each.read(self.index, with_published=False)
        self.index.flush()
        self.edits = self.index.build_index()
        self.report = build_report(self.shown, self.index, PageOptions())

    def verdict(self, edit: int, dimension: str) -> dict[str, Any]:
        number = self.index.dimensions[dimension].number
        details = self.chunks[f"detail-{edit // CHUNK}"]["edits"][edit]
        (found,) = [v for v in details["verdicts"] if v["dimension"] == number]
        return found  # type: ignore[no-any-return]

    def text(self, number: int | None, chunk: int = 0) -> str | None:
        return None if number is None else self.chunks[f"detail-{chunk}"]["texts"][number]


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page(run)


def test_the_index_says_what_the_run_says(page: Page, run: Path) -> None:
    ids = [page.edits["items"]["id"][item] for item in page.edits["item"]]
    names = [page.report["models"][model]["name"] for model in page.edits["model"]]
    with RunView(run) as view:
        rows = list(view.rows())
    assert [(row.item.id, row.model) for row in rows] == list(zip(ids, names, strict=True))
    for number, dimension in enumerate(page.index.dimensions):
        said = [row.outcomes[dimension].value for row in rows]
        shown = page.edits["values"][number]
        assert [one is None for one in shown] == [one is None for one in said]
        assert [one or 0.0 for one in shown] == pytest.approx([one or 0.0 for one in said], rel=1e-5)
    letters = {"S", "U", "F", "M", "N"}
    assert letters == set("".join(page.edits["status"])), "each has its letter"
    assert page.edits["missing"][-1].endswith("item 5.png")
    assert page.edits["picture"][-1] is None, "what is missing has no picture"


def test_pictures_are_named_and_nothing_else_is(page: Page) -> None:
    files = page.index.names.files
    assert {path.name for path in files.values()} >= {"item 0.png", "mask.png", "0.png"}
    assert page.edits["items"]["sources"][0] == page.edits["items"]["sources"][1], "one source"
    assert set(page.edits["picture"]) - {None} <= files.keys()


def test_a_verdict_comes_with_all_that_it_rests_on(page: Page) -> None:
    verdict = page.verdict(0, ASKED[0])
    assert set(verdict["evidence"]["probabilities"]) == {"Yes", "No"}
    (number,) = verdict["calls"]
    call = page.chunks["detail-0"]["calls"][number]
    assert call["reply"]["text"] == NASTY
    assert (call["model"], call["prompt_tokens"]) == ("judge-8b", 900)
    prompt = page.chunks["detail-0"]["prompts"][call["prompt"]]
    assert page.text(prompt["system"]) == "You look at pictures."
    first, picture, data = prompt["parts"]
    assert not first["data"]
    assert data["data"], "what came from the data is marked"
    assert picture["name"] == "source"
    assert "core.editing_artifacts" in (page.text(verdict["signature"]) or "")
    assert page.verdict(0, READ)["evidence"]["read"] == "SALT"
    assert page.edits["items"]["target_text"][0] == "SALE"


def test_texts_are_held_once(page: Page) -> None:
    texts = page.chunks["detail-0"]["texts"]
    assert len(texts) == len(set(texts))
    assert sum("Look at the whole picture" in text for text in texts) == len(ASKED)


def test_the_leaderboard_is_the_summary(page: Page, run: Path) -> None:
    (table,) = page.report["tables"]
    with RunView(run) as view:
        results = view.results()
    for row, model in zip(table["rows"], results.models, strict=True):
        for cell, column in zip(row["cells"], table["columns"], strict=True):
            of = results.models[model][column["id"]]
            assert [cell[name] for name in ("value", "scored", "asked")] == [*(of.value, of.scored, of.asked)]
    for place in range(len(table["columns"])):
        leads = sorted(row["cells"][place]["lead"] for row in table["rows"])
        assert leads in (["", "best"], ["", ""]), "so few edits make nothing sure"


def test_what_nobody_serves_is_one_line(tmp_path: Path) -> None:
    quality = ("core.quality.piqe", "core.quality.qinsight")
    absent = {name.removeprefix("core."): "no service of this name" for name in quality}
    run = make_run(tmp_path, 2, dimensions=(*quality, *DIMENSIONS[:1]), not_served=absent)
    (table,) = Page(run).report["tables"]
    assert len(table["columns"]) == 1, "what waits for a model is no column"
    (*_, line) = table["notes"]
    assert line.startswith("2 numbers need models that are not served: editjudge summary ")


def test_two_runs_share_items_of_the_same_data(tmp_path: Path) -> None:
    first = make_run(tmp_path, 3, ("alpha",), name="one", odd=False)
    second = make_run(tmp_path, 3, ("alpha",), name="two", odd=False)
    page = Page(first, second)
    assert page.edits["item"] == [0, 1, 2, 0, 1, 2]
    assert page.edits["model"] == [0, 0, 0, 1, 1, 1]
    (table,) = page.report["tables"]
    assert [row["model"] for row in table["rows"]] == [0, 1]
    assert len(page.report["runs"]) == 2


def test_runs_of_other_dimensions_have_tables_of_their_own(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", 2, ("m",), dimensions=DIMENSIONS[:2], odd=False)
    second = make_run(tmp_path / "b", 2, ("m",), dimensions=DIMENSIONS[1:3], odd=False)
    page = Page(first, second)
    assert [len(table["columns"]) for table in page.report["tables"]] == [2, 2]
    assert page.edits["item"] == [0, 1, 2, 3], "items of other data are others"
    assert page.edits["status"][2] == "NNSS", "what a run does not ask about"


def test_what_changed_since_is_shown_and_does_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path, 3, ("m",), dimensions=(DIMENSIONS[0], ASKED[0]), odd=False)
    picture(tmp_path / "outputs/m/item 1.png", 99)
    page = Page(run)
    assert page.edits["status"] == ["SPS", "SPS"]
    shown = page.chunks["detail-0"]["edits"]
    assert [bool(shown[edit]["verdicts"]) for edit in range(3)] == [True, False, True]
    words = ("changed", "others", "another")
    assert any(word in line for line in page.report["warnings"] for word in words)


def test_without_matplotlib_there_are_no_figures(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> bytes:
        raise MissingExtra("figures", "demo")

    monkeypatch.setattr(module, "load_figures", lambda _: [Figure("radar", "figure 1", ())])
    monkeypatch.setattr(module, "draw_figure", missing)
    report = build_report(page.shown, page.index, PageOptions())
    assert report["figures"] == []
    assert any("[demo]" in line for line in report["warnings"])


def test_another_version_is_told(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    (shown,) = page.shown
    older = shown.header.model_copy(update={"editjudge": "0.0.1"})
    monkeypatch.setattr(shown, "header", older)
    report = build_report([shown], page.index, PageOptions())
    assert any("last written by editjudge 0.0.1" in line for line in report["warnings"])
